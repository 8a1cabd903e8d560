package matching_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// writeRule returns a rule for writes to the Kubernetes API, on axis User. A rule of a policy "cluster/…" applies to all domains.
func writeRule(policy string, match rules.KubernetesMatch) rules.Rule {
	r := rule(policy)
	r.Axis, r.Identifier = "User", rules.Identifier{From: rules.FromKubernetesUser}
	r.Match = rules.Match{Kubernetes: &match}
	if strings.HasPrefix(policy, "_cluster/") {
		r.Domain, r.AllDomains = "", true
	}
	return r
}

// matchCreates matches the creation of these resources, "group/resource" or "/resource".
func matchCreates(names ...string) rules.KubernetesMatch {
	return matchOperations([]string{"CREATE"}, names...)
}

func matchOperations(of []string, names ...string) rules.KubernetesMatch {
	var m rules.KubernetesMatch
	for _, name := range names {
		group, resource, _ := strings.Cut(name, "/")
		m.Resources = append(m.Resources, rules.KubernetesResources{APIGroups: []string{group}, Resources: []string{resource}, Operations: of})
	}
	return m
}

// writeRequest parses "OPERATION group/resource namespace user group…". The namespace "-" means no namespace.
func writeRequest(text string) *rules.Request {
	words := strings.Fields(text)
	w := &rules.KubernetesRequest{Operation: words[0], Version: "v1", User: words[3], Groups: words[4:]}
	w.Group, w.Resource, _ = strings.Cut(words[1], "/")
	w.Resource, w.Subresource, _ = strings.Cut(w.Resource, "/")
	w.Namespace = strings.TrimPrefix(words[2], "-")
	return &rules.Request{Domain: w.Namespace, Kubernetes: w}
}

