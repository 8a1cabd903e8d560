package envoy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/envoy/wire"
)

// wantDefects compares the defects in the metadata of a response.
func wantDefects(t *testing.T, got interface{ GetDynamicMetadata() *structpb.Struct }, want ...string) {
	t.Helper()
	var names []string
	for _, v := range got.GetDynamicMetadata().GetFields()["defects"].GetListValue().GetValues() {
		names = append(names, v.GetStringValue())
	}
	if !slices.Equal(names, want) {
		t.Errorf("defects %q, want %q", names, want)
	}
}

// mixed is a codec that sends raw messages and decodes responses.
type mixedCodec struct{ rawCodec }

func (mixedCodec) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) } //nolint:wrapcheck,forcetypeassert // a test

// askRaw sends a message as it is.
func (w *world) askRaw(t *testing.T, method string, message []byte, out proto.Message) error {
	t.Helper()
	return w.conn.Invoke(t.Context(), method, raw(message), out, grpc.ForceCodec(mixedCodec{}))
}

// invalidUTF8 replaces "~" in a message by a byte that is not valid UTF-8.
func invalidUTF8(message []byte) []byte {
	return []byte(strings.ReplaceAll(string(message), "~", "\xe9"))
}

// TestRateLimit_DecidesWhateverAClientCanInfluence sends what Envoy builds of the requests of its clients. Envoy passes the request of a call that
// fails without any limit.
func TestRateLimit_DecidesWhateverAClientCanInfluence(t *testing.T) {
	limited := func(requests uint32, unit typev3.RateLimitUnit) *descriptorv3.RateLimitDescriptor {
		d := describe("tenant=acme")
		d.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: unit}
		return d
	}
	many := func(n int, text string) (list []*descriptorv3.RateLimitDescriptor) {
		for range n {
			list = append(list, describe(text))
		}
		return list
	}
	for name, test := range map[string]struct {
		descriptors []*descriptorv3.RateLimitDescriptor
		want        string
		defects     []string
	}{
		"a descriptor without entries":      {[]*descriptorv3.RateLimitDescriptor{describe(""), describe("tenant=acme")}, "OK: OK -, OK 4", []string{"empty_descriptor"}},
		"only a descriptor without entries": {many(1, ""), "OK: OK -", []string{"empty_descriptor"}},
		"a value that is not UTF-8":         {many(1, "tenant=caf~"), "OK: OK 4", []string{"not_utf8"}},
		"another one does not share it":     {[]*descriptorv3.RateLimitDescriptor{describe("tenant=caf~"), describe("tenant=caf~~")}, "OK: OK 4, OK 4", []string{"not_utf8"}},
		"the other descriptors count":       {[]*descriptorv3.RateLimitDescriptor{describe("other=~"), describe("tenant=acme")}, "OK: OK -, OK 4", []string{"not_utf8"}},
		"a key that is not UTF-8":           {[]*descriptorv3.RateLimitDescriptor{describe("~=x"), describe("tenant=acme")}, "OK: OK -, OK 4", []string{"not_utf8"}},
		"an empty key":                      {[]*descriptorv3.RateLimitDescriptor{describe("=x"), describe("tenant=acme")}, "OK: OK -, OK 4", []string{"empty_key"}},
		"an empty value":                    {many(1, "tenant="), "OK: OK 4", nil},
		"the same key twice":                {[]*descriptorv3.RateLimitDescriptor{describe("tenant=a tenant=b"), describe("tenant=acme")}, "OK: OK -, OK 4", nil},
		"NUL":                               {many(1, "tenant=a\x00b"), "OK: OK 4", nil},
		"a long value":                      {many(1, "tenant="+strings.Repeat("x", 200<<10)), "OK: OK 4", nil},
		"eight entries of 60 KiB":           {[]*descriptorv3.RateLimitDescriptor{describe(strings.Repeat("a="+strings.Repeat("x", 60<<10)+" ", 8)), describe("tenant=acme")}, "OK: OK -, OK 4", nil},
		"the most hits":                     {[]*descriptorv3.RateLimitDescriptor{counting(1<<64-1, "tenant=acme")}, "OVER_LIMIT: OVER_LIMIT 5", nil},
		"a limit of 0":                      {[]*descriptorv3.RateLimitDescriptor{limited(0, typev3.RateLimitUnit_MINUTE)}, "OK: OK 4", nil},
		"the largest limit":                 {[]*descriptorv3.RateLimitDescriptor{limited(1<<32-1, typev3.RateLimitUnit_SECOND)}, "OK: OK 4", nil},
		"a limit a year":                    {[]*descriptorv3.RateLimitDescriptor{limited(3, typev3.RateLimitUnit_YEAR)}, "OK: OK 4", []string{"limit"}},
		"a limit without a unit":            {[]*descriptorv3.RateLimitDescriptor{limited(3, 0)}, "OK: OK 4", []string{"limit"}},
		"a limit of an unknown unit":        {[]*descriptorv3.RateLimitDescriptor{limited(3, 99)}, "OK: OK 4", []string{"limit"}},
		"more entries than the bound":       {[]*descriptorv3.RateLimitDescriptor{describe(strings.Repeat("a=b ", 65)), describe("tenant=acme")}, "OK: OK -, OK 4", []string{"entries"}},
		"more descriptors than the bound":   {append(many(65, "other=x"), describe("tenant=acme")), "OK: " + strings.TrimSuffix(strings.Repeat("OK -, ", 64), ", "), []string{"descriptors"}},
		"an address that is no address":     {[]*descriptorv3.RateLimitDescriptor{describe("remote_address=~ tenant=a"), describe("tenant=acme")}, "OK: OK -, OK 4", []string{"not_utf8"}},
		"all of them":                       {[]*descriptorv3.RateLimitDescriptor{describe(""), describe("=~"), describe("tenant=acme")}, "OK: OK -, OK -, OK 4", []string{"not_utf8", "empty_descriptor", "empty_key"}},
	} {
		t.Run(name, func(t *testing.T) {
			var failures tally
			w := serve(t, Options{Engine: newEngine(t, noon(), per("a", 5, time.Minute, "tenant")), Style: "RateLimit", RateLimitFailures: &failures})
			out := &ratelimitv3.RateLimitResponse{}
			message := invalidUTF8(marshal(t, request(test.descriptors...)))
			if err := w.askRaw(t, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, message, out); err != nil {
				t.Fatal(err)
			}
			wantSummary(t, out, test.want)
			wantDefects(t, out, test.defects...)
			if got := failures.found(); !slices.Equal(got, slices.Sorted(slices.Values(test.defects))) {
				t.Errorf("counted %q, want %q", got, test.defects)
			}
			failures.want(t, "rls", 0, 0)
		})
	}
}

