package proxies_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// TestForwardAuth_ProxiesReplaceTheAddressThatTheClientClaims checks what each proxy does with the client's own address headers in its
// call to Weir: it replaces X-Forwarded-For, and removes Forwarded.
func TestForwardAuth_ProxiesReplaceTheAddressThatTheClientClaims(t *testing.T) {
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) { replacesClaimedAddress(t, p) })
	}
}

func replacesClaimedAddress(t *testing.T, p proxy) {
	t.Helper()
	got := callHeaders(t, p, nil, "X-Forwarded-For", "6.6.6.6", "X-Forwarded-For", "6.6.6.7, 10.0.0.1", "Forwarded", "for=6.6.6.6")
	if lines := got.Values("X-Forwarded-For"); !slices.Equal(lines, []string{"127.0.0.1"}) {
		t.Errorf("X-Forwarded-For: %q, want only the address of the client", lines)
	}
	if lines := got.Values("Forwarded"); len(lines) > 0 {
		t.Errorf("Forwarded: %q, want none", lines)
	}
}

// The page warns of a proxy that does not set the header: it passes on what the client wrote, and Weir cannot notice.
func TestForwardAuth_AProxyThatDoesNotSetTheHeaderPassesTheClientsOn(t *testing.T) {
	line := map[string]string{
		"nginx":   "        proxy_set_header X-Forwarded-For $remote_addr;\n        # Remove",
		"haproxy": "    headers[\"x-forwarded-for\"] = { txn.sf:src() }\n",
	}
	for _, p := range proxies() {
		removed, can := line[p.name]
		if !can { // Caddy and Traefik always set it
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			got := callHeaders(t, p, func(blocks map[string]string) {
				name := map[string]string{"nginx": "nginx closed", "haproxy": "lua weir.lua"}[p.name]
				kept := map[string]string{"nginx": "        # Remove", "haproxy": ""}[p.name]
				blocks[name] = replace(t, blocks[name], removed, kept)
			}, "X-Forwarded-For", "6.6.6.6")
			if lines := got.Values("X-Forwarded-For"); !slices.Equal(lines, []string{"6.6.6.6"}) {
				t.Errorf("X-Forwarded-For: %q, want the address that the client claims", lines)
			}
		})
	}
}

// callHeaders sends a request with the given header lines through the proxy, and returns the headers of the proxy's call to Weir. The
// function edit may change the configuration.
func callHeaders(t *testing.T, p proxy, edit func(blocks map[string]string), lines ...string) http.Header {
	t.Helper()
	var mu sync.Mutex
	var call http.Header
	weir := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/auth/shop" {
			call = r.Header.Clone()
		}
	}))
	weir.Config.Protocols = new(http.Protocols)
	weir.Config.Protocols.SetHTTP1(true)
	weir.Config.Protocols.SetUnencryptedHTTP2(true)
	weir.Start()
	t.Cleanup(weir.Close)
	w := &world{T: t}
	upstream := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(upstream.Close)
	at := places{front: w.free(), weir: weir.Listener.Addr().String(), upstream: upstream.Listener.Addr().String(), dir: t.TempDir()}
	blocks := document(t)
	if edit != nil {
		edit(blocks)
	}
	run(t, at.dir, p, p.configure(t, at, blocks, false)...)
	w.awaitOK("http://" + at.front + "/free")
	w.front = at.front
	if a := w.send(http.MethodGet, "/v1/search", "", lines...); a.status != http.StatusOK {
		t.Fatalf("%+v", a)
	}
	mu.Lock()
	defer mu.Unlock()
	return call
}
