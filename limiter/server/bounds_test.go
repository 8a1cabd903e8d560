package server

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// One header of the other family is enough, also if the first family is complete: one of the two comes from the client.
func TestForwardedRequest_RejectsAnyMixOfFamilies(t *testing.T) {
	families := [][]string{{"X-Forwarded-Uri", "X-Forwarded-Method"}, {"X-Original-Uri", "X-Original-Method"}, {"X-Original-Url", "X-Original-Method"}}
	for i, complete := range families {
		others := families[1:]
		if i > 0 {
			others = families[:1]
		}
		for _, other := range slices.Concat(others...) {
			r := httptest.NewRequest(http.MethodGet, "/v1/auth/shop", nil)
			r.Header = http.Header{complete[0]: {"/"}, complete[1]: {"GET"}, other: {"GET"}}
			if _, bad := forwardedRequest(r); bad == nil || !strings.Contains(bad.Detail, "only one can come from the proxy") {
				t.Errorf("%q and %s: %+v, want that they are rejected together", complete, other, bad)
			}
		}
	}
}

func TestForwardedRequest_ReadsTheHostOfAnAbsoluteURL(t *testing.T) {
	for target, want := range map[string]struct{ host, path string }{
		"https://api.shop.example/v1/search?q=x": {"api.shop.example", "/v1/search"},
		"https://api.shop.example?q=x":           {"api.shop.example", "/"},
		"https://api.shop.example":               {"api.shop.example", "/"},
		"https:///v1/search":                     {"proxy.example", "/v1/search"},
		"/v1/search":                             {"proxy.example", "/v1/search"},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://proxy.example/v1/auth/shop", nil)
		r.Header = http.Header{"X-Original-Url": {target}, "X-Original-Method": {"GET"}}
		request, bad := forwardedRequest(r)
		if bad != nil || request.Host != want.host || request.Path != want.path {
			t.Errorf("%s: host %q and path %q, %v; want %+v", target, request.Host, request.Path, bad, want)
		}
	}
}

func TestDecodeBase64_ReadsBothAlphabets(t *testing.T) {
	const text = `{"sub":"~~~???>>>"}`
	encodings := map[string]*base64.Encoding{"std": base64.StdEncoding, "raw std": base64.RawStdEncoding, "URL": base64.URLEncoding, "raw URL": base64.RawURLEncoding}
	for name, encoding := range encodings {
		encoded := encoding.EncodeToString([]byte(text))
		if !strings.ContainsAny(encoded, "+/-_") {
			t.Fatalf("%s does not depend on the alphabet", encoded)
		}
		if got, err := decodeBase64(encoded); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAuth_AcceptsDomainsUpToTheBound(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 9)))
	for length, want := range map[int]int{maxDomain: http.StatusOK, maxDomain + 1: http.StatusBadRequest} {
		if got := call(h, authRequest("/v1/auth/"+strings.Repeat("d", length), nil)).Code; got != want {
			t.Errorf("a domain of %d bytes: status %d, want %d", length, got, want)
		}
	}
}

func TestCheck_AcceptsDomainsUpToTheBound(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 9)))
	for length, want := range map[int]int{253: http.StatusOK, 254: http.StatusBadRequest} {
		body := strings.Replace(acme, `"shop"`, `"`+strings.Repeat("d", length)+`"`, 1)
		if got := post(h, body).Code; got != want {
			t.Errorf("a domain of %d bytes: status %d, want %d", length, got, want)
		}
	}
}

// Policies for HTTP requests match only a check with a property of an HTTP request.
func TestDecode_DistinguishesDescriptorsFromHTTPRequests(t *testing.T) {
	for more, want := range map[string]bool{
		"":                          true,
		`,"clientIP":"203.0.113.7"`: true,
		`,"method":"GET"`:           false,
		`,"host":"a"`:               false,
		`,"path":"/"`:               false,
		`,"query":{"q":["x"]}`:      false,
		`,"headers":{"x":"y"}`:      false,
		`,"claims":{"sub":"u"}`:     false,
		`,"query":{"q":["x"]},"headers":{"x":"y"}`:  false,
		`,"headers":{"x":"y"},"claims":{"sub":"u"}`: false,
		`,"query":{"q":["x"]},"claims":{"sub":"u"}`: false,
	} {
		check, _, bad := decode([]byte(`{"domain":"shop","descriptors":[[{"key":"k","value":"v"}]]` + more + `}`))
		if bad != nil || check.Request.NoHTTP != want {
			t.Errorf("%s: NoHTTP is %v, want %v; %v", more, check.Request.NoHTTP, want, bad)
		}
	}
}

func TestClip_ShortensNamesAbove64Bytes(t *testing.T) {
	for name, want := range map[string]string{
		strings.Repeat("n", 64):       strings.Repeat("n", 64),
		strings.Repeat("n", 65):       strings.Repeat("n", 64) + "…",
		strings.Repeat("n", 63) + "é": strings.Repeat("n", 63) + "…",
	} {
		if got := clip(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