func indexSet(t rapid.TB, set rules.Set) *matching.Index {
	t.Helper()
	slices.SortFunc(set.Rules, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	x, err := matching.NewIndex(set, "sha256:test", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestMatch_FindsRulesForWrites(t *testing.T) {
	pods := matchCreates("/pods")
	with := func(change func(*rules.KubernetesMatch)) rules.KubernetesMatch {
		m := matchCreates("/pods")
		change(&m)
		return m
	}
	const deployer = "system:serviceaccount:shop:deployer system:serviceaccounts system:serviceaccounts:shop"
	for name, tc := range map[string]struct {
		match   rules.KubernetesMatch
		in, out []string
	}{
		"a resource of the core group": {
			pods,
			[]string{"CREATE /pods shop alice", "CREATE /pods - alice"},
			[]string{"CREATE /podtemplates shop alice", "CREATE metrics.k8s.io/pods shop alice", "UPDATE /pods shop alice", "CREATE /pods/binding shop alice"},
		},
		"a subresource is another resource": {
			matchCreates("/pods/eviction"),
			[]string{"CREATE /pods/eviction shop alice"},
			[]string{"CREATE /pods shop alice", "CREATE /pods/binding shop alice", "CREATE policy/pods/eviction shop alice"},
		},
		"every resource, without subresources": {
			matchCreates("apps/*"),
			[]string{"CREATE apps/deployments shop alice"},
			[]string{"CREATE apps/deployments/scale shop alice", "CREATE /pods shop alice"},
		},
		"every group": {
			matchCreates("*/events"),
			[]string{"CREATE /events shop alice", "CREATE events.k8s.io/events shop alice"},
			[]string{"CREATE /pods shop alice"},
		},
		"Events of the core group match in both groups": {
			matchCreates("/events"),
			[]string{"CREATE /events shop alice", "CREATE events.k8s.io/events shop alice"},
			[]string{"CREATE /pods shop alice", "UPDATE events.k8s.io/events shop alice"},
		},
		"Events of events.k8s.io match in both groups": {
			matchCreates("events.k8s.io/events"),
			[]string{"CREATE /events shop alice", "CREATE events.k8s.io/events shop alice"},
			[]string{"CREATE /pods shop alice", "CREATE metrics.k8s.io/events shop alice"},
		},
		"all resources of events.k8s.io": {
			matchCreates("events.k8s.io/*"),
			[]string{"CREATE /events shop alice", "CREATE events.k8s.io/events shop alice"},
			[]string{"CREATE /pods shop alice"},
		},
		"all resources of the core group": {
			matchCreates("/*"),
			[]string{"CREATE /events shop alice", "CREATE events.k8s.io/events shop alice", "CREATE /pods shop alice"},
			[]string{"CREATE apps/deployments shop alice"},
		},
		"a resource with all its subresources": {
			matchCreates("/pods/*"),
			[]string{"CREATE /pods/eviction shop alice", "CREATE /pods shop alice"},
			[]string{"CREATE /nodes shop alice"},
		},
		"a subresource of any resource": {
			matchOperations([]string{"UPDATE"}, "apps/*/scale"),
			[]string{"UPDATE apps/deployments/scale shop alice", "UPDATE apps/statefulsets/scale shop alice"},
			[]string{"UPDATE apps/deployments shop alice", "UPDATE apps/deployments/status shop alice", "UPDATE /replicationcontrollers/scale shop alice"},
		},
		"everything": {
			matchOperations([]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, "*/*/*"),
			[]string{"CREATE /pods shop alice", "CONNECT /pods/exec shop alice", "DELETE apps/deployments shop alice", "UPDATE /nodes - alice"},
			nil,
		},
		"several of each": {
			rules.KubernetesMatch{Resources: []rules.KubernetesResources{
				{APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments"}, Operations: []string{"CREATE", "DELETE"}},
				{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Operations: []string{"UPDATE"}},
			}},
			[]string{"CREATE /pods shop alice", "DELETE apps/deployments shop alice", "UPDATE batch/jobs shop alice"},
			[]string{"CREATE batch/jobs shop alice", "UPDATE /pods shop alice"},
		},
		"some namespaces": {
			with(func(m *rules.KubernetesMatch) { m.Namespaces = []string{"bank", "shop"} }),
			[]string{"CREATE /pods shop alice", "CREATE /pods bank alice"},
			[]string{"CREATE /pods search alice", "CREATE /pods - alice"},
		},
		"namespaces by their labels": {
			with(func(m *rules.KubernetesMatch) {
				m.NamespaceSelector = rules.Selector{{Key: "tier", Operator: rules.SelectorIn, Values: []string{"free", "trial"}}}
			}),
			[]string{"CREATE /pods shop alice"},
			[]string{"CREATE /pods bank alice", "CREATE /pods search alice", "CREATE /pods unknown alice", "CREATE /pods - alice"},
		},
		"namespaces that do not have a label value": {
			with(func(m *rules.KubernetesMatch) {
				m.NamespaceSelector = rules.Selector{{Key: "tier", Operator: rules.SelectorNotIn, Values: []string{"free"}}}
			}),
			[]string{"CREATE /pods bank alice", "CREATE /pods search alice"},
			[]string{"CREATE /pods shop alice", "CREATE /pods unknown alice", "CREATE /pods - alice"},
		},
		"namespaces that have a label": {
			with(func(m *rules.KubernetesMatch) {
				m.NamespaceSelector = rules.Selector{{Key: "tier", Operator: rules.SelectorExists}}
			}),
			[]string{"CREATE /pods shop alice", "CREATE /pods bank alice"},
			[]string{"CREATE /pods search alice", "CREATE /pods unknown alice"},
		},
		"namespaces that meet all requirements": {
			with(func(m *rules.KubernetesMatch) {
				m.NamespaceSelector = rules.Selector{{Key: "tier", Operator: rules.SelectorExists}, {Key: "exempt", Operator: rules.SelectorDoesNotExist}}
			}),
			[]string{"CREATE /pods shop alice"},
			[]string{"CREATE /pods bank alice", "CREATE /pods search alice", "CREATE /pods unknown alice"},
		},
		"some users": {
			with(func(m *rules.KubernetesMatch) {
				m.Users = []string{"alice", "system:serviceaccount:shop:deployer"}
			}),
			[]string{"CREATE /pods shop alice", "CREATE /pods shop " + deployer},
			[]string{"CREATE /pods shop bob", "CREATE /pods shop bob alice"},
		},
		"some groups": {
			with(func(m *rules.KubernetesMatch) { m.Groups = []string{"staff", "system:serviceaccounts:shop"} }),
			[]string{"CREATE /pods shop alice ops staff", "CREATE /pods shop " + deployer},
			[]string{"CREATE /pods shop alice ops", "CREATE /pods shop staff", "CREATE /pods shop alice"},
		},
		"all users except some": {
			with(func(m *rules.KubernetesMatch) { m.ExceptUsers = []string{"alice"} }),
			[]string{"CREATE /pods shop bob", "CREATE /pods shop bob alice"},
			[]string{"CREATE /pods shop alice"},
		},
		"all groups except some": {
			with(func(m *rules.KubernetesMatch) { m.ExceptGroups = []string{"system:masters"} }),
			[]string{"CREATE /pods shop bob staff", "CREATE /pods shop bob"},
			[]string{"CREATE /pods shop alice staff system:masters"},
		},
		"an exception takes precedence": {
			with(func(m *rules.KubernetesMatch) { m.Groups, m.ExceptUsers = []string{"staff"}, []string{"alice"} }),
			[]string{"CREATE /pods shop bob staff"},
			[]string{"CREATE /pods shop alice staff"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := indexSet(t, rules.Set{Rules: []rules.Rule{writeRule("_cluster/it", tc.match)}, Namespaces: testNamespaces()})
			for _, text := range tc.in {
				if got := x.Match(nil, writeRequest(text)); len(got) != 1 {
					t.Errorf("%q matched %d times, want once", text, len(got))
				}
			}
			for _, text := range tc.out {
				if got := x.Match(nil, writeRequest(text)); len(got) != 0 {
					t.Errorf("%q matched", text)
				}
			}
		})
	}
}

func testNamespaces() []rules.Namespace {
	return []rules.Namespace{
		{Name: "bank", Labels: map[string]string{"tier": "paid", "exempt": "yes"}, Tenant: "acme"},
		{Name: "search"},
		{Name: "shop", Labels: map[string]string{"tier": "free"}, Tenant: "acme"},
	}
}

func TestMatch_SeparatesWritesFromOtherRequests(t *testing.T) {
	everything := matchOperations([]string{"CREATE"}, "*/*/*")
	x := indexSet(t, rules.Set{Rules: []rules.Rule{rule("shop/requests"), clusterRule("requests"), writeRule("shop/writes", everything), writeRule("_cluster/writes", everything)}})
	for want, request := range map[string]*rules.Request{
		"_cluster/requests shop/requests": {Domain: "shop", Method: "GET", Path: "/"},
		"_cluster/writes shop/writes":     writeRequest("CREATE /pods shop alice"),
		"_cluster/writes":                 writeRequest("CREATE /namespaces - alice"),
	} {
		var got []string
		for _, m := range x.Match(nil, request) {
			got = append(got, m.Rule.Policy)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func TestMatch_DropsADefaultForWritesThatAnotherRuleMatches(t *testing.T) {
	x := indexSet(t, rules.Set{Rules: []rules.Rule{
		asDefault(writeRule("_cluster/all", matchCreates("*/*"))), replacing(writeRule("shop/pods", matchCreates("/pods")), "all"),
	}})
	for text, want := range map[string]string{
		"CREATE /pods shop alice": "shop/pods", "CREATE /secrets shop alice": "_cluster/all", "CREATE /pods bank alice": "_cluster/all",
	} {
		var got []string
		for _, m := range x.Match(nil, writeRequest(text)) {
			got = append(got, m.Rule.Policy)
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func TestIdentify_ReadsTheSourcesOfWrites(t *testing.T) {
	const noMatch = "none"
	const account = "system:serviceaccount:ci:deployer"
	for name, tc := range map[string]struct {
		from rules.Identifier
		text string
		want string // noMatch if the rule does not match
	}{
		"the tenant of the namespace":                    {rules.Identifier{From: rules.FromKubernetesTenant}, "CREATE /pods shop alice", "acme"},
		"two namespaces of one tenant":                   {rules.Identifier{From: rules.FromKubernetesTenant}, "CREATE /pods bank alice", "acme"},
		"a namespace without a tenant is its own tenant": {rules.Identifier{From: rules.FromKubernetesTenant}, "CREATE /pods search alice", "search"},
		"an unknown namespace is its own tenant":         {rules.Identifier{From: rules.FromKubernetesTenant}, "CREATE /pods unknown alice", "unknown"},
		"an object in no namespace has no tenant":        {rules.Identifier{From: rules.FromKubernetesTenant}, "CREATE /pods - alice", noMatch},
		"the namespace":                                  {rules.Identifier{From: rules.FromKubernetesNamespace}, "CREATE /pods shop alice", "shop"},
		"an object in no namespace has no namespace":     {rules.Identifier{From: rules.FromKubernetesNamespace}, "CREATE /pods - alice", noMatch},
		"the user":                                                {rules.Identifier{From: rules.FromKubernetesUser}, "CREATE /pods - alice", "alice"},
		"a service account is also a user":                        {rules.Identifier{From: rules.FromKubernetesUser}, "CREATE /pods shop " + account, account},
		"a service account by namespace and name":                 {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop " + account, "ci/deployer"},
		"a service account that writes an object in no namespace": {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods - " + account, "ci/deployer"},
		"a user that is not a service account":                    {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop alice", noMatch},
		"an incomplete service account name":                      {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop system:serviceaccount:ci", noMatch},
		"a service account without a namespace":                   {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop system:serviceaccount::deployer", noMatch},
		"a service account without a name":                        {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop system:serviceaccount:ci:", noMatch},
		"a service account with a slash":                          {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop system:serviceaccount:ci:a/b", noMatch},
		"a user with a colon":                                     {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop ci:deployer", noMatch},
		"a service account name with too many parts":              {rules.Identifier{From: rules.FromServiceAccount}, "CREATE /pods shop " + account + ":x", noMatch},
		"the result of an expression":                             {rules.Identifier{From: rules.FromExpression, Name: `request.namespace + "/" + request.userInfo.username`}, "CREATE /pods shop alice", "shop/alice"},
		"an expression over an absent field":                      {rules.Identifier{From: rules.FromExpression, Name: `request.object.metadata.labels.team`}, "CREATE /pods shop alice", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := writeRule("_cluster/it", matchCreates("/pods"))
			r.Identifier = tc.from
			request, got := writeRequest(tc.text), noMatch
			for _, m := range indexSet(t, rules.Set{Rules: []rules.Rule{r}, Namespaces: testNamespaces()}).Match(nil, request) {
				got = m.Identify(request)
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestTerms_SelectsTheTierOfAWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		when rules.When
		want map[string]bool
	}{
		"by the groups of the user": {
			rules.When{Groups: []string{"ci", "staff"}},
			map[string]bool{"CREATE /pods shop alice staff": true, "CREATE /pods shop alice ops": false},
		},
		"by the labels of the namespace": {
			rules.When{NamespaceSelector: rules.Selector{{Key: "tier", Operator: rules.SelectorIn, Values: []string{"paid"}}}},
			map[string]bool{"CREATE /pods bank alice": true, "CREATE /pods shop alice": false, "CREATE /pods unknown alice": false, "CREATE /pods - alice": false},
		},
		"by identifier": {rules.When{Identifiers: []string{"alice"}}, map[string]bool{"CREATE /pods shop alice": true, "CREATE /pods shop bob": false}},
		"by expression": {rules.When{Expression: `request.userInfo.username.startsWith("a")`}, map[string]bool{"CREATE /pods shop alice": true, "CREATE /pods shop bob": false}},
	} {
		t.Run(name, func(t *testing.T) {
			r := writeRule("_cluster/it", matchCreates("/pods"))
			r.Tiers = []rules.Tier{{Name: "other", When: tc.when, Units: 7}}
			x := indexSet(t, rules.Set{Rules: []rules.Rule{r}, Namespaces: testNamespaces()})
			for text, want := range tc.want {
				request := writeRequest(text)
				m := x.Match(nil, request)[0]
				if got := m.Terms(request, m.Identify(request)).Tier == "other"; got != want {
					t.Errorf("%s: %t, want %t", text, got, want)
				}
			}
		})
	}
}

func TestNewIndex_RejectsInvalidRulesForWrites(t *testing.T) {
	selecting := func(r ...rules.Requirement) rules.KubernetesMatch {
		m := matchCreates("/pods")
		m.NamespaceSelector = r
		return m
	}
	change := func(f func(*rules.Rule)) rules.Rule {
		r := writeRule("shop/it", matchCreates("/pods"))
		f(&r)
		return r
	}
	selector := rules.Selector{{Key: "a", Operator: rules.SelectorExists}}
	for name, bad := range map[string]rules.Rule{
		"no resources":                        writeRule("shop/it", rules.KubernetesMatch{}),
		"resources without an API group":      writeRule("shop/it", rules.KubernetesMatch{Resources: []rules.KubernetesResources{{Resources: []string{"pods"}, Operations: []string{"CREATE"}}}}),
		"no operation":                        writeRule("shop/it", matchOperations(nil, "/pods")),
		"a resource without a name":           writeRule("shop/it", matchCreates("/")),
		"a subresource without a name":        writeRule("shop/it", matchCreates("/pods/")),
		"a selector without a key":            writeRule("shop/it", selecting(rules.Requirement{Operator: rules.SelectorExists})),
		"a selector with an unknown operator": writeRule("shop/it", selecting(rules.Requirement{Key: "a", Operator: "Like", Values: []string{"b"}})),
		"a selector without values":           writeRule("shop/it", selecting(rules.Requirement{Key: "a", Operator: rules.SelectorIn})),
		"an Exists selector with values":      writeRule("shop/it", selecting(rules.Requirement{Key: "a", Operator: rules.SelectorExists, Values: []string{"b"}})),
		"a tier with an invalid selector": change(func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "a", Units: 1, When: rules.When{NamespaceSelector: rules.Selector{{Key: "a"}}}}}
		}),
		"hosts":                                 change(func(r *rules.Rule) { r.Match.Hosts = []string{"a.example"} }),
		"paths":                                 change(func(r *rules.Rule) { r.Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: "/"}} }),
		"methods":                               change(func(r *rules.Rule) { r.Match.Methods = []string{"POST"} }),
		"headers":                               change(func(r *rules.Rule) { r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "a"}} }),
		"networks":                              change(func(r *rules.Rule) { r.Match.CIDRs = []string{"10.0.0.0/8"} }),
		"networks as exception":                 change(func(r *rules.Rule) { r.Match.ExceptCIDRs = []string{"10.0.0.0/8"} }),
		"descriptors":                           change(func(r *rules.Rule) { r.Match.Descriptors = []rules.DescriptorMatch{{Key: "a"}} }),
		"an identifier from a header":           change(func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "a"} }),
		"an identifier from the client address": change(func(r *rules.Rule) { r.Identifier = rules.Identifier{From: rules.FromClientIP} }),
		"endpoints":                             change(func(r *rules.Rule) { r.PerEndpoint = true }),
		"a cost in a header":                    change(func(r *rules.Rule) { r.Cost = &rules.Cost{Header: "x-cost"} }),
		"a tier by header": change(func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "a", Units: 1, When: rules.When{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "a"}}}}
		}),
		"a tier by address": change(func(r *rules.Rule) {
			r.Tiers = []rules.Tier{{Name: "a", Units: 1, When: rules.When{CIDRs: []string{"10.0.0.0/8"}}}}
		}),
		"an expression over HTTP requests":              change(func(r *rules.Rule) { r.Match.Expression = `request.path == "/"` }),
		"a Kubernetes user in a rule for HTTP requests": change(func(r *rules.Rule) { r.Match = rules.Match{} }),
		"a namespace selector in a rule for HTTP requests": change(func(r *rules.Rule) {
			r.Match, r.Identifier = rules.Match{}, rules.Identifier{From: rules.FromClientIP}
			r.Tiers = []rules.Tier{{Name: "a", Units: 1, When: rules.When{NamespaceSelector: selector}}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{bad}}, "r", "weir:"); err == nil || !strings.Contains(err.Error(), "rule shop/it: ") {
				t.Errorf("error %v, want one that names the rule", err)
			}
		})
	}
}

// TestMatch_AgreesWithTheDefinitionForWrites compares the index with the definition in KubernetesMatch.
func TestMatch_AgreesWithTheDefinitionForWrites(t *testing.T) {
	some := func(of ...string) *rapid.Generator[[]string] {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID)
	}
	rarely := func(of ...string) *rapid.Generator[[]string] {
		empty := rapid.Just[[]string](nil)
		return rapid.OneOf(empty, empty, empty, some(of...))
	}
	oneOrTwo := func(of ...string) *rapid.Generator[[]string] {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, 2, rapid.ID)
	}
	namespaces := []string{"bank", "search", "shop", "unknown"}
	requests, found, missed := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var list []rules.Rule
		for i := range rapid.IntRange(1, 30).Draw(t, "rules") {
			m := rules.KubernetesMatch{
				Namespaces: rarely(namespaces...).Draw(t, "namespaces"), Users: rarely("alice", "bob").Draw(t, "users"), Groups: rarely("ops", "staff").Draw(t, "groups"),
				ExceptUsers: rarely("alice", "bob", "eve").Draw(t, "except users"), ExceptGroups: rarely("ops", "staff", "temps").Draw(t, "except groups"),
			}
			for range rapid.IntRange(1, 2).Draw(t, "resources") {
				m.Resources = append(m.Resources, rules.KubernetesResources{
					APIGroups: oneOrTwo("", "apps", "*").Draw(t, "groups"), Operations: oneOrTwo("CREATE", "UPDATE").Draw(t, "operations"),
					Resources: oneOrTwo("pods", "jobs", "*", "pods/scale", "pods/*", "*/scale", "*/*").Draw(t, "names"),
				})
			}
			if rapid.IntRange(0, 3).Draw(t, "selects") == 0 {
				m.NamespaceSelector = rules.Selector{rapid.SampledFrom([]rules.Requirement{
					{Key: "tier", Operator: rules.SelectorIn, Values: []string{"free"}},
					{Key: "tier", Operator: rules.SelectorNotIn, Values: []string{"free"}},
					{Key: "exempt", Operator: rules.SelectorExists},
					{Key: "exempt", Operator: rules.SelectorDoesNotExist},
				}).Draw(t, "requirement")}
			}
			r := writeRule(rapid.SampledFrom([]string{"_cluster", "bank", "cluster", "shop"}).Draw(t, "scope")+fmt.Sprintf("/%02d", i), m)
			if domains := rarely("bank", "shop").Draw(t, "domains"); r.AllDomains && len(domains) > 0 {
				r.AllDomains, r.Domains = false, domains
			}
			list = append(list, r)
		}
		x := indexSet(t, rules.Set{Rules: list, Namespaces: testNamespaces()})
		for range 5 {
			requests++
			request := writeRequest(strings.Join([]string{
				rapid.SampledFrom([]string{"CREATE", "UPDATE"}).Draw(t, "operation"),
				rapid.SampledFrom([]string{"/pods", "/jobs", "apps/pods", "/pods/scale", "apps/jobs/scale", "/pods/log"}).Draw(t, "resource"),
				rapid.SampledFrom(append(namespaces, "-")).Draw(t, "namespace"), rapid.SampledFrom([]string{"alice", "bob", "eve"}).Draw(t, "user"),
				strings.Join(some("ops", "staff", "temps").Draw(t, "their groups"), " "),
			}, " "))
			var want, got []string
			for i := range list {
				if definitionMatches(&list[i], request.Kubernetes) {
					want = append(want, list[i].Policy)
				}
			}
			for _, m := range x.Match(nil, request) {
				got = append(got, m.Rule.Policy)
			}
			found, missed = found+len(want), missed+len(list)-len(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v (-definition +index):\n%s", request.Kubernetes, diff)
			}
		}
	})
	if found < requests/5 || missed < requests/5 {
		t.Errorf("%d matches and %d mismatches for %d requests are too few for this test", found, missed, requests)
	}
}

// definitionMatches reports whether r matches w by the definition in KubernetesMatch.
func definitionMatches(r *rules.Rule, w *rules.KubernetesRequest) bool {
	inDomain := r.AllDomains || w.Namespace != "" && (r.Domain == w.Namespace || slices.Contains(r.Domains, w.Namespace))
	m := r.Match.Kubernetes
	matchesPattern := func(pattern, value string) bool { return pattern == "*" || pattern == value }
	resourceMatches := slices.ContainsFunc(m.Resources, func(of rules.KubernetesResources) bool {
		return slices.ContainsFunc(of.APIGroups, func(g string) bool { return matchesPattern(g, w.Group) }) && slices.Contains(of.Operations, w.Operation) &&
			slices.ContainsFunc(of.Resources, func(name string) bool {
				resource, subresource, _ := strings.Cut(name, "/")
				return matchesPattern(resource, w.Resource) && matchesPattern(subresource, w.Subresource)
			})
	})
	containsAny := func(list []string, of ...string) bool {
		return slices.ContainsFunc(of, func(one string) bool { return slices.Contains(list, one) })
	}
	selected := len(m.NamespaceSelector) == 0
	for _, n := range testNamespaces() {
		if n.Name != w.Namespace || selected {
			continue
		}
		switch r := m.NamespaceSelector[0]; r.Operator {
		case rules.SelectorIn:
			selected = n.Labels[r.Key] == "free"
		case rules.SelectorNotIn:
			selected = n.Labels[r.Key] != "free"
		case rules.SelectorExists:
			selected = n.Labels[r.Key] != ""
		default:
			selected = n.Labels[r.Key] == ""
		}
	}
	return inDomain && resourceMatches && selected && (len(m.Namespaces) == 0 || containsAny(m.Namespaces, w.Namespace)) &&
		(len(m.Users) == 0 || containsAny(m.Users, w.User)) && (len(m.Groups) == 0 || containsAny(m.Groups, w.Groups...)) &&
		!containsAny(m.ExceptUsers, w.User) && !containsAny(m.ExceptGroups, w.Groups...)
}

// BenchmarkMatchWrites matches one write against 10 000 rules: half of them in a thousand namespaces, half of them cluster rules
// for different resources. Three rules match. The index looks up the namespace for its labels and its tenant.
func BenchmarkMatchWrites(b *testing.B) {
	set := rules.Set{}
	for i := range 5000 {
		set.Rules = append(set.Rules, writeRule(fmt.Sprintf("ns%d/p%05d", i%1000, i), matchCreates(fmt.Sprintf("apps/r%d", i/1000))))
		set.Rules = append(set.Rules, writeRule(fmt.Sprintf("_cluster/p%05d", i), matchCreates(fmt.Sprintf("g%d.example/r%d", i%100, i))))
	}
	for i := range 1000 {
		set.Namespaces = append(set.Namespaces, rules.Namespace{Name: fmt.Sprintf("ns%03d", i), Labels: map[string]string{"tier": "free"}, Tenant: "acme"})
	}
	tenants := writeRule("_cluster/tenants", matchCreates("apps/*"))
	tenants.Identifier.From = rules.FromKubernetesTenant
	tenants.Match.Kubernetes.NamespaceSelector = rules.Selector{{Key: "tier", Operator: rules.SelectorIn, Values: []string{"free"}}}
	set.Rules = append(set.Rules, tenants, writeRule("_cluster/any", matchCreates("*/*")))
	x := indexSet(b, set)
	request := writeRequest("CREATE apps/r3 ns444 alice system:authenticated")
	dst := make([]matching.Matched, 0, 16)
	if got := len(x.Match(dst, request)); got != 3 {
		b.Fatalf("%d rules match, want 3", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range x.Match(dst, request) {
			m.Terms(request, m.Identify(request))
		}
	}
}
