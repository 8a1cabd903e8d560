package proxies_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/test/fixture"
)

const claimsLimiter = `
apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {name: default, namespace: weir-system}
spec:
  redis: {addresses: ["redis:6379"]}
  endpoints:
    forwardAuth: {claimsHeader: X-JWT-Payload}
`

const claimsPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: per-user, namespace: shop}
spec: {axis: User, identifier: {claim: sub}, limit: 1, window: 1h, algorithm: SlidingWindowLog, match: {http: {paths: [{value: /v1}]}}}
`

// TestForwardAuth_LimiterCountsByClaimsBehindNginx runs a limiter with the arguments that the operator renders for a Limiter. nginx of
// Debian verifies no tokens: it maps a header to the payload of a token.
func TestForwardAuth_LimiterCountsByClaimsBehindNginx(t *testing.T) {
	binary, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, redis: fixture.Redis(t)}
	publishPolicy(t, w.redis.URL(), claimsPolicy)
	upstream := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(upstream.Close)
	at, ops := places{front: w.free(), weir: w.free(), upstream: upstream.Listener.Addr().String(), dir: t.TempDir()}, w.free()
	w.weir = fixture.Weir(t, binary, append(argumentsOf(t, claimsLimiter),
		"--redis="+w.redis.URL(), "--listen="+at.weir, "--grpc-listen=", "--ops-listen="+ops, "--drain=0s")...)
	w.awaitOK("http://" + ops + "/readyz")

	blocks := document(t)
	blocks["nginx closed"] = replace(t, blocks["nginx closed"],
		"server {\n    listen", "map $http_x_token $claims {\n    ~^verified-(?<sub>[a-z]+)$ '{\"sub\":\"$sub\"}';\n}\nserver {\n    listen",
		`proxy_set_header X-Original-URL "";`, "proxy_set_header X-Original-URL \"\";\n        proxy_set_header X-JWT-Payload $claims;")
	nginx := proxies()[slices.IndexFunc(proxies(), func(p proxy) bool { return p.name == "nginx" })]
	run(t, at.dir, nginx, nginx.configure(t, at, blocks, false)...)
	w.awaitOK("http://" + at.front + "/free")
	w.front = at.front

	for _, request := range []struct {
		token, forged string
		status        int
	}{
		{"verified-alice", "", http.StatusOK},
		{"verified-alice", "", http.StatusTooManyRequests},
		{"verified-bob", "", http.StatusOK},
		{"verified-alice", `{"sub":"carol"}`, http.StatusTooManyRequests}, // nginx replaces the header of the client
		{"none", `{"sub":"carol"}`, http.StatusOK},                        // all requests without a token share one counter
		{"none", `{"sub":"dave"}`, http.StatusTooManyRequests},
	} {
		if a := w.send(http.MethodGet, "/v1/search", "", "X-Token", request.token, "X-JWT-Payload", request.forged); a.status != request.status {
			t.Errorf("token %s, forged claims %q: %+v, want %d", request.token, request.forged, a, request.status)
		}
	}
}

// argumentsOf returns the arguments that the operator renders for a Limiter, without the memory limit of the pod.
func argumentsOf(t *testing.T, limiter string) []string {
	t.Helper()
	var object v1alpha1.Limiter
	if err := yaml.UnmarshalStrict([]byte(limiter), &object); err != nil {
		t.Fatal(err)
	}
	for _, rendered := range deployment.Render(&object, deployment.Secrets{}, deployment.Options{KeyPrefix: "weir:"}) {
		if d, is := rendered.(*appsv1.Deployment); is {
			return slices.DeleteFunc(d.Spec.Template.Spec.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, "--memory=") })
		}
	}
	t.Fatal("no Deployment")
	return nil
}

// publishPolicy publishes a policy to the Limiter weir-system/default.
func publishPolicy(t *testing.T, url, policy string) {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	loaded, err := loader.Load(nil, filepath.Dir(write(t, t.TempDir(), "policy.yaml", policy)))
	if err != nil || len(loaded.Problems) > 0 {
		t.Fatalf("%+v, %v", loaded.Problems, err)
	}
	client, err := redisclient.Open(url, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	data, revision := rules.Encode(loaded.Rules)
	if _, err := controlplane.NewExchange(client, "weir:", "weir-system/default").Publish(t.Context(), rules.Encoded{Revision: revision, Data: data, Whole: true}, false); err != nil {
		t.Fatal(err)
	}
}
