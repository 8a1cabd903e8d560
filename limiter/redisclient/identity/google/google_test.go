package google_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/identity/google"
)

// start starts a stand-in for the metadata server, with the reply to a request for a token.
func start(t *testing.T, status int, reply string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" ||
			r.URL.Query().Get("scopes") != "https://www.googleapis.com/auth/cloud-platform" {
			t.Errorf("request %s with %v", r.URL, r.Header)
		}
		w.Header().Set("Metadata-Flavor", "Google")
		w.WriteHeader(status)
		fmt.Fprint(w, reply)
	}))
	t.Cleanup(server.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
}

func TestFetch_ReturnsTheTokenOfTheServiceAccount(t *testing.T) {
	start(t, http.StatusOK, `{"access_token":"ya29.token","expires_in":3599,"token_type":"Bearer"}`)
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	got, err := google.New(google.Options{Now: func() time.Time { return at }}).Fetch(t.Context())
	if err != nil || got.Username != "default" || got.Password != "ya29.token" || !got.Expires.Equal(at.Add(3599*time.Second)) || got.Problem != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFetch_ReportsErrorsWithoutSecrets(t *testing.T) {
	tests := map[string]struct {
		status      int
		reply, want string
	}{
		"no service account": {http.StatusNotFound, "not found", "404 Not Found: not found"},
		"no permission":      {http.StatusForbidden, "Your Kubernetes service account lacks iam.serviceAccounts.getAccessToken", "getAccessToken"},
		"a reply of another": {http.StatusForbidden, `{"access_token":"ya29.token"}`, "replied 403 Forbidden"},
		"no token":           {http.StatusOK, `{"expires_in":3599}`, "no access token"},
		"no time":            {http.StatusOK, `{"access_token":"ya29.token"}`, "no access token"},
		"no JSON":            {http.StatusOK, `"ya29.token"`, "no access token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start(t, test.status, test.reply)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := google.New(google.Options{}).Fetch(ctx)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "ya29") {
				t.Errorf("error %v, want %q and no token", err, test.want)
			}
		})
	}
}
