package endpoints_test

import (
	"sync"
	"testing"

	"github.com/weir-dev/weir/limiter/engine"
)

// observer keeps the endpoints that decisions name.
type observer struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (o *observer) Select(string, bool) engine.Selection { return 1 }

func (o *observer) Decided(_ engine.Selection, c *engine.Check, _ *engine.Answer, _ bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	o.seen[c.Endpoint] = true
}

// expectName compares the endpoint that decisions name with the one that received the requests. Rows that are spent on the engine, and the
// middleware without a Remote, name no endpoint.
func (o *observer) expectName(t *testing.T, endpoint string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	want := map[string]string{
		"POST /v1/check": "check", "/v1/auth with the headers of nginx": "auth", "/v1/auth with the headers of Traefik and Caddy": "auth",
		"ext_authz": "ext_authz", "RLS": "rls", "middleware with a Remote": "check", "grpclimit with a Remote": "check",
	}[endpoint]
	delete(o.seen, "")
	if (want != "") != o.seen[want] || want == "" && len(o.seen) > 0 || len(o.seen) > 1 {
		t.Errorf("decisions name the endpoints %v, want %q", o.seen, want)
	}
}
