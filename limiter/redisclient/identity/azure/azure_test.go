package azure_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/identity/azure"
)

const (
	objectID  = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
	assertion = "eyJhbGciOiJSUzI1NiJ9.the-service-account.signature"
)

var at = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func token() string {
	return "header." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"https://redis.azure.com","oid":"`+objectID+`"}`)) + ".signature"
}

// entra is a stand-in for Microsoft Entra ID and for the metadata service of a node.
type entra struct {
	*httptest.Server

	status int
	reply  string // of the next requests, if not empty
}

func start(t *testing.T) *entra {
	t.Helper()
	e := &entra{status: http.StatusOK}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /the-tenant/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		want := url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"the-client"}, "scope": {"https://redis.azure.com/.default"},
			"client_assertion": {assertion}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		}
		if r.ParseForm() != nil || r.PostForm.Encode() != want.Encode() {
			t.Errorf("Entra got %v", r.PostForm)
		}
		fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":86399,"ext_expires_in":86399,"access_token":%q}`, token())
	})
	mux.HandleFunc("GET /metadata/identity/oauth2/token", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Header.Get("Metadata") != "true" || q.Get("api-version") != "2018-02-01" || q.Get("resource") != "https://redis.azure.com" ||
			q.Get("client_id") != "the-client" {
			t.Errorf("request %s with %v", r.URL, r.Header)
		}
		fmt.Fprintf(w, `{"access_token":%q,"client_id":"the-client","expires_in":"86399","expires_on":"1764331199","resource":"https://redis.azure.com","token_type":"Bearer"}`, token())
	})
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.reply != "" {
			w.WriteHeader(e.status)
			fmt.Fprint(w, e.reply)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *entra) environments(t *testing.T) map[string]map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(assertion+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]map[string]string{
		"workload identity": {
			"AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_CLIENT_ID": "the-client", "AZURE_TENANT_ID": "the-tenant", "AZURE_AUTHORITY_HOST": e.URL + "/",
		},
		"managed identity": {"AZURE_CLIENT_ID": "the-client", "AZURE_POD_IDENTITY_AUTHORITY_HOST": e.URL},
	}
}

func fetch(t *testing.T, user string, variables map[string]string) (identity.Credentials, error) {
	t.Helper()
	provider, err := azure.New(azure.Options{
		User: user, Getenv: func(name string) string { return variables[name] }, Now: func() time.Time { return at },
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider.Fetch(t.Context())
}

func TestFetch_ReturnsATokenOfTheIdentity(t *testing.T) {
	e := start(t)
	for name, variables := range e.environments(t) {
		t.Run(name, func(t *testing.T) {
			for user, want := range map[string]string{"": objectID, "another": "another"} {
				got, err := fetch(t, user, variables)
				if err != nil || got.Username != want || got.Password != token() || !got.Expires.Equal(at.Add(86399*time.Second)) {
					t.Errorf("user %q: %+v, %v", user, got, err)
				}
			}
		})
	}
}

func TestFetch_ReportsErrorsWithoutSecrets(t *testing.T) {
	e := start(t)
	tests := map[string]struct {
		status      int
		reply, want string
	}{
		"a rejected assertion": {
			http.StatusUnauthorized, `{"error":"invalid_client","error_description":"AADSTS700213: No matching federated identity record ` + assertion + `"}`,
			"401 Unauthorized: invalid_client AADSTS700213: No matching federated identity record",
		},
		"an outage": {http.StatusServiceUnavailable, "<html>", "503"},
		"no token":  {http.StatusOK, `{"expires_in":"3600"}`, "has no token"},
		"no time":   {http.StatusOK, `{"access_token":"` + token() + `"}`, "has no token"},
		"no JSON":   {http.StatusOK, `"` + token() + `"`, "has no token"},
		"no object": {http.StatusOK, `{"access_token":"opaque","expires_in":3600}`, "names no object ID"},
	}
	for name, test := range tests {
		for identity, variables := range e.environments(t) {
			t.Run(name+"/"+identity, func(t *testing.T) {
				e.status, e.reply = test.status, test.reply
				_, err := fetch(t, "", variables)
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), token()) ||
					identity == "workload identity" && strings.Contains(err.Error(), assertion) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			})
		}
	}
}

func TestNew_RejectsAnIncompleteWorkloadIdentity(t *testing.T) {
	_, err := azure.New(azure.Options{Getenv: func(name string) string {
		return map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_TENANT_ID": "the-tenant"}[name]
	}})
	if err == nil || !strings.Contains(err.Error(), "azure.workload.identity/client-id") {
		t.Errorf("error %v", err)
	}
}
