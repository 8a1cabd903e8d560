package envoy

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// attributes returns the attributes that Envoy sends for a request to the domain shop.
func attributes(method, path string) *authv3.AttributeContext {
	return &authv3.AttributeContext{
		ContextExtensions: map[string]string{"domain": "shop"},
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "203.0.113.7"},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Path: path, Host: "API.shop.example:8443",
			Headers: map[string]string{":method": method, ":path": path, "x-tenant-id": "acme"},
		}},
	}
}

func (w *world) check(t testing.TB, a *authv3.AttributeContext) *authv3.CheckResponse {
	t.Helper()
	answer, err := w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: a})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// search returns the policy shop/search: two requests per minute for each tenant.
func search() rules.Rule {
	return rules.Rule{
		Policy: "shop/search", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.FixedWindow, Units: 2, WindowSeconds: 60,
		Match: rules.Match{
			Hosts: []string{"api.shop.example"}, Methods: []string{"GET"}, Paths: []rules.PathMatch{{Type: rules.PathPrefix, Value: "/v1/search"}},
		},
	}
}

func TestExtAuthz_DeniesGRPCCallsAsResourceExhausted(t *testing.T) {
	for contentType, grpc := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc-web": false, "application/json": false,
	} {
		w := limiterOf(t, search())
		a := attributes("GET", "/v1/search")
		a.GetRequest().GetHttp().GetHeaders()["content-type"] = contentType
		w.check(t, a)
		w.check(t, a)
		denied := w.check(t, a).GetDeniedResponse()
		first, body := denied.GetHeaders()[0].GetHeader(), denied.GetBody()
		if !grpc {
			if first.GetKey() != "content-type" || body[0] != '{' {
				t.Errorf("%s: %v", contentType, denied)
			}
			continue
		}
		if first.GetKey() != "grpc-status" || first.GetValue() != "8" || body != "over the limit of shop/search; retry in 60 s" ||
			len(denied.GetHeaders()) != 4 {
			t.Errorf("%s: %v", contentType, denied)
		}
	}
}

