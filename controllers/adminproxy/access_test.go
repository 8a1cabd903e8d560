package adminproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestAccess_TellsAnUnavailableAPIServerFromInvalidCredentials(t *testing.T) {
	rejects := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		review := authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}}
		review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	})
	for name, test := range map[string]struct {
		api    http.Handler // nil: closed
		status int
		detail string
	}{
		"rejects":   {rejects, 401, "has no valid credentials"},
		"refuses":   {nil, 503, "the API server does not answer who the user is"},
		"forbidden": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }), 503, "does not answer who the user is"},
	} {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(test.api)
			defer api.Close()
			if test.api == nil {
				api.Close()
			}
			kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			if err != nil {
				t.Fatal(err)
			}
			access, _, err := Delegated(kube)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("Authorization", "Bearer secret")
			_, bad := access.admit(r, "edge", "main", action{"get", "rules", observer})
			if bad == nil || bad.Status != test.status || !strings.Contains(bad.Detail, test.detail) {
				t.Errorf("%+v, want %d", bad, test.status)
			}
		})
	}
}

func TestAdmit_RejectsImpersonation(t *testing.T) {
	h := newHarness(t)
	h.allowed["jane get limiters.weir.dev/rules of edge/main"] = true
	for _, header := range []string{"Impersonate-User", "Impersonate-Uid", "Impersonate-Group", "Impersonate-Extra-Scopes", "impersonate-user"} {
		r := httptest.NewRequest(http.MethodGet, "/admin/v1/limiters/edge/main/rules", http.NoBody)
		r.Header["Authorization"], r.Header[header] = []string{"Bearer jane"}, []string{""}
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "impersonation is not supported") || len(h.asked) > 0 {
			t.Errorf("%s: %d %s, asked %q", header, w.Code, w.Body.String(), h.asked)
		}
	}
}

func TestAdmit_RejectsAllUsersWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	known := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	})
	for want, answer := range map[string]authorizer.AuthorizerFunc{
		`503 the API server does not answer whether user "jane" is allowed: down`: func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionAllow, "", errors.New("down")
		},
		`403 user "jane" cannot create limiters/resets in namespace edge: bind the ClusterRole weir-responder to the user`: func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionDeny, "", nil
		},
	} {
		access := Access{Authenticator: known, Authorizer: answer}
		_, bad := access.admit(httptest.NewRequest(http.MethodPost, "/", http.NoBody), "edge", "main", action{"create", "resets", responder})
		if bad == nil {
			t.Errorf("admitted, want %s", want)
		} else if got := fmt.Sprint(bad.Status, " ", bad.Detail); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestIsUnavailable_IsAnErrorOfACallAndNotAnAnswer(t *testing.T) {
	call := &url.Error{Op: "Post", Err: errors.New("refused")}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("invalid bearer token"), false},
		{call, true},
		{fmt.Errorf("x: %w", context.Canceled), true},
		{context.DeadlineExceeded, true},
		{apierrors.NewInternalError(errors.New("x")), true},
		{utilerrors.NewAggregate([]error{errors.New("invalid bearer token"), call}), true},
		{utilerrors.NewAggregate([]error{errors.New("invalid bearer token")}), false},
	} {
		if got := isUnavailable(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