// A descriptor without entries matches no policy, not even one that limits every descriptor of its domain.
func TestRateLimit_ADescriptorWithoutEntriesMatchesNothing(t *testing.T) {
	all := rules.Rule{
		Policy: "shop/all", Domain: "shop", Axis: "IP", Algorithm: "FixedWindow", Units: 2, WindowSeconds: 60,
		Identifier: rules.Identifier{From: rules.FromClientIP},
	}
	w := limiterOf(t, all)
	for range 5 {
		wantSummary(t, w.ask(t, describe("")), "OK: OK -")
	}
	wantSummary(t, w.ask(t, describe(""), describe("remote_address=203.0.113.7")), "OK: OK -, OK 1")
}

// All texts of a response are valid UTF-8, also for a denial: Envoy would reject the response.
func TestRateLimit_AResponseHasOnlyValidUTF8(t *testing.T) {
	w := limiterOf(t, per("a", 1, time.Minute, "tenant"))
	message := invalidUTF8(marshal(t, request(describe("tenant=~~"))))
	for range 2 {
		out := &ratelimitv3.RateLimitResponse{} // proto.Unmarshal rejects invalid texts
		if err := w.askRaw(t, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, message, out); err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(out.GetRawBody()) {
			t.Errorf("body %q", out.GetRawBody())
		}
	}
}

