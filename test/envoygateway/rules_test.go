//go:build envoygateway

package envoygateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// kind is a kind of rule of a BackendTrafficPolicy: the rules, and requests with the expected statuses.
type kind struct {
	name   string
	rules  string   // YAML, in flow style
	shared []string // other routes that the policy targets
	more   string   // another resource
	send   []string // "METHOD /path name=value…: 200 200 429"
}

// Costs are missing: the standalone mode of Envoy Gateway 1.9.1 panics when it reads cost.request.number.
func kinds() []kind {
	return []kind{
		{name: "no-selector", rules: "[{limit: {requests: 3, unit: Hour}}]", send: []string{"GET /no-selector: 200 200 200 429 429"}},
		{
			name: "header-exact", rules: "[{clientSelectors: [{headers: [{name: x-user-id, value: one}]}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /header-exact x-user-id=one: 200 200 429", "GET /header-exact x-user-id=two: 200 200 200", "GET /header-exact: 200 200 200"},
		},
		{
			name: "header-regex", rules: "[{clientSelectors: [{headers: [{name: x-user-id, type: RegularExpression, value: 'a.*'}]}], limit: {requests: 2, unit: Day}}]",
			send: []string{"GET /header-regex x-user-id=ab: 200", "GET /header-regex x-user-id=ac: 200 429", "GET /header-regex x-user-id=b: 200 200 200"},
		},
		{
			name: "header-distinct", rules: "[{clientSelectors: [{headers: [{name: x-user-id, type: Distinct}]}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /header-distinct x-user-id=one: 200 200 429", "GET /header-distinct x-user-id=two: 200 200 429", "GET /header-distinct: 200 200 200"},
		},
		{
			name: "header-inverted", rules: "[{clientSelectors: [{headers: [{name: x-org-id, value: admin, invert: true}]}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /header-inverted x-org-id=admin: 200 200 200", "GET /header-inverted x-org-id=other: 200 200 429"},
		},
		{
			name: "headers-all", rules: "[{clientSelectors: [{headers: [{name: x-user-id, value: one}, {name: x-org-id, type: Distinct}]}], limit: {requests: 1, unit: Hour}}]",
			send: []string{"GET /headers-all x-user-id=one x-org-id=a: 200 429", "GET /headers-all x-user-id=one x-org-id=b: 200 429", "GET /headers-all x-user-id=one: 200 200"},
		},
		{
			name: "cidr", rules: "[{clientSelectors: [{sourceCIDR: {value: 192.0.2.0/24}}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /cidr x-forwarded-for=192.0.2.1: 200", "GET /cidr x-forwarded-for=192.0.2.2: 200 429", "GET /cidr x-forwarded-for=203.0.113.1: 200 200 200"},
		},
		{
			name: "cidr-distinct", rules: "[{clientSelectors: [{sourceCIDR: {value: 0.0.0.0/0, type: Distinct}}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /cidr-distinct x-forwarded-for=192.0.2.1: 200 200 429", "GET /cidr-distinct x-forwarded-for=192.0.2.2: 200 200 429"},
		},
		{
			name: "cidr-inverted", rules: "[{clientSelectors: [{sourceCIDR: {value: 192.0.2.0/24, invert: true}}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /cidr-inverted x-forwarded-for=192.0.2.1: 200 200 200", "GET /cidr-inverted x-forwarded-for=203.0.113.1: 200 200 429"},
		},
		{
			name: "headers-and-cidr", rules: "[{clientSelectors: [{headers: [{name: x-user-id, value: one}], sourceCIDR: {value: 192.0.2.0/24}}], limit: {requests: 1, unit: Hour}}]",
			send: []string{
				"GET /headers-and-cidr x-user-id=one x-forwarded-for=192.0.2.1: 200 429", "GET /headers-and-cidr x-user-id=two x-forwarded-for=192.0.2.1: 200 200",
				"GET /headers-and-cidr x-user-id=one x-forwarded-for=203.0.113.1: 200 200",
			},
		},
		{
			name: "methods", rules: "[{clientSelectors: [{methods: [{value: POST}, {value: DELETE}]}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"POST /methods: 200", "DELETE /methods: 200 429", "POST /methods: 429", "GET /methods: 200 200 200"},
		},
		{
			name: "path", rules: "[{clientSelectors: [{path: {type: PathPrefix, value: /path/foo}}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /path/foo: 200", "GET /path/foo/bar: 200 429", "GET /path/foobar: 200 200 200"},
		},
		{
			name: "query-exact", rules: "[{clientSelectors: [{queryParams: [{name: user, value: one}]}], limit: {requests: 2, unit: Hour}}]",
			send: []string{"GET /query-exact?user=one: 200 200 429", "GET /query-exact?user=two: 200 200 200"},
		},
		{
			name: "query-distinct", rules: "[{clientSelectors: [{queryParams: [{name: user, type: Distinct}]}], limit: {requests: 1, unit: Hour}}]",
			send: []string{"GET /query-distinct?user=one: 200 429", "GET /query-distinct?user=two: 200 429", "GET /query-distinct: 200 200"},
		},
		{
			name: "jwt-claim", rules: "[{clientSelectors: [{headers: [{name: x-claim-name, type: Distinct}]}], limit: {requests: 2, unit: Hour}}]",
			more: jwtPolicy(), send: []string{
				"GET /jwt-claim authorization=Bearer+" + token("ann") + ": 200 200 429", "GET /jwt-claim authorization=Bearer+" + token("bob") + ": 200", "GET /jwt-claim: 401",
			},
		},
		{name: "shared", rules: "[{shared: true, limit: {requests: 3, unit: Hour}}]", shared: []string{"shared-other"}, send: []string{"GET /shared: 200", "GET /shared-other: 200 200 429", "GET /shared: 429"}},
		{name: "unshared", rules: "[{limit: {requests: 1, unit: Hour}}]", shared: []string{"unshared-other"}, send: []string{"GET /unshared: 200 429", "GET /unshared-other: 200 429"}},
		{name: "shadow", rules: "[{shadowMode: true, limit: {requests: 1, unit: Hour}}]", send: []string{"GET /shadow: 200 200 200"}},
		{name: "zero", rules: "[{limit: {requests: 0, unit: Hour}}]", send: []string{"GET /zero: 429 429"}},
		{
			name: "several-rules", rules: "[{clientSelectors: [{headers: [{name: x-user-id, type: Distinct}]}], limit: {requests: 2, unit: Hour}}, {limit: {requests: 3, unit: Hour}}]",
			// The third request of one is over its own limit, and counts for the limit of all.
			send: []string{"GET /several-rules x-user-id=one: 200 200 429", "GET /several-rules x-user-id=two: 429"},
		},
		{name: "week", rules: "[{limit: {requests: 1, unit: Week}}]", send: []string{"GET /week: 200 429"}},
		{name: "month", rules: "[{limit: {requests: 1, unit: Month}}]", send: []string{"GET /month: 200 429"}},
		{name: "year", rules: "[{limit: {requests: 1, unit: Year}}]", send: []string{"GET /year: 200 429"}},
	}
}

