package warning_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/compile/warning"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// warningsFor compiles the policies together and returns the warnings for the first one.
func warningsFor(t policytest.Failer, policies ...policyapi.RateLimitPolicy) (texts []string) {
	t.Helper()
	set, problems := compile.Compile(policies, compile.DefaultIdentity())
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	for name, own := range set.Policies() {
		if name == compile.Name(&policies[0]) {
			all := func(*rules.Rule) []rules.Rule { return set.Rules }
			for _, w := range slices.Concat(warning.ForPolicy(own, all), warning.ForSpec(&own[0], &policies[0].Spec)) {
				texts = append(texts, w.String())
			}
			return texts
		}
	}
	t.Fatalf("there is no rule for policy %s", policies[0].Name)
	return nil
}

func TestForPolicy(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"no warnings", `{axis: Tenant, limit: 100, window: 24h}`, nil},
		{"an identifier in two tiers", `{axis: Tenant, limit: 1, window: 1m, tiers: [{name: a, when: {identifiers: [x, y]}, limit: 2},
			{name: b, when: {identifiers: [z, y]}, limit: 3}]}`, []string{
			`spec.tiers[1].when.identifiers[1]: is in tier "a" too, which comes first and applies to it; remove it from one of them`,
		}},
		{"a tier whose identifiers are all in another one", `{axis: Tenant, limit: 1, window: 1m, tiers: [{name: a, when: {identifiers: [x, y]}, limit: 2},
			{name: b, when: {identifiers: [y]}, limit: 3}]}`, []string{
			`spec.tiers[1].when: no request belongs to this tier: tier "a" before it matches all of them`,
		}},
		{"a large log", `{axis: Tenant, limit: 100000, window: 24h, algorithm: SlidingWindowLog}`, []string{
			"spec.limit: a log of 100000 units takes 800 kB of Redis memory per identifier; SlidingWindowCounter takes 16 bytes",
		}},
		{"a limit of 0 for everything", `{axis: Tenant, limit: 0, window: 1m, algorithm: FixedWindow}`, []string{
			"spec.limit: 0 denies every HTTP and gRPC request of domain shop, because the policy has no match; set match, or enforcement: Shadow to see " +
				"what it would deny",
		}},
		{"a limit of 0 in Shadow mode", `{axis: Tenant, limit: 0, window: 1m, enforcement: Shadow}`, nil},
		{"a limit of 0 for a path", `{axis: Tenant, limit: 0, window: 1m, match: {http: {paths: [{value: /v0}]}}}`, nil},
		{"an allow list", `{axis: Tenant, limit: 0, window: 1m, tiers: [{name: own, when: {groups: [own]}, unlimited: true}]}`, nil},
		{"a limit of 0 with a tier that counts", `{axis: Tenant, limit: 0, window: 1m, cost: {value: 2}, onStoreFailure: Deny, lease: {},
			tiers: [{name: own, when: {groups: [own]}, limit: 100}]}`, nil},
		{"a limit of 0 with a tier that it denies too", `{axis: Tenant, limit: 0, window: 1m, tiers: [{name: own, when: {groups: [own]}, limit: 0}]}`, []string{
			"spec.limit: 0 denies every HTTP and gRPC request of domain shop, because the policy has no match; set match, or enforcement: Shadow to see " +
				"what it would deny",
		}},
		{"a limit of 0 with what describes counters", `{axis: Tenant, limit: 0, window: 1m, match: {http: {methods: [PUT]}}, cost: {value: 2}, overrun: Debt,
			onStoreFailure: Allow, storage: Compact}`, []string{
			"spec.cost: has no effect: a limit of 0 denies every request, and counts nothing",
			"spec.overrun: has no effect: a limit of 0 denies every request, and counts nothing",
			"spec.onStoreFailure: has no effect: a limit of 0 denies every request, and counts nothing",
			"spec.storage: has no effect: a limit of 0 denies every request, and counts nothing",
		}},
		{"leases of a limit of 0", `{axis: Tenant, limit: 0, window: 1m, match: {http: {methods: [PUT]}}, lease: {}}`, []string{
			"spec.lease: has no effect: a limit of 0 denies every request, and counts nothing",
		}},
		{"a small log", `{axis: Tenant, limit: 9999, window: 24h, algorithm: SlidingWindowLog}`, nil},
		{"the smallest large log", `{axis: Tenant, limit: 10000, window: 24h, algorithm: SlidingWindowLog, tiers: [{name: paid, when: {groups: [paid]}, limit: 10000}]}`, []string{
			"spec.limit: a log of 10000 units takes 80 kB of Redis memory per identifier; SlidingWindowCounter takes 16 bytes",
		}},
		{"a large log in a tier", `{axis: Tenant, limit: 10, window: 1h, algorithm: SlidingWindowLog,
			tiers: [{name: paid, when: {groups: [paid]}, limit: 1000000}]}`, []string{
			"spec.tiers[0].limit: a log of 1000000 units takes 8.0 MB of Redis memory per identifier; SlidingWindowCounter takes 16 bytes",
		}},
		{"a fixed window", `{axis: Tenant, limit: 100, window: 24h, algorithm: FixedWindow}`, []string{
			"spec.algorithm: FixedWindow can admit up to 200 units within a short time around the end of a window",
		}},
		{"an identifier from a descriptor that match does not have", `{axis: Tenant, limit: 100, window: 1m, identifier: {descriptor: tenant},
			match: {descriptors: [{key: generic_key, value: login}]}}`, []string{
			`spec.identifier.descriptor: match.descriptors has no key "tenant"; onMissing decides what happens to requests without it`,
		}},
		{"an identifier from a descriptor that match has", `{axis: Tenant, limit: 100, window: 1m, identifier: {descriptor: tenant},
			match: {descriptors: [{key: generic_key, value: login}, {key: tenant}]}}`, nil},
		{"an identifier from a descriptor, without match", `{axis: Tenant, limit: 100, window: 1m, identifier: {descriptor: tenant}}`, nil},
		{"networks that are all excepted", `{axis: IP, limit: 1, window: 1m, match: {http: {cidrs: [10.1.0.0/16, 10.2.0.0/16], exceptCIDRs: [10.0.0.0/8]}}}`, []string{
			"spec.match.http.exceptCIDRs: no request matches: exceptCIDRs covers all of cidrs",
		}},
		{"networks that are excepted in part", `{axis: IP, limit: 1, window: 1m, match: {http: {cidrs: [10.0.0.0/8], exceptCIDRs: [10.1.0.0/16]}}}`, nil},
		{"contradictory header conditions", `{axis: IP, limit: 1, window: 1m, match: {http: {headers: [{name: X-Plan, value: a}, {name: x-plan, value: a, invert: true}]}}}`, []string{
			"spec.match.http.headers: no request matches: the conditions on header x-plan contradict each other",
		}},
		{"two conditions on one header", `{axis: IP, limit: 1, window: 1m, match: {http: {headers: [{name: X-Plan, type: Present}, {name: x-plan, value: a, invert: true}]}}}`, nil},
		{"a tier for networks, without a match", `{axis: IP, limit: 1, window: 1m, tiers: [{name: office, when: {cidrs: [192.0.2.0/24]}, unlimited: true}]}`, nil},
		{"tiers for networks that overlap with match.http.cidrs", `{axis: IP, limit: 1, window: 1m, match: {http: {cidrs: [10.1.0.0/16]}},
			tiers: [{name: in, when: {cidrs: [10.1.2.0/24]}, limit: 2}, {name: around, when: {cidrs: [10.0.0.0/8]}, limit: 3}]}`, nil},
		{"a tier for networks outside match.http.cidrs", `{axis: IP, limit: 1, window: 1m, match: {http: {cidrs: [10.0.0.0/8]}},
			tiers: [{name: office, when: {cidrs: [192.0.2.0/24]}, unlimited: true}]}`, []string{
			"spec.tiers[0].when.cidrs: no request belongs to this tier: match excludes all of its networks",
		}},
		{"a tier for networks in match.http.exceptCIDRs", `{axis: IP, limit: 1, window: 1m, match: {http: {exceptCIDRs: [10.0.0.0/8]}},
			tiers: [{name: office, when: {cidrs: [10.9.0.0/16]}, unlimited: true}]}`, []string{
			"spec.tiers[0].when.cidrs: no request belongs to this tier: match excludes all of its networks",
		}},
		{"tiers that earlier tiers cover", `{axis: User, limit: 1, window: 1m, tiers: [
			{name: a, when: {identifiers: [x, y]}, limit: 2}, {name: b, when: {identifiers: [y]}, limit: 3},
			{name: c, when: {header: {name: X-Plan, type: Present}}, limit: 4}, {name: d, when: {header: {name: x-plan, value: paid}}, limit: 5},
			{name: e, when: {header: {name: x-plan, value: paid, invert: true}}, limit: 5},
			{name: f, when: {groups: [g]}, limit: 6}, {name: g, when: {groups: [g, h]}, limit: 7},
			{name: h, when: {expression: "true"}, limit: 8}, {name: i, when: {expression: "true"}, limit: 9}]}`, []string{
			`spec.tiers[1].when: no request belongs to this tier: tier "a" before it matches all of them`,
			`spec.tiers[3].when: no request belongs to this tier: tier "c" before it matches all of them`,
			`spec.tiers[8].when: no request belongs to this tier: tier "h" before it matches all of them`,
		}},
		{"tiers of networks and groups that earlier tiers cover", `{axis: IP, limit: 1, window: 1m, tiers: [
			{name: a, when: {cidrs: [10.0.0.0/8]}, limit: 2}, {name: b, when: {cidrs: [10.1.0.0/16]}, limit: 3}, {name: c, when: {cidrs: [11.0.0.0/8]}, limit: 4},
			{name: d, when: {groups: [g, h]}, limit: 5}, {name: e, when: {groups: [h]}, limit: 6}]}`, []string{
			`spec.tiers[1].when: no request belongs to this tier: tier "a" before it matches all of them`,
			`spec.tiers[4].when: no request belongs to this tier: tier "d" before it matches all of them`,
		}},
		{"API keys in plain text", `{axis: APIKey, limit: 1, window: 1m, tiers: [{name: a, when: {identifiers: [k3y]}, limit: 2}]}`, []string{
			"spec.tiers[0].when.identifiers: secret identifiers such as API keys are in plain text: every user who can read the policy can read them; " +
				"write their hashes, which weir hash prints",
		}},
		{"an API key in plain text and a hash", `{axis: APIKey, limit: 1, window: 1m, tiers: [
			{name: a, when: {identifiers: ["hash:00000000000000000000000000000001"]}, limit: 2}, {name: b, when: {identifiers: ["hash:00000000000000000000000000000002", k3y]}, limit: 2}]}`, []string{
			"spec.tiers[1].when.identifiers: secret identifiers such as API keys are in plain text: every user who can read the policy can read them; " +
				"write their hashes, which weir hash prints",
		}},
		{"a hash of what is no secret", `{axis: User, limit: 1, window: 1m, tiers: [{name: a, when: {identifiers: ["hash:00000000000000000000000000000001"]}, limit: 2}]}`, []string{
			"spec.tiers[0].when.identifiers: a hash has no effect, because the identifiers of this policy are not secret: write the identifiers, or use axis APIKey",
		}},
		{"credentials that a match compares with", `{axis: User, limit: 1, window: 1m, match: {http: {headers: [{name: X-API-Key, value: k3y}, {name: X-API-Key, type: Present}, {name: X-Plan, value: k3y}]}},
			tiers: [{name: a, when: {header: {name: Authorization, value: Bearer k3y}}, limit: 2}]}`, []string{
			"spec.match.http.headers[0].value: a credential is in plain text: every user who can read the policy, and every limiter and Redis, can read it; " +
				"use a tier with identifiers, and write its hash, which weir hash prints",
			"spec.tiers[0].when.header: a credential is in plain text: every user who can read the policy, and every limiter and Redis, can read it; " +
				"use a tier with identifiers, and write its hash, which weir hash prints",
		}},
		{"compact counters of many users", `{axis: User, limit: 100, window: 1m, storage: Compact}`, nil},
		{"compact counters of few endpoints", `{axis: Endpoint, limit: 100, window: 1m, storage: Compact}`, []string{
			"spec.storage: Compact saves memory only with tens of thousands of identifiers, and a policy counts at most 1000 endpoints; use Exact",
		}},
		{"a share of four units", `{axis: User, limit: 39, window: 1m, lease: {}, tiers: [{name: a, when: {identifiers: [x]}, limit: 40}]}`, nil},
		{"a share of three units", `{axis: User, limit: 39, window: 1m, lease: {}}`, []string{
			"spec.lease: has no effect: maxShare allows 3 units in leases, and a replica leases at least 4; use a higher limit or a higher maxShare",
		}},
		{"a cost equal to the limit", `{axis: User, limit: 5, window: 1m, cost: {value: 5}}`, nil},
		{"a cost above the limit of one tier", `{axis: User, limit: 10, window: 1m, cost: {value: 5}, tiers: [{name: a, when: {identifiers: [x]}, limit: 4}]}`, []string{
			"spec.tiers[0].limit: denies every request: a request costs 5 units, but at most 4 can be admitted",
		}},
		{"a cost above every limit except an unlimited tier", `{axis: User, limit: 10, window: 1m, algorithm: LeakyBucket, burst: 3, cost: {value: 5}, tiers: [{name: a, when: {identifiers: [x]}, unlimited: true}]}`, []string{
			"spec.limit: denies every request: a request costs 5 units, but at most 4 can be admitted",
		}},
		{"writes to the Kubernetes API", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: ["*"], resources: [events]}, {apiGroups: [apps], resources: ["*"]}]}}}`, nil},
		{"every write to the Kubernetes API", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: ["*"], resources: ["*"]}]}}}`, []string{
			"spec.match.kubernetes.resources: API servers call Weir for every CREATE; list the resources to limit",
		}},
		{"the scale subresource of all resources", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: ["*"], resources: ["*/scale"], operations: [UPDATE]}]}}}`, nil},
		{"every update and connection, including subresources", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}, {apiGroups: ["*"], resources: ["*/*"], operations: [UPDATE, CONNECT]}]}}}`, []string{
			"spec.match.kubernetes.resources: API servers call Weir for every CONNECT, UPDATE; list the resources to limit",
		}},
		{"updates of workloads without scale", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods, replicationcontrollers/scale]}, {apiGroups: [apps], resources: [daemonsets, deployments], operations: [CREATE, UPDATE]}]}}}`, []string{
			`spec.match.kubernetes.resources[1]: "deployments" does not cover the subresource scale, so kubectl scale is not limited; add "deployments/scale"`,
		}},
		{"updates of all resources without scale", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [apps], resources: ["*"], operations: [UPDATE]}, {apiGroups: [apps], resources: ["*/scale"]}]}}}`, []string{
			`spec.match.kubernetes.resources[0]: "*" does not cover the subresource scale, so kubectl scale is not limited; add "*/scale"`,
		}},
		{"updates of workloads, with scale in another entry", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [apps], resources: [deployments, statefulsets/*], operations: [UPDATE]}, {apiGroups: ["*"], resources: ["*/scale"], operations: [UPDATE]}]}}}`, nil},
		{"updates of a resource of the same name in another group", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [example.com], resources: [deployments], operations: [UPDATE]}]}}}`, nil},
		{"writes that are never limited", `{axis: User, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods, pods/eviction]}]}}}`, []string{
			`spec.match.kubernetes.resources[0]: has no effect on "pods/eviction" of group "": writes to it are never limited`,
		}},
		{"namespaces outside the policy's own", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {namespaces: [bank], resources: [{apiGroups: [""], resources: [pods]}]}}}`, []string{
			"spec.match.kubernetes.namespaces: no write matches: the policy does not apply to these namespaces",
		}},
		{"namespaces that include the policy's own", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {namespaces: [bank, shop], resources: [{apiGroups: [""], resources: [pods]}]}}}`, nil},
		{"users and groups that are all excepted", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}],
			users: [a], exceptUsers: [a, b], groups: [g], exceptGroups: [g]}}}`, []string{
			"spec.match.kubernetes.exceptUsers: no write matches: exceptUsers contains all of users",
			"spec.match.kubernetes.exceptGroups: no write matches: exceptGroups contains all of groups",
		}},
		{"an expression that is false", `{axis: Tenant, limit: 1, window: 1m, match: {http: {expression: "false"}}}`, []string{
			"spec.match: no request matches: the expression is false",
		}},
		{"an unlimited tier for every address", `{axis: IP, limit: 1, window: 1m, tiers: [{name: free, when: {cidrs: [10.0.0.0/8]}, unlimited: true}, {name: all, when: {cidrs: ["0.0.0.0/0", "::/0"]}, unlimited: true}]}`, []string{
			`spec.tiers[1]: no request is limited: each one belongs to an unlimited tier, at the latest to "all"`,
		}},
		{"an unlimited tier for the rest", `{axis: Tenant, limit: 1, window: 1m, tiers: [{name: free, when: {groups: [free]}, limit: 7}, {name: all, when: {expression: "true"}, unlimited: true}]}`, nil},
		{"an unlimited tier for some addresses", `{axis: IP, limit: 1, window: 1m, tiers: [{name: all, when: {cidrs: ["0.0.0.0/0"]}, unlimited: true}]}`, nil},
		{"users and groups that are excepted in part", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}],
			users: [a, b], exceptUsers: [a], groups: [g, h], exceptGroups: [g]}}}`, nil},
		{"a queue for writes", `{axis: Tenant, limit: 1, window: 1m, algorithm: LeakyBucket, burst: 5, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}]}},
			tiers: [{name: a, limit: 2, burst: 7, when: {groups: [g]}}]}`, []string{
			"spec.burst: writes never wait in the queue; burst only bounds the cost of a write. Use TokenBucket for bursts",
			"spec.tiers[0].burst: writes never wait in the queue; burst only bounds the cost of a write",
		}},
		{"no queue for writes", `{axis: Tenant, limit: 1, window: 1m, algorithm: LeakyBucket, match: {kubernetes: {resources: [{apiGroups: [batch], resources: [jobs]}]}}}`, nil},
		{"costs without a queue", `{axis: Tenant, limit: 1, window: 1m, algorithm: LeakyBucket, match: {kubernetes: {resources: [{apiGroups: [batch], resources: [jobs]}]}},
			cost: {expression: request.object.spec.parallelism}}`, []string{
			"spec.cost.expression: a LeakyBucket without burst denies every write that costs more than 1 unit",
		}},
		{"tiers by namespace that earlier tiers cover", `{axis: Tenant, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [batch], resources: [jobs]}]}}, tiers: [
			{name: g, limit: 9, when: {groups: [x]}}, {name: a, limit: 2, when: {namespaceSelector: {matchLabels: {plan: paid}}}}, {name: b, limit: 3, when: {namespaceSelector: {matchLabels: {plan: paid, team: web}}}},
			{name: c, limit: 4, when: {namespaceSelector: {matchLabels: {team: web}}}}]}`, []string{
			`spec.tiers[2].when: no request belongs to this tier: tier "a" before it matches all of them`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, warningsFor(t, policytest.Policy(t, "a", c.spec))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForPolicy_ReportsRedundantPolicies(t *testing.T) {
	const redundant = "spec: has no effect, because policy b counts the same requests and is at least as strict"
	for _, c := range []struct {
		name, policy, other string
		redundant           bool
	}{
		{"an equal policy", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 10, window: 1m}`, true},
		{"a lower limit for all requests", `{axis: User, limit: 10, window: 1m, match: {http: {methods: [POST]}}}`, `{axis: User, limit: 9, window: 1m}`, true},
		{"a higher limit", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 11, window: 1m}`, false},
		{"another axis", `{axis: User, limit: 10, window: 1m}`, `{axis: Tenant, limit: 9, window: 1m}`, false},
		{"another identifier", `{axis: User, limit: 10, window: 1m, identifier: {claim: sub}}`, `{axis: User, limit: 9, window: 1m}`, false},
		{"a lower limit in shadow", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 9, window: 1m, enforcement: Shadow}`, false},
		{"a lower limit than that of a shadow policy", `{axis: User, limit: 10, window: 1m, enforcement: Shadow}`, `{axis: User, limit: 9, window: 1m}`, false},
		{"a counter with a longer window", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 10, window: 2m}`, false},
		{"a log with a window that is a multiple", `{axis: User, limit: 10, window: 1m, algorithm: SlidingWindowLog}`, `{axis: User, limit: 10, window: 2m, algorithm: SlidingWindowLog}`, true},
		{"fixed windows that overlap in part", `{axis: User, limit: 10, window: 2m, algorithm: FixedWindow}`, `{axis: User, limit: 10, window: 3m, algorithm: FixedWindow}`, false},
		{"another algorithm", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 10, window: 1m, algorithm: SlidingWindowLog}`, false},
		{"a smaller bucket", `{axis: User, limit: 10, window: 1m, algorithm: TokenBucket}`, `{axis: User, limit: 10, window: 1m, algorithm: TokenBucket, burst: 5}`, true},
		{"a larger bucket", `{axis: User, limit: 10, window: 1m, algorithm: LeakyBucket}`, `{axis: User, limit: 10, window: 1m, algorithm: LeakyBucket, burst: 1}`, false},
		{"other methods", `{axis: User, limit: 10, window: 1m, match: {http: {methods: [POST, PUT]}}}`, `{axis: User, limit: 9, window: 1m, match: {http: {methods: [POST]}}}`, false},
		{"a prefix that contains the path", `{axis: User, limit: 10, window: 1m, match: {http: {paths: [{value: /v1/a}]}}}`, `{axis: User, limit: 9, window: 1m, match: {http: {paths: [{value: /v1}]}}}`, true},
		{"a prefix that does not contain the path", `{axis: User, limit: 10, window: 1m, match: {http: {paths: [{value: /v10}]}}}`, `{axis: User, limit: 9, window: 1m, match: {http: {paths: [{value: /v1}]}}}`, false},
		{"a wildcard that matches the hosts", `{axis: User, limit: 10, window: 1m, match: {http: {hosts: [api.x.example, "*.b.x.example"]}}}`, `{axis: User, limit: 9, window: 1m, match: {http: {hosts: ["*.x.example"]}}}`, true},
		{"a wildcard that does not match the host", `{axis: User, limit: 10, window: 1m, match: {http: {hosts: [x.example]}}}`, `{axis: User, limit: 9, window: 1m, match: {http: {hosts: ["*.x.example"]}}}`, false},
		{"an additional condition", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 9, window: 1m, match: {http: {headers: [{name: a, type: Present}]}}}`, false},
		{"each endpoint separately", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 9, window: 1m, scope: Endpoint}`, false},
		{"all endpoints together", `{axis: User, limit: 10, window: 1m, scope: Endpoint}`, `{axis: User, limit: 10, window: 1m}`, true},
		{"another cost", `{axis: User, limit: 10, window: 1m, cost: {header: X-Cost}}`, `{axis: User, limit: 9, window: 1m}`, false},
		{"an unlimited tier", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 9, window: 1m, tiers: [{name: a, when: {groups: [g]}, unlimited: true}]}`, false},
		{"a higher limit than that of a tier", `{axis: User, limit: 10, window: 1m, tiers: [{name: a, when: {groups: [g]}, limit: 1}]}`, `{axis: User, limit: 9, window: 1m}`, false},
		{"a lower limit than those of the tiers", `{axis: User, limit: 10, window: 1m, tiers: [{name: a, when: {groups: [g]}, limit: 20}, {name: b, when: {groups: [h]}, unlimited: true}]}`, `{axis: User, limit: 10, window: 1m}`, true},
		{"laxer while Redis is unavailable", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 9, window: 1m, onStoreFailure: Allow}`, false},
		{"stricter while Redis is unavailable", `{axis: User, limit: 10, window: 1m}`, `{axis: User, limit: 9, window: 1m, onStoreFailure: Deny}`, true},
		{"with compact counters", `{axis: User, limit: 100, window: 1m}`, `{axis: User, limit: 90, window: 1m, storage: Compact}`, true},
		{"with exact counters, for a policy with compact ones", `{axis: User, limit: 100, window: 1m, storage: Compact}`, `{axis: User, limit: 90, window: 1m}`, false},
		{"both with compact counters", `{axis: User, limit: 100, window: 1m, storage: Compact}`, `{axis: User, limit: 90, window: 1m, storage: Compact}`, true},
		{"with debts", `{axis: User, limit: 100, window: 1m}`, `{axis: User, limit: 90, window: 1m, overrun: Debt}`, false},
		{"without debts, for a policy with them", `{axis: User, limit: 100, window: 1m, overrun: Debt}`, `{axis: User, limit: 90, window: 1m}`, false},
		{"with leases", `{axis: User, limit: 100, window: 1m}`, `{axis: User, limit: 90, window: 1m, lease: {}}`, false},
		{"exact, for a policy with leases", `{axis: User, limit: 100, window: 1m, lease: {}}`, `{axis: User, limit: 90, window: 1m}`, false},
		{"a wider network", `{axis: IP, limit: 10, window: 1m, match: {http: {cidrs: [10.1.0.0/16]}}}`, `{axis: IP, limit: 9, window: 1m, match: {http: {cidrs: [10.0.0.0/8]}}}`, true},
		{"an additional exception", `{axis: IP, limit: 10, window: 1m}`, `{axis: IP, limit: 9, window: 1m, match: {http: {exceptCIDRs: [10.0.0.0/8]}}}`, false},
		{"writes to all resources by all users", `{axis: User, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}], users: [a]}}}`, `{axis: User, limit: 9, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: ["*"]}]}}}`, true},
		{"HTTP requests, for a policy for writes", `{axis: Tenant, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}]}}}`, `{axis: Tenant, limit: 9, window: 1m}`, false},
		{"HTTP requests, for a policy with descriptors", `{axis: IP, limit: 10, window: 1m, match: {descriptors: [{key: a}]}}`, `{axis: IP, limit: 9, window: 1m}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			if c.redundant {
				want = []string{redundant}
			}
			got := warningsFor(t, policytest.Policy(t, "a", c.policy), policytest.Policy(t, "b", c.other))
			for i := 0; i < len(got); i++ {
				if strings.HasPrefix(got[i], "spec.algorithm: FixedWindow") {
					got = append(got[:i], got[i+1:]...)
				}
			}
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForPolicy_IgnoresPoliciesOfOtherNamespaces(t *testing.T) {
	other := policytest.Policy(t, "b", `{axis: User, limit: 1, window: 1m}`)
	other.Namespace = "elsewhere"
	if got := warningsFor(t, policytest.Policy(t, "a", `{axis: User, limit: 10, window: 1m}`), other); len(got) > 0 {
		t.Errorf("got warnings %q, want none from another namespace", got)
	}
}

func TestForSpec_WarnsThatAnInheritedPolicyReplacesDefaultsOnlyInItsNamespace(t *testing.T) {
	const warned = "spec.replaces: has no effect for routes of other namespaces than shop, which inherit this policy of a Gateway: a RateLimitPolicy " +
		"replaces defaults only in its own namespace"
	for target, want := range map[string][]string{
		`{kind: Gateway, name: a}`: {warned}, `{kind: Gateway, namespace: shop, name: a}`: {warned},
		`{kind: Gateway, namespace: infra, name: a}`: nil, `{kind: HTTPRoute, name: a}`: nil,
	} {
		spec := `{axis: IP, limit: 5, window: 1m, replaces: [b], targetRefs: [{group: gateway.networking.k8s.io, ` + target[1:] + `]}`
		if diff := cmp.Diff(want, warningsFor(t, policytest.Policy(t, "own", spec))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
	alone := policytest.Policy(t, "own", `{axis: IP, limit: 5, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: a}]}`)
	if got := warningsFor(t, alone); got != nil {
		t.Errorf("without replaces: %q", got)
	}
}

// A team that replaces a default of the platform learns which one, and if it is stricter.
func TestForPolicy_WarnsOfReplacedDefaults(t *testing.T) {
	fallback := policyapi.ClusterRateLimitPolicy{Spec: policyapi.ClusterRateLimitPolicySpec{
		RateLimitPolicySpec: policyapi.RateLimitPolicySpec{Axis: policyapi.AxisIP, Limit: new(int64(5)), Window: "1m"}, Precedence: policyapi.PrecedenceDefault,
	}}
	fallback.Name = "per-client"
	upper := policyapi.ClusterRateLimitPolicy{Spec: fallback.Spec}
	upper.Name, upper.Spec.Precedence = "most", policyapi.PrecedenceOverride
	missing := func(i int, name string) string {
		return fmt.Sprintf("spec.replaces[%d]: no ClusterRateLimitPolicy with precedence: Default has the name %s and applies to domain shop", i, name)
	}
	stricter := func(most string) string {
		return "spec.replaces[0]: replaces _cluster/per-client, which is stricter: it admits 5 units in 1m0s, and this policy up to " + most
	}
	for spec, want := range map[string][]string{
		`{axis: IP, limit: 1000000, window: 30d, replaces: [per-client]}`:                                             {stricter("1000000")},
		`{axis: User, limit: 1, window: 10s, replaces: [per-client]}`:                                                 {stricter("6")},
		`{axis: IP, limit: 5, window: 1m, replaces: [per-client]}`:                                                    nil,
		`{axis: IP, limit: 5, window: 1h, replaces: [per-client]}`:                                                    nil,
		`{axis: IP, limit: 60, window: 1h, algorithm: TokenBucket, burst: 4, replaces: [per-client]}`:                 nil,
		`{axis: IP, limit: 60, window: 1h, algorithm: TokenBucket, burst: 5, replaces: [per-client]}`:                 {stricter("6")},
		`{axis: IP, limit: 5, window: 1m, tiers: [{name: a, when: {groups: [a]}, limit: 6}], replaces: [per-client]}`: {stricter("6")},
		`{axis: IP, limit: 5, window: 1m, replaces: [most, per-clients]}`:                                             {missing(0, "most"), missing(1, "per-clients")},
	} {
		policies := compile.Policies{
			Namespaced: []policyapi.RateLimitPolicy{policytest.Policy(t, "own", spec)}, Cluster: []policyapi.ClusterRateLimitPolicy{fallback, upper},
		}
		result := policies.Compile(compile.DefaultIdentity())
		own := slices.IndexFunc(result.Set.Rules, func(r rules.Rule) bool { return r.Policy == "shop/own" })
		if own < 0 {
			t.Fatalf("%s: %v", spec, result.Problems)
		}
		var got []string
		for _, w := range warning.ForPolicy(result.Set.Rules[own:own+1], redundancy.Comparable(result.Set.Rules)) {
			if strings.HasPrefix(w.Field, "spec.replaces") {
				got = append(got, w.String())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
	alone := policytest.Policy(t, "own", `{axis: IP, limit: 5, window: 1m, replaces: [per-client]}`)
	if got := warningsFor(t, alone); len(got) > 0 {
		t.Errorf("without policies of the platform: %v", got)
	}
}