// TestExtAuthz_DecidesWhateverAClientCanInfluence sends what Envoy builds of the requests of its clients.
func TestExtAuthz_DecidesWhateverAClientCanInfluence(t *testing.T) {
	field := func(change func(h *authv3.AttributeContext_HttpRequest)) *authv3.AttributeContext {
		a := attributes("GET", "/v1/search")
		change(a.GetRequest().GetHttp())
		return a
	}
	claims := func(v any) *authv3.AttributeContext {
		a := attributes("GET", "/v1/search")
		payload, err := structpb.NewStruct(map[string]any{"payload": map[string]any{"sub": v}})
		if err != nil {
			t.Fatal(err)
		}
		a.MetadataContext = withMetadata("envoy.filters.http.jwt_authn", payload)
		return a
	}
	deep := any("x")
	for range 1000 {
		deep = []any{deep}
	}
	for name, test := range map[string]struct {
		asked   *authv3.AttributeContext
		defects []string
	}{
		"a header that is not UTF-8":      {field(func(h *authv3.AttributeContext_HttpRequest) { h.Headers["x-tenant-id"] = "caf~" }), []string{"not_utf8"}},
		"a header's name that is not":     {field(func(h *authv3.AttributeContext_HttpRequest) { h.Headers["~"] = "a" }), []string{"not_utf8"}},
		"a query that is not UTF-8":       {field(func(h *authv3.AttributeContext_HttpRequest) { h.Path = "/v1/search?q=~" }), []string{"not_utf8"}},
		"a body that is not UTF-8":        {field(func(h *authv3.AttributeContext_HttpRequest) { h.Body = "~" }), nil},
		"a scheme that is not UTF-8":      {field(func(h *authv3.AttributeContext_HttpRequest) { h.Scheme, h.Protocol, h.Fragment = "~", "~", "~" }), nil},
		"an empty header":                 {field(func(h *authv3.AttributeContext_HttpRequest) { h.Headers[""] = "" }), nil},
		"a header of NUL":                 {field(func(h *authv3.AttributeContext_HttpRequest) { h.Headers["x"] = "\x00\n" }), nil},
		"a negative size":                 {field(func(h *authv3.AttributeContext_HttpRequest) { h.Size = -1 }), nil},
		"an unusual method":               {field(func(h *authv3.AttributeContext_HttpRequest) { h.Method = "~ \x00" }), []string{"not_utf8"}},
		"a long path":                     {field(func(h *authv3.AttributeContext_HttpRequest) { h.Path += "?x=" + strings.Repeat("%", 200<<10) }), nil},
		"a thousand headers":              {field(manyHeaders), nil},
		"claims that are not UTF-8":       {claims("~"), []string{"not_utf8"}},
		"claims that are deep":            {claims(deep), []string{"metadata"}},
		"claims that are many":            {claims(slices.Repeat([]any{nil}, 5000)), []string{"metadata"}},
		"a claim of every kind of value":  {claims([]any{nil, true, 1.5, "x", map[string]any{"a": []any{}}}), nil},
		"a principal that is not UTF-8":   {principal("~"), []string{"not_utf8"}},
		"an address that is not UTF-8":    {source("~"), []string{"not_utf8"}},
		"an address that is no address":   {source("nowhere"), nil},
		"a host with invalid characters":  {field(func(h *authv3.AttributeContext_HttpRequest) { h.Headers["host"] = "~:99999999" }), []string{"not_utf8"}},
		"headers as Envoy received them":  {rawHeader("x-tenant-id", "caf\xe9"), nil},
		"a header without a name as such": {rawHeader("", "x"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var failures tally
			rule := search()
			rule.Match.Methods = nil
			w := serve(t, Options{Engine: newEngine(t, noon(), rule), Style: "RateLimit", ExtAuthzFailures: &failures})
			message := invalidUTF8(marshal(t, &authv3.CheckRequest{Attributes: test.asked}))
			for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
				out := &authv3.CheckResponse{}
				if err := w.askRaw(t, authv3.Authorization_Check_FullMethodName, message, out); err != nil {
					t.Fatal(err)
				}
				if got := codes.Code(out.GetStatus().GetCode()); got != want {
					t.Errorf("request %d: %v, want %v", i, got, want)
				}
				wantDefects(t, out, test.defects...)
			}
			failures.want(t, "ext_authz", 0, 0)
		})
	}
}

func manyHeaders(h *authv3.AttributeContext_HttpRequest) {
	for i := range 1000 {
		h.Headers[fmt.Sprint("x-", i)] = "y"
	}
}

