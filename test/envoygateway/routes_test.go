//go:build envoygateway

package envoygateway

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/gatewayapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

const (
	manyRoutes   = 90
	manyRequests = 3000
)

// listeners replaces the listeners of testdata/gateway.yaml. All have one port: the most specific one takes a request.
const listeners = "[{name: http, protocol: HTTP, port: 8888}, {name: wild, protocol: HTTP, port: 8888, hostname: '*.example'}, " +
	"{name: api, protocol: HTTP, port: 8888, hostname: api.shop.example}]"

// callOut makes Envoy ask about every request, and name its route.
const callOut = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: weir, namespace: default}
spec: {endpoints: [{ip: {address: 127.0.0.1, port: 3001}}]}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: weir, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: eg}]
  extAuth:
    failOpen: false
    includeRouteMetadata: true
    grpc: {backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: weir}]}
---
`

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// randomRoute returns a route with a few matches of few values, so that many routes match a request.
func randomRoute(random *rand.Rand, i int) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{TypeMeta: metav1.TypeMeta{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute"}}
	r.Namespace, r.Name = "default", fmt.Sprintf("r%03d", i)
	parent := gatewayv1.ParentReference{Name: "eg"}
	section := pick(random, "", "", "http", "http", "wild", "wild", "api")
	if section != "" {
		parent.SectionName = new(gatewayv1.SectionName(section))
	}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{parent}
	// Envoy Gateway 1.9.1 gives Envoy an invalid configuration if a host of a route is on two listeners of a port.
	hosts := map[string][]gatewayv1.Hostname{
		"http": {"a.org", "*.org", "deep.a.org", "*.a.org"}, "wild": {"shop.example", "api.shop.example", "*.shop.example", "*.example", "x.example"},
		"api": {"api.shop.example", "*.shop.example", "*.example"},
	}[section]
	for range random.IntN(3) {
		if len(hosts) == 0 {
			break
		}
		host := pick(random, hosts...)
		if !slices.Contains(r.Spec.Hostnames, host) {
			r.Spec.Hostnames = append(r.Spec.Hostnames, host)
		}
	}
	for j := range 1 + random.IntN(3) {
		rule := gatewayv1.HTTPRouteRule{Name: new(gatewayv1.SectionName(fmt.Sprintf("rule%d", j)))}
		for range 1 + random.IntN(3) {
			rule.Matches = append(rule.Matches, randomMatch(random))
		}
		rule.BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: new(gatewayv1.Group("gateway.envoyproxy.io")), Kind: new(gatewayv1.Kind("Backend")), Name: "backend",
		}}}}
		r.Spec.Rules = append(r.Spec.Rules, rule)
	}
	return r
}

func randomMatch(random *rand.Rand) (m gatewayv1.HTTPRouteMatch) {
	switch random.IntN(12) {
	case 0, 1, 2:
		m.Path = &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchExact), Value: new(pick(random, "/", "/a", "/a/b", "/a/", "/%61"))}
	case 3, 4, 5, 6, 7, 8:
		m.Path = &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(pick(random, "/", "/a", "/a/", "/a/b", "/a/b/c", "/A"))}
	case 9:
		m.Path = &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchRegularExpression), Value: new(pick(random, "/a/.*", "/a|/b", "/[a-b]/b", "/a/b/c/d+"))}
	}
	if random.IntN(4) == 0 {
		m.Method = new(pick(random, gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodPost))
	}
	for _, name := range []gatewayv1.HTTPHeaderName{"X-Plan", "x-team", "x-color"} {
		if random.IntN(6) == 0 {
			h := gatewayv1.HTTPHeaderMatch{Name: name, Value: pick(random, "one", "two", "one", "two", "one,two")}
			if random.IntN(4) == 0 {
				h.Type, h.Value = new(gatewayv1.HeaderMatchRegularExpression), pick(random, "o.*", "[a-z]+", "two|three", ".*two.*", "one,.*", "[^,]*")
			}
			m.Headers = append(m.Headers, h)
		}
	}
	for _, name := range []gatewayv1.HTTPHeaderName{"q", "Page"} {
		if random.IntN(7) == 0 {
			q := gatewayv1.HTTPQueryParamMatch{Name: name, Value: pick(random, "1", "2", "a b", "a%20b", "")}
			if q.Value == "" {
				q.Type, q.Value = new(gatewayv1.QueryParamMatchRegularExpression), "[0-9]+"
			}
			m.QueryParams = append(m.QueryParams, q)
		}
	}
	return m
}

func randomRequest(random *rand.Rand) *http.Request {
	host := pick(random, "a.org", "b.org", "deep.a.org", "org", "shop.example", "api.shop.example", "x.shop.example", "x.example", "other.net", "A.org:8888", "shop.example:abc", "x.example:")
	path := pick(random, "/", "/a", "/a/", "/a/b", "/a/b/", "/a/b/c", "/a/b/c/d", "/a/b/c/dd", "/ab", "/b", "/A", "/%61", "/a%2Fb", "/a//b", "/a/./b", "/a/../b", "/b/b", "/a/b;c")
	query := pick(random, "", "", "", "?q=1", "?q=2", "?q=12", "?Page=1", "?page=1", "?q=2&q=1", "?q=1&Page=2", "?q=a%20b", "?q=a+b", "?q", "?")
	r, err := http.NewRequest(pick(random, "GET", "GET", "POST", "PUT"), front+"/", nil)
	if err != nil {
		panic(err)
	}
	r.URL.Opaque, r.Host = path+query, host // sent as it is
	for _, name := range []string{"x-plan", "X-Team", "x-color"} {
		if random.IntN(2) == 0 {
			r.Header.Add(name, pick(random, "one", "two", "three", "ONE"))
		}
		if random.IntN(4) == 0 { // further lines, lists, and bytes that are no UTF-8
			for range 1 + random.IntN(3) {
				r.Header.Add(name, pick(random, "one", "two", "one,two", "one, two", "two,one,four", "", ",", "on!", "on\xff", "one,two,three,four,five,six,seven,eight,nine"))
			}
		}
	}
	return r
}

// isExact reports whether Weir must find exactly one route for the host and headers of a request, because only one is possible in all gateways.
func isExact(r *http.Request, raw bool) bool {
	if strings.HasSuffix(r.Host, ":") || strings.HasSuffix(r.Host, ":abc") { // gateways differ in what they take for a port
		return false
	}
	for _, lines := range r.Header {
		joined := strings.Join(lines, ",")
		if len(lines) > 1 || !raw && (strings.ContainsAny(joined, ",!") || !utf8.ValidString(joined)) {
			return false
		}
	}
	return true
}

// router asks Weir about each request without the name of the route, and keeps the name, and the policies that counted the request.
type router struct {
	authv3.UnimplementedAuthorizationServer

	weir authv3.AuthorizationClient
	mu   sync.Mutex
	last asked
}

type asked struct {
	raw     bool   // whether Envoy sends the lines of headers as they are
	route   string // "r001/rule2", "" if Envoy did not ask
	path    string
	counted string // the same from the policies that counted
}

func (r *router) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	metadata := in.GetAttributes().GetRouteMetadataContext().GetFilterMetadata()["envoy-gateway"]
	var route string
	for _, resource := range metadata.GetFields()["resources"].GetListValue().GetValues() {
		fields := resource.GetStructValue().GetFields()
		route = fields["name"].GetStringValue() + "/" + fields["sectionName"].GetStringValue()
	}
	in.Attributes.RouteMetadataContext = nil
	h := in.GetAttributes().GetRequest().GetHttp()
	out, err := r.weir.Check(ctx, in)
	var policies []string
	for _, o := range out.GetOkResponse().GetResponseHeadersToAdd() {
		if strings.EqualFold(o.GetHeader().GetKey(), "RateLimit-Policy") {
			policies = append(policies, o.GetHeader().GetValue()+string(o.GetHeader().GetRawValue()))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = asked{raw: len(h.GetHeaderMap().GetHeaders()) > 0, route: route, path: h.GetPath(), counted: strings.Join(policies, ", ")}
	return out, err
}

// serveWeir serves a real endpoint of Weir with a policy for each rule of the routes, and a router before it.
func serveWeir(t *testing.T, routes []*gatewayv1.HTTPRoute) *router {
	t.Helper()
	var base struct{ Spec gatewayv1.GatewaySpec }
	if err := yaml.Unmarshal([]byte("spec: {listeners: "+listeners+"}"), &base); err != nil {
		t.Fatal(err)
	}
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "eg"}, Spec: base.Spec}
	objects := []client.Object{gateway}
	p := stored.Policies{RouteMatching: []v1alpha1.GatewayReference{{Namespace: "default", Name: "eg"}}}
	for _, r := range routes {
		accepted := []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue}}
		r.Status.Parents = []gatewayv1.RouteParentStatus{{
			ParentRef: r.Spec.ParentRefs[0], ControllerName: "gateway.envoyproxy.io/gatewayclass-controller", Conditions: accepted,
		}}
		objects = append(objects, r)
		for _, rule := range r.Spec.Rules {
			section := string(*rule.Name)
			p.Namespaced = append(p.Namespaced, &v1alpha1.RateLimitPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.Name + "." + section},
				Spec: v1alpha1.RateLimitPolicySpec{
					Axis: v1alpha1.AxisIP, Limit: new(int64(1_000_000)), Window: "1h",
					TargetRefs: []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: r.Name, SectionName: &section}},
				},
			})
		}
	}
	p.Gateways = gatewayapi.Convert(objects...)
	result := p.Compile(compile.DefaultIdentity())
	if len(result.Problems) > 0 || result.LeftOut != "" {
		t.Fatalf("problems %v, left out %s", result.Problems, result.LeftOut)
	}
	data, revision := rules.Encode(result.Set)
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		t.Fatal(err)
	}
	index, err := matching.NewIndex(set, revision, "weir:")
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index)
	listen := func(address string) net.Listener {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	behind := listen("127.0.0.1:0")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := envoy.NewServer(envoy.Options{Engine: e, Style: reply.RateLimitHeaders, Log: slog.New(slog.DiscardHandler), Ready: func() error { return nil }})
	go func() { ended <- server.Run(ctx, behind) }()
	t.Cleanup(func() { stop(); <-ended })
	connection, err := grpc.NewClient(behind.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	r := &router{weir: authv3.NewAuthorizationClient(connection)}
	front := grpc.NewServer()
	authv3.RegisterAuthorizationServer(front, r)
	inFront := listen("127.0.0.1:3001")
	go func() { _ = front.Serve(inFront) }()
	t.Cleanup(front.Stop)
	return r
}

// rawLines makes Envoy send the lines of headers as they are.
const rawLines = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyPatchPolicy
metadata: {name: raw-lines, namespace: default}
spec:
  targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: eg}
  type: JSONPatch
  jsonPatches:
  - type: type.googleapis.com/envoy.config.listener.v3.Listener
    name: default/eg/http
    operation:
      op: add
      jsonPath: "..http_filters[?(@.name=~'ext_authz')].typed_config"
      path: /encode_raw_headers
      value: true
---
`