func TestExtAuthz_DeniesWithTheResponseOfThePolicy(t *testing.T) {
	rule := search()
	rule.Units = 1
	rule.Denial = &rules.Denial{Status: 402, Message: "buy more", Headers: []rules.DenialHeader{{Name: "x-plan", Value: "free"}}}
	w := limiterOf(t, rule)
	a := attributes("GET", "/v1/search")
	w.check(t, a)
	answer := w.check(t, a)
	denied := answer.GetDeniedResponse()
	headers := map[string]string{}
	for _, h := range denied.GetHeaders() {
		headers[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	want := map[string]string{
		"content-type": "text/plain; charset=utf-8", "x-plan": "free", "ratelimit": `"shop/search";r=0;t=60`, "ratelimit-policy": `"shop/search";q=1;w=60`,
		"retry-after": "60", "cache-control": "no-store",
	}
	if diff := cmp.Diff(want, headers); denied.GetStatus().GetCode() != 402 || denied.GetBody() != "buy more" || answer.GetStatus().GetCode() != 8 || diff != "" {
		t.Errorf("%v\nheaders (-want +got):\n%s", answer, diff)
	}
	a.GetRequest().GetHttp().GetHeaders()["content-type"] = "application/grpc"
	denied = w.check(t, a).GetDeniedResponse()
	if first := denied.GetHeaders()[0].GetHeader(); first.GetKey() != "grpc-status" || first.GetValue() != "8" || denied.GetBody() != "buy more" {
		t.Errorf("a gRPC call: %v", denied)
	}
}

// Envoy sends each of these characters as six bytes.
func TestExtAuthz_BoundsTheMessageOfGRPCCalls(t *testing.T) {
	rule := search()
	rule.Units, rule.Denial = 1, &rules.Denial{Message: strings.Repeat("é", 2048)}
	w := limiterOf(t, rule)
	a := attributes("GET", "/v1/search")
	a.GetRequest().GetHttp().GetHeaders()["content-type"] = "application/grpc"
	w.check(t, a)
	if got, want := w.check(t, a).GetDeniedResponse().GetBody(), strings.Repeat("é", 169)+"…"; got != want {
		t.Errorf("%d bytes: %.30q…", len(got), got)
	}
}

// A field with one value that a later filter or the service has set describes a stricter limit, or another one.
func TestExtAuthz_AllowedResponseKeepsEarlierFields(t *testing.T) {
	for style, want := range map[reply.Style]corev3.HeaderValueOption_HeaderAppendAction{
		reply.RateLimitHeaders:  corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD, // a list
		reply.XRateLimitHeaders: corev3.HeaderValueOption_ADD_IF_ABSENT,
		reply.GitHubHeaders:     corev3.HeaderValueOption_ADD_IF_ABSENT,
	} {
		w := serve(t, Options{Engine: newEngine(t, noon(), search()), Style: style})
		added := w.check(t, attributes("GET", "/v1/search")).GetOkResponse().GetResponseHeadersToAdd()
		if len(added) < 2 {
			t.Errorf("%s: %v", style, added)
		}
		for _, field := range added {
			if got := field.GetAppendAction(); got != want {
				t.Errorf("%s, %s: %v, want %v", style, field.GetHeader().GetKey(), got, want)
			}
		}
	}
}

func TestExtAuthz_AllowsRequestsUpToTheLimit(t *testing.T) {
	w := limiterOf(t, search())
	wantJSON(t, w.check(t, attributes("GET", "/v1/search?q=x")), `{
	  "status": {},
	  "okResponse": {"responseHeadersToAdd": [
	    {"header": {"key": "ratelimit", "value": "\"shop/search\";r=1;t=60"}},
	    {"header": {"key": "ratelimit-policy", "value": "\"shop/search\";q=2;w=60"}}]},
	  "dynamicMetadata": {"descriptors": [{"result": "OK", "policies": [{"policy": "shop/search", "result": "OK"}]}],
	                      "source": "memory", "revision": "sha256:1"}}`)
	w.check(t, attributes("GET", "/v1//search"))
	wantJSON(t, w.check(t, attributes("GET", "/v1/%73earch/deep")), `{
	  "status": {"code": 8, "message": "over the limit of shop/search; retry in 60 s"},
	  "deniedResponse": {
	    "status": {"code": "TooManyRequests"},
	    "headers": [
	      {"header": {"key": "content-type", "value": "application/problem+json"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"},
	      {"header": {"key": "ratelimit", "value": "\"shop/search\";r=0;t=60"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"},
	      {"header": {"key": "ratelimit-policy", "value": "\"shop/search\";q=2;w=60"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"},
	      {"header": {"key": "retry-after", "value": "60"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"}],
	    "body": "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":\"Quota Exceeded\",\"status\":429,\"detail\":\"over the limit of shop/search; retry in 60 s\",\"violated-policies\":[\"shop/search\"]}\n"},
	  "dynamicMetadata": {"descriptors": [{"result": "OVER_LIMIT", "policies": [{"policy": "shop/search", "result": "OVER_LIMIT"}]}],
	                      "source": "memory", "revision": "sha256:1"}}`)
	for _, a := range []*authv3.AttributeContext{attributes("POST", "/v1/search"), attributes("GET", "/v1/searches")} {
		wantJSON(t, w.check(t, a), `{"status": {}, "okResponse": {}}`)
	}
}

func TestParseAttributes_ReadsTheRequest(t *testing.T) {
	tests := map[string]struct {
		attributes string
		want       rules.Request
	}{
		"only the domain": {`{"context_extensions": {"domain": "shop"}}`, rules.Request{Path: "/"}},
		"path, query, host, method and headers": {
			`{"context_extensions": {"domain": "shop"}, "request": {"http": {
			  "method": "GET", "host": "API.Shop.Example:443", "path": "/a/../v1/%73earch?q=x&q=y&bad=%zz#f", "headers": {"X-Plan": "free", ":path": "/"}}}}`,
			rules.Request{
				Method: "GET", Host: "api.shop.example", Path: "/v1/search", RawPath: "/a/../v1/%73earch", Query: map[string][]string{"q": {"x", "y"}},
				Headers: map[string]string{"x-plan": "free", ":path": "/"},
			},
		},
		"a header in upper case": {
			`{"context_extensions": {"domain": "shop"}, "request": {"http": {"path": "/", "headers": {"X-Plan": "free"}}}}`,
			rules.Request{Path: "/", Headers: map[string]string{"x-plan": "free"}},
		},
		"raw headers, with repeated headers joined": {
			`{"context_extensions": {"domain": "shop"}, "request": {"http": {"path": "/", "header_map": {"headers": [
			  {"key": "x-a", "raw_value": "MQ=="}, {"key": "X-A", "raw_value": "Mg=="}, {"key": "cookie", "value": "a=1"}, {"key": "cookie", "raw_value": "Yj0y"}]}}}}`,
			rules.Request{Path: "/", Headers: map[string]string{"x-a": "1,2", "cookie": "a=1; b=2"}, RepeatedHeaders: []string{"x-a"}},
		},
		"the peer's address": {
			`{"context_extensions": {"domain": "shop"}, "source": {"address": {"socket_address": {"address": "2001:db8::7", "port_value": 1}}}}`,
			rules.Request{Path: "/", ClientIP: netip.MustParseAddr("2001:db8::7")},
		},
		"a peer without address": {
			`{"context_extensions": {"domain": "shop"}, "source": {"address": {"pipe": {"path": "@x"}}}}`, rules.Request{Path: "/"},
		},
		"one extension": {
			`{"context_extensions": {"domain": "shop", "plan": "free"}}`,
			rules.Request{Path: "/", Descriptors: []rules.Descriptor{{{Key: "plan", Value: "free"}}}},
		},
		"extensions sorted by name": {
			`{"context_extensions": {"domain": "shop", "z": "1", "plan": "free", "a": ""}}`,
			rules.Request{Path: "/", Descriptors: []rules.Descriptor{{{Key: "a"}, {Key: "plan", Value: "free"}, {Key: "z", Value: "1"}}}},
		},
		"claims of tokens, from the first key": {
			`{"context_extensions": {"domain": "shop"}, "metadata_context": {"filter_metadata": {
			  "envoy.filters.http.jwt_authn": {"b": {"sub": "u2", "x": 1}, "a": {"sub": "u1", "realm": {"tenant": "acme"}, "groups": ["g"]}, "text": "no payload"},
			  "another.filter": {"a": {"sub": "u3"}}}}}`,
			rules.Request{Path: "/", Claims: map[string]any{
				"sub": "u1", "realm": map[string]any{"tenant": "acme"}, "groups": []any{"g"}, "x": 1.0,
			}},
		},
		"the peer's principal": {
			`{"context_extensions": {"domain": "shop"}, "source": {"principal": "spiffe://cluster.local/ns/shop/sa/web"}}`,
			rules.Request{Path: "/", Claims: map[string]any{"principal": "spiffe://cluster.local/ns/shop/sa/web"}},
		},
		"a token cannot set the principal": {
			`{"context_extensions": {"domain": "shop"}, "metadata_context": {"filter_metadata": {
			  "envoy.filters.http.jwt_authn": {"a": {"sub": "u1", "principal": "root"}}}}}`,
			rules.Request{Path: "/", Claims: map[string]any{"sub": "u1"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var a authv3.AttributeContext
			if err := protojson.Unmarshal([]byte(test.attributes), &a); err != nil {
				t.Fatal(err)
			}
			got, _, err := (&authEndpoint{engine: &engine.Engine{}}).parseAttributes(decoded(t, &a))
			if err != nil {
				t.Fatal(err)
			}
			test.want.Domain = "shop"
			got.Request.RawQuery, got.Request.OtherQueries = "", nil // limiter/rules tests the readings of queries
			if diff := cmp.Diff(test.want, got.Request, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if got.Cost != 1 || !got.NoDelay || got.Peek {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestParseAttributes_UsesClientIPOfTheOptions(t *testing.T) {
	ip := search()
	ip.Axis, ip.Identifier = "IP", rules.Identifier{From: rules.FromClientIP}
	e := newEngine(t, noon(), ip)
	w := serve(t, Options{Engine: e, Style: reply.GitHubHeaders, ClientIP: func(peer netip.Addr, headers map[string]string) netip.Addr {
		if peer != netip.MustParseAddr("203.0.113.7") {
			t.Errorf("peer %v", peer)
		}
		forwarded, _ := netip.ParseAddr(headers["x-forwarded-for"])
		return forwarded
	}})
	for _, step := range []struct {
		client string
		want   codes.Code
	}{{"198.51.100.1", codes.OK}, {"198.51.100.1", codes.OK}, {"198.51.100.1", codes.ResourceExhausted}, {"198.51.100.2", codes.OK}} {
		a := attributes("GET", "/v1/search")
		a.GetRequest().GetHttp().GetHeaders()["x-forwarded-for"] = step.client
		if got := codes.Code(w.check(t, a).GetStatus().GetCode()); got != step.want {
			t.Errorf("%s: %v, want %v", step.client, got, step.want)
		}
	}
}

// A gateway that uses the API can write the address of its peer as it likes.
func TestParseAttributes_ReadsTheSourceInAnyNotation(t *testing.T) {
	ip := search()
	ip.Axis, ip.Identifier = "IP", rules.Identifier{From: rules.FromClientIP}
	w := serve(t, Options{Engine: newEngine(t, noon(), ip), Style: reply.GitHubHeaders})
	for _, step := range []struct {
		source string
		want   codes.Code
	}{
		{"198.51.100.1", codes.OK},
		{"198.51.100.1:4711", codes.OK},
		{"[::ffff:198.51.100.1]:4711", codes.ResourceExhausted},
		{"64:ff9b::198.51.100.1", codes.ResourceExhausted},
		{"64:ff9b::198.51.100.2", codes.OK},
	} {
		a := attributes("GET", "/v1/search")
		a.GetSource().GetAddress().GetSocketAddress().Address = step.source
		if got := codes.Code(w.check(t, a).GetStatus().GetCode()); got != step.want {
			t.Errorf("%s: %v, want %v", step.source, got, step.want)
		}
	}
}

func TestExtAuthz_MatchesContextExtensionsAsADescriptor(t *testing.T) {
	w := limiterOf(t, per("plan", 1, time.Minute, "plan=free route"))
	a := attributes("GET", "/")
	a.ContextExtensions["route"], a.ContextExtensions["plan"] = "login", "free"
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		if got := codes.Code(w.check(t, a).GetStatus().GetCode()); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestDomain_OfARequestWithoutAContextExtension(t *testing.T) {
	shop, other, all := search(), search(), search()
	other.Policy, other.Domain = "other/search", "other"
	all.Policy, all.Domain, all.AllDomains = "all", "", true
	for name, test := range map[string]struct {
		fallback string
		domain   map[string]string // the context extension
		want     string
		warned   bool
	}{
		"neither a default nor an extension": {"", nil, "all", true},
		"an empty extension":                 {"", map[string]string{"domain": ""}, "all", true},
		"a default":                          {"shop", nil, "shop/search all", false},
		"a default and an empty extension":   {"shop", map[string]string{"domain": ""}, "shop/search all", false},
		"a default and an extension":         {"shop", map[string]string{"domain": "other"}, "other/search all", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			w := serve(t, Options{
				Engine: newEngine(t, noon(), all, other, shop), DefaultDomain: test.fallback, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			for range 2 {
				a := attributes("GET", "/v1/search")
				a.ContextExtensions = test.domain
				a.GetRequest().GetHttp().GetHeaders()["domain"] = "shop" // a client cannot choose the domain
				var policies []string
				for _, d := range w.check(t, a).GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
					for _, p := range d.GetStructValue().GetFields()["policies"].GetListValue().GetValues() {
						policies = append(policies, p.GetStructValue().GetFields()["policy"].GetStringValue())
					}
				}
				if got := strings.Join(slices.Sorted(slices.Values(policies)), " "); got != strings.Join(slices.Sorted(slices.Values(strings.Fields(test.want))), " ") {
					t.Errorf("policies %s, want %s", got, test.want)
				}
			}
			if warned := strings.Count(log.String(), "have no domain"); warned != map[bool]int{true: 1}[test.warned] {
				t.Errorf("%d warnings: %s", warned, log.String())
			}
		})
	}
}

func TestExtAuthz_RejectsInvalidContextExtensions(t *testing.T) {
	w := limiterOf(t, search())
	extensions := func(domain string, n int) *authv3.AttributeContext {
		all := map[string]string{"domain": domain}
		for i := range n {
			all[strings.Repeat("x", i+1)] = ""
		}
		return &authv3.AttributeContext{ContextExtensions: all}
	}
	for want, a := range map[string]*authv3.AttributeContext{
		"in attributes.context_extensions is longer than 253":    extensions(strings.Repeat("x", 254), 0),
		"attributes.context_extensions has more than 64 entries": extensions("shop", 65),
	} {
		_, err := w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: a})
		wantError(t, err, codes.InvalidArgument, want)
	}
	withoutDomain := extensions("", 65)
	delete(withoutDomain.GetContextExtensions(), "domain")
	_, err := w.auth.Check(t.Context(), &authv3.CheckRequest{Attributes: withoutDomain})
	wantError(t, err, codes.InvalidArgument, "more than 64 entries")
	if got := w.check(t, extensions(strings.Repeat("x", 253), 64)); got.GetOkResponse() == nil {
		t.Errorf("the most extensions: %v", got)
	}
}

func TestExtAuthz_DeniesARequestWithADelay(t *testing.T) {
	drip := search()
	drip.Algorithm, drip.Units, drip.Burst = limiter.LeakyBucket, 60, 5
	w := limiterOf(t, drip)
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		if got := codes.Code(w.check(t, attributes("GET", "/v1/search")).GetStatus().GetCode()); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestExtAuthz_ReportsAMissingDecision(t *testing.T) {
	store := &brittle{Store: memstore.New(noon().now)}
	store.broken.Store(true)
	log := slog.New(slog.DiscardHandler)
	away := func(on rules.StoreFailure) *engine.Engine {
		e := engine.New(failover.New(store, local.New(1<<20, noon().now), time.Now, log),
			engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
		rule := search()
		rule.OnStoreFailure = on
		swap(t, e, rule)
		return e
	}
	asked := &authv3.CheckRequest{Attributes: attributes("GET", "/v1/search")}
	t.Run("as a gRPC error", func(t *testing.T) {
		w := serve(t, Options{Engine: away(rules.DenyOnFailure)})
		_, err := w.auth.Check(t.Context(), asked)
		wantError(t, err, codes.Unavailable, "policy shop/search denies requests while its counters are unavailable")
	})
	t.Run("as an error response", func(t *testing.T) {
		w := serve(t, Options{Engine: away(rules.DenyOnFailure), ErrorResponse: true})
		wantJSON(t, w.check(t, asked.GetAttributes()), `{
		  "status": {"code": 14, "message": "policy shop/search denies requests while its counters are unavailable"},
		  "errorResponse": {
		    "status": {"code": "ServiceUnavailable"},
		    "headers": [{"header": {"key": "content-type", "value": "application/problem+json"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"},
		                {"header": {"key": "retry-after", "value": "1"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"}],
		    "body": "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\",\"title\":\"Temporary Reduced Capacity\",\"status\":503,\"detail\":\"policy shop/search denies requests while its counters are unavailable\"}\n"}}`)
	})
	for name, on := range map[string]rules.StoreFailure{"Allow": rules.AllowOnFailure, "Local": rules.LocalOnFailure} {
		t.Run("with onStoreFailure "+name, func(t *testing.T) {
			w := serve(t, Options{Engine: away(on), ErrorResponse: true})
			answer := w.check(t, asked.GetAttributes())
			if answer.GetOkResponse() == nil || answer.GetDynamicMetadata().GetFields()["source"].GetStringValue() != "local" {
				t.Errorf("%v", answer)
			}
		})
	}
	t.Run("without rules", func(t *testing.T) {
		w := serve(t, Options{Engine: engine.New(store, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))})
		_, err := w.auth.Check(t.Context(), asked)
		wantError(t, err, codes.Unavailable, "no rules are loaded yet")
	})
}