// What a client sends is in the metadata of the call if Envoy traces.
func TestServer_LongMetadataLiftsNoLimit(t *testing.T) {
	w := limiterOf(t, per("a", 2, time.Minute, "tenant"))
	for _, size := range []int{0, 33_000, 60 << 10, 96 << 10} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tracestate", "a="+strings.Repeat("x", size), "baggage", strings.Repeat("y", size))
		answer, err := w.rls.ShouldRateLimit(ctx, request(describe(fmt.Sprint("tenant=", size))))
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		wantSummary(t, answer, "OK: OK 1")
	}
}

// found returns the defects that were counted, in order.
func (f *tally) found() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.defects))
}

// defectsFound are the defects of a tally.
type defectsFound struct {
	mu      sync.Mutex
	defects []string
}

func (f *defectsFound) Defect(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.defects = append(f.defects, name)
}

func withMetadata(namespace string, fields *structpb.Struct) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: fields}}
}

func principal(name string) *authv3.AttributeContext {
	a := attributes("GET", "/v1/search")
	a.Source = &authv3.AttributeContext_Peer{Principal: name}
	return a
}

func source(address string) *authv3.AttributeContext {
	a := attributes("GET", "/v1/search")
	a.Source = &authv3.AttributeContext_Peer{Address: &corev3.Address{
		Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: address}},
	}}
	return a
}

func rawHeader(name, value string) *authv3.AttributeContext {
	a := attributes("GET", "/v1/search")
	h := a.GetRequest().GetHttp()
	h.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: name, RawValue: []byte(value)}}}
	for key, value := range h.GetHeaders() {
		h.HeaderMap.Headers = append(h.HeaderMap.Headers, &corev3.HeaderValue{Key: key, RawValue: []byte(value)})
	}
	h.Headers = nil
	return a
}

// A client that puts many claims before the one that identifies it must not use up the units of requests without claims, nor hide its route.
func TestExtAuthz_ClaimsOverTheBoundAreCountedAsUnreadable(t *testing.T) {
	var failures tally
	rule := search()
	rule.Match.Methods, rule.Identifier = nil, rules.Identifier{From: rules.FromClaim, Name: "sub"}
	w := serve(t, Options{Engine: newEngine(t, noon(), rule), Style: "RateLimit", ExtAuthzFailures: &failures})
	anonymous, many := attributes("GET", "/v1/search"), attributes("GET", "/v1/search")
	payload, err := structpb.NewStruct(map[string]any{"payload": map[string]any{"a": slices.Repeat([]any{nil}, 5000), "sub": "ada"}})
	if err != nil {
		t.Fatal(err)
	}
	named, err := structpb.NewStruct(map[string]any{"resources": []any{map[string]any{"kind": "HTTPRoute", "namespace": "shop", "name": "checkout"}}})
	if err != nil {
		t.Fatal(err)
	}
	many.MetadataContext, many.RouteMetadataContext = withMetadata("envoy.filters.http.jwt_authn", payload), withMetadata("envoy-gateway", named)
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(&authv3.CheckRequest{Attributes: many}) // sorted by key
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		out := &authv3.CheckResponse{}
		if err := w.askRaw(t, authv3.Authorization_Check_FullMethodName, message, out); err != nil {
			t.Fatal(err)
		}
		if got := codes.Code(out.GetStatus().GetCode()); got != want {
			t.Errorf("request %d: %v, want %v", i, got, want)
		}
	}
	if got := failures.found(); !slices.Equal(got, []string{"metadata", "metadata", "metadata"}) {
		t.Errorf("counted %q", got)
	}
	out := &authv3.CheckResponse{}
	if err := w.askRaw(t, authv3.Authorization_Check_FullMethodName, marshal(t, &authv3.CheckRequest{Attributes: anonymous}), out); err != nil {
		t.Fatal(err)
	}
	if got := codes.Code(out.GetStatus().GetCode()); got != codes.OK {
		t.Errorf("a request without claims: %v", got)
	}
	var in wire.AuthRequest
	if err := in.Decode(message); err != nil {
		t.Fatal(err)
	}
	if got, want := routeOf(&in), (route{kind: "HTTPRoute", namespace: "shop", name: "checkout"}); got != want {
		t.Errorf("route %+v, want %+v", got, want)
	}
}