// older makes Envoy match the lines of headers as releases before 1.39 do.
const older = "layered_runtime: {layers: [{name: test, static_layer: {envoy.reloadable_features.match_headers_individually: false}}]}"

// Weir finds the route of each request that a real Envoy Gateway has chosen, from the same objects, without its name. If a client makes it
// impossible to know the route, it counts the request for each route that is possible.
func TestRoutesOf_FindsTheRouteThatEnvoyGatewayChooses(t *testing.T) {
	for name, mode := range map[string]routesMode{
		"joined lines": {}, "raw lines": {raw: true}, "raw lines in an older release": {raw: true, old: true}, "joined lines in an older release": {old: true},
	} {
		t.Run(name, func(t *testing.T) { compareRoutes(t, mode) })
	}
}

// routesMode is how Envoy sends and matches headers.
type routesMode struct{ raw, old bool }

func compareRoutes(t *testing.T, mode routesMode) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	resources := []string{strings.TrimPrefix(route("free"), "\n")}
	var routes []*gatewayv1.HTTPRoute
	for i := range manyRoutes {
		r := randomRoute(random, i)
		text, err := yaml.Marshal(map[string]any{ // without a status, which must not be empty
			"apiVersion": r.APIVersion, "kind": r.Kind, "metadata": map[string]string{"namespace": r.Namespace, "name": r.Name}, "spec": r.Spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		resources, routes = append(resources, string(text)), append(routes, r)
	}
	var free gatewayv1.HTTPRoute
	if err := yaml.Unmarshal([]byte(route("free")), &free); err != nil {
		t.Fatal(err)
	}
	free.Spec.Rules[0].Name = new(gatewayv1.SectionName("all"))
	weir := serveWeir(t, append(routes, &free))
	objects, options := callOut, rigOptions{listeners: listeners}
	if mode.raw {
		objects += strings.TrimPrefix(rawLines, "\n")
	}
	if mode.old {
		options.bootstrap = older
	}
	rigWith(t, options, objects+strings.Join(resources, "---\n"))
	chosen, several, exact, denied := map[string]int{}, 0, 0, 0
	for range manyRequests {
		request := randomRequest(random)
		last, status := weir.send(t, request)
		want := ""
		if last.route != "" {
			want = `"default/` + strings.ReplaceAll(last.route, "/", ".") + `"`
		}
		chosen[last.route]++
		counted := strings.Count(last.counted, `"default/`)
		isOne := isExact(request, mode.raw)
		if isOne {
			exact++
		}
		if counted > 1 {
			several++
		}
		if status == http.StatusBadRequest && !isOne {
			denied++
			continue // more routes than Weir counts
		}
		if !strings.Contains(last.counted, want) || isOne && (counted > 1 || want == "" && counted > 0) || last.raw != mode.raw {
			t.Errorf("%s %s%s %q: Envoy Gateway chose %q with path %s, counted %s, status %d", request.Method, request.Host, request.URL.Opaque, request.Header,
				last.route, last.path, last.counted, status)
		}
		if (status == http.StatusNotFound) != (last.route == "") {
			t.Errorf("%s %s%s: status %d, route %q", request.Method, request.Host, request.URL.Opaque, status, last.route)
		}
	}
	t.Logf("%d requests, %d without a route, %d rules of %d routes chosen; %d requests with one possible route; %d others for several, %d denied",
		manyRequests, chosen[""], len(chosen)-1, manyRoutes, exact, several, denied)
	if len(chosen) < 50 || several == 0 {
		t.Error("the requests use too few routes")
	}
}

// send sends a request, and returns what Envoy sent to Weir, and the status.
func (r *router) send(t *testing.T, request *http.Request) (asked, int) {
	t.Helper()
	r.mu.Lock()
	r.last = asked{raw: r.last.raw}
	r.mu.Unlock()
	response, err := http.DefaultClient.Do(request.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, response.StatusCode
}