// route returns an HTTPRoute for the path /name.
func route(name string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: default}
spec:
  parentRefs: [{name: eg}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /%[1]s}}]
    backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: backend}]
`, name)
}

// resources returns the routes and policies of all kinds, and a route without a policy.
func resources() string {
	list := []string{route("free")}
	for _, k := range kinds() {
		var targets []string
		for _, name := range append([]string{k.name}, k.shared...) {
			list = append(list, route(name))
			targets = append(targets, fmt.Sprintf("{group: gateway.networking.k8s.io, kind: HTTPRoute, name: %s}", name))
		}
		list = append(list, fmt.Sprintf(`
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: %s, namespace: default}
spec:
  targetRefs: [%s]
  rateLimit: {type: Global, global: {rules: %s}}
`, k.name, strings.Join(targets, ", "), k.rules))
		if k.more != "" {
			list = append(list, k.more)
		}
	}
	return strings.Join(list, "---\n")
}

const jwtSecret = "a secret of at least thirty-two bytes"

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// token returns a token with the claim name.
func token(name string) string {
	text := encode(`{"alg":"HS256","typ":"JWT","kid":"k"}`) + "." + encode(fmt.Sprintf(`{"iss":"test","exp":%d,"name":%q}`, time.Now().Add(time.Hour).Unix()/3600*3600+3600, name))
	sum := hmac.New(sha256.New, []byte(jwtSecret))
	sum.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

func jwtPolicy() string {
	return fmt.Sprintf(`
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: jwt, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: jwt-claim}]
  jwt:
    providers:
    - name: test
      issuer: test
      localJWKS: {type: Inline, inline: '{"keys":[{"kty":"oct","kid":"k","alg":"HS256","k":"%s"}]}'}
      claimToHeaders: [{claim: name, header: x-claim-name}]
`, encode(jwtSecret))
}

func TestBackendTrafficPolicy_EachKindOfRuleLimits(t *testing.T) {
	rig(t, resources())
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			for _, line := range k.send {
				request, want, _ := strings.Cut(line, ": ")
				var got []string
				for range strings.FieldsSeq(want) {
					got = append(got, strconv.Itoa(send(t, request).StatusCode))
				}
				if g := strings.Join(got, " "); g != want {
					t.Errorf("%s: %s, want %s", request, g, want)
				}
			}
		})
	}
	t.Run("headers", func(t *testing.T) {
		response := send(t, "GET /no-selector")
		for name, want := range map[string]string{"X-Ratelimit-Limit": "3, 3;w=3600", "X-Ratelimit-Remaining": "0"} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if response := send(t, "GET /shadow"); response.StatusCode != http.StatusOK || response.Header.Get("X-Ratelimit-Limit") != "1, 1;w=3600" {
			t.Errorf("in shadow mode: %v", response.Header)
		}
	})
}
