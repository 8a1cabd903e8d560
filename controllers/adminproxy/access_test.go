package adminproxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
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
