package matching

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/pattern"
	"github.com/weir-dev/weir/limiter/rules/policyname"
	"github.com/weir-dev/weir/limiter/rules/reading"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// history is a Set that changes at random. Its values are few, so that rules meet in the tables, and requests find them.
type history struct {
	*rapid.T
	*rand.Rand

	rules      map[string]rules.Rule
	namespaces map[string]rules.Namespace
	byAge      map[string][]string
	routes     *rules.RouteTable
	hashKey    *limiter.HashKey
}

func (h *history) oneOf(texts string) string { return h.some(texts)[0] }

func (h *history) some(texts string) (some []string) {
	all := strings.Split(texts, " ")
	for range 1 + h.IntN(3) {
		some = append(some, all[h.IntN(len(all))])
	}
	return some
}

func (h *history) chance(percent int) bool { return h.IntN(100) < percent }

const (
	scopesOfHistory = "shop shop-b bank infra _cluster"
	hostsOfHistory  = "a.example b.example *.example *.shop.example x.a.example"
	pathsOfHistory  = "/ /a /A /a/b /a/b/ /b /c/long/path/of/a/policy /c"
	targets         = "HTTPRoute/a HTTPRoute/a/pay HTTPRoute/b"
)

// rule returns a random rule of the policy.
func (h *history) rule(scope, name string) rules.Rule {
	r := rules.Rule{
		Policy: policyname.Join(scope, name), Domain: scope, Axis: "Tenant", Algorithm: limiter.FixedWindow, WindowSeconds: 60,
		Units:      int64(1 + h.IntN(5)),
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant", Secret: h.chance(10)},
		Shadow:     h.chance(10), PerEndpoint: h.chance(20),
	}
	if h.chance(20) {
		r.Rate = h.oneOf("1h 1d")
		r.Policy += ":" + r.Rate
	}
	if scope == policyname.Cluster {
		if r.Domain = ""; h.chance(50) {
			r.AllDomains = true
		} else {
			r.Domains = h.some("shop shop-b bank")
		}
		r.Default = h.chance(50)
	}
	if !r.Default && h.chance(30) {
		r.ReplacesDefaults = []string{policyname.Join(policyname.Cluster, h.oneOf("p0 p1 p2"))}
	}
	if h.chance(40) {
		for i := range 10 * (1 + h.IntN(4)) {
			r.Tiers = append(r.Tiers, rules.Tier{Name: fmt.Sprint("t", i), Units: 9, When: rules.When{Identifiers: []string{fmt.Sprint("id-", i)}}})
		}
	}
	h.match(&r)
	return r
}

func (h *history) match(r *rules.Rule) {
	m := &r.Match
	switch kind := h.IntN(10); {
	case kind == 0:
		for range 1 + h.IntN(2) {
			m.Descriptors = append(m.Descriptors, rules.DescriptorMatch{Key: h.oneOf("k l"), Value: h.oneOf("v w") + strings.Repeat("x", h.IntN(2))})
			if h.chance(40) {
				m.Descriptors[len(m.Descriptors)-1].Value = ""
			}
		}
	case kind == 1 && !r.AllDomains:
		m.Routes = []rules.Route{}
		for _, target := range h.some(targets) {
			m.Routes = append(m.Routes, rules.Route{Namespace: h.oneOf("shop shop-b bank"), Target: target})
			r.Domains = append(r.Domains, m.Routes[len(m.Routes)-1].Namespace)
		}
	case kind <= 3:
		m.Kubernetes = &rules.KubernetesMatch{Resources: []rules.KubernetesResources{{
			APIGroups: h.some("apps * events.k8s.io"), Resources: h.some("pods * deployments/scale events pods/*"), Operations: h.some("CREATE DELETE"),
		}}}
		if h.chance(30) {
			m.Kubernetes.Namespaces = h.some("shop bank")
		}
		if h.chance(30) {
			m.Kubernetes.NamespaceSelector = rules.Selector{{Key: "team", Operator: rules.SelectorIn, Values: h.some("x y")}}
		}
		r.Identifier = rules.Identifier{From: rules.FromKubernetesTenant}
		r.PerEndpoint = false
		return
	default:
		if h.chance(50) {
			m.Hosts = h.some(hostsOfHistory)
		}
	}
	if len(m.Descriptors) == 0 && h.chance(60) {
		m.IgnoreCase = h.chance(30)
		for _, path := range h.some(pathsOfHistory) {
			m.Paths = append(m.Paths, rules.PathMatch{Type: rules.PathMatchType(h.oneOf("Exact PathPrefix")), Value: path})
		}
		if h.chance(30) {
			m.Paths = append(m.Paths, rules.PathMatch{Type: rules.PathRegex, Value: h.oneOf("/a/.* /[ab] /(a|b)+.*")})
		}
	}
	if h.chance(30) {
		m.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: h.oneOf("free paid")}}
	}
	if h.chance(10) {
		m.Expression = h.oneOf(`request.path!="/a" request.method=="GET" int(request.path)>0`)
	}
	if h.chance(20) {
		m.Methods = h.some("GET POST")
	}
}

// change makes some changes.
func (h *history) change() {
	for range 1 + h.IntN(4) {
		switch scope := h.oneOf(scopesOfHistory); h.IntN(20) {
		case 0:
			for _, name := range slices.Sorted(maps.Keys(h.rules)) {
				if strings.HasPrefix(name, scope+"/") && h.chance(50) {
					delete(h.rules, name)
				}
			}
		case 1: // more than count for one request, and more tiers than have series of their own
			for i := range 34 + 30*h.IntN(2) {
				h.put(h.rule(scope, fmt.Sprint("p", i)))
			}
		case 2:
			names := strings.Split("p0 p1 p2 p3 p4 p5 p6:1d p7 p8 p9 p30 p31 p32 p33 p34", " ")
			h.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			h.byAge[scope] = names
		case 3:
			delete(h.byAge, scope)
		case 4:
			n := rules.Namespace{Name: h.oneOf("shop bank infra"), Labels: map[string]string{"team": h.oneOf("x y z")}, Tenant: h.oneOf("t u")}
			if h.namespaces[n.Name] = n; h.chance(30) {
				delete(h.namespaces, n.Name)
			}
		case 5:
			h.routes = nil
			if h.chance(80) {
				h.routes = &rules.RouteTable{
					Routes: []rules.Route{{Namespace: h.oneOf("shop bank"), Target: "HTTPRoute/a"}}, Matches: []rules.RouteMatch{{Path: rules.PathMatch{Type: rules.PathPrefix, Value: h.oneOf("/ /a")}}},
					Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Matches: []int{0}}}}},
				}
			}
		default:
			h.put(h.rule(scope, fmt.Sprint("p", h.IntN(10))))
		}
	}
}

// put adds the rule in place of the rates of its policy.
func (h *history) put(r rules.Rule) {
	for name, other := range h.rules {
		if other.PolicyName() == r.PolicyName() && (other.Rate == "" || r.Rate == "") {
			delete(h.rules, name)
		}
	}
	h.rules[r.Policy] = r
}

func (h *history) set() rules.Set {
	set := rules.Set{RouteTable: h.routes, ByAge: map[string][]string{}}
	for _, r := range h.rules {
		set.Rules = append(set.Rules, r)
		if r.HashesIdentifiers() {
			set.HashKey = h.hashKey.ID()
		}
	}
	maps.Copy(set.ByAge, h.byAge)
	for _, n := range h.namespaces {
		set.Namespaces = append(set.Namespaces, n)
	}
	return set
}

// version returns the Set with the shards of the previous version that are equal, as a limiter has it.
func (h *history) version(previous *rules.Sharded) *rules.Sharded {
	data, _ := rules.Encode(h.set()) // so that the versions have no memory in common
	set, _, err := rules.Decode(data)
	if err != nil {
		h.Fatal(err)
	}
	next := rules.Split(set)
	if h.chance(10) { // as a program without shards does
		return next
	}
	for i, shard := range next.Shards {
		if reflect.DeepEqual(shard, previous.Shards[i]) {
			next.Shards[i] = previous.Shards[i]
		}
	}
	if reflect.DeepEqual(next.RouteTable, previous.RouteTable) {
		next.RouteTable = previous.RouteTable
	}
	return next
}

func (h *history) request() *rules.Request {
	r := &rules.Request{
		Domain: h.oneOf("shop shop-b bank infra other"), Method: h.oneOf("GET POST"), Host: h.oneOf("a.example b.example x.a.example y.shop.example other"),
		Headers: map[string]string{"x-tenant": h.oneOf("acme id-1 id-9"), "x-plan": h.oneOf("free paid")},
	}
	r.SetTarget(h.oneOf("/ /a /A /a/b /B /a/b/c /c/long/path/of/a/policy/x /c;x=1/../a /a%2fb /c 0") + strings.Repeat("/..;", 80*(h.IntN(6)/5)))
	switch h.IntN(6) {
	case 0:
		r.Descriptors = []rules.Descriptor{{{Key: h.oneOf("k l"), Value: h.oneOf("v w vx")}}, {{Key: h.oneOf("k l"), Value: h.oneOf("v w")}, {Key: h.oneOf("k l"), Value: "w"}}}
		r.NoHTTP = h.chance(50)
	case 1:
		r.Descriptors = []rules.Descriptor{{{Key: rules.RouteEntry, Value: h.oneOf(targets)}}}
	case 2:
		r.SetTarget("") // a write has no path
		r.Kubernetes = &rules.KubernetesRequest{
			Operation: h.oneOf("CREATE DELETE"), Group: h.oneOf("apps events.k8s.io"), Resource: h.oneOf("pods deployments events"), Subresource: "", Namespace: r.Domain, User: "u",
		}
		if h.chance(30) {
			r.Kubernetes.Subresource = "scale"
		}
	}
	return r
}

// answers describes what the index answers about a request, and if it is explained, also about the rules that do not match it.
func answers(x *Index, r *rules.Request, explains bool) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	describe := func(what string, matched []Matched) {
		for _, m := range matched {
			namespace := rules.Namespace{}
			if m.namespace != nil {
				namespace = *m.namespace
			}
			add("%s %s %d units %s %d descriptor %d in %v", what, m.Rule.Policy, m.Rule.Units, m.Endpoint, m.certainty, m.descriptor, namespace)
			id := m.Identify(r)
			add("  %s %+v %s", id, m.Terms(r, id), m.Key(id))
		}
	}
	kept, leftOut := x.Bounded(x.Match(nil, r))
	describe("matches", kept)
	describe("leaves out", leftOut)
	var explained []Explained
	if explains { // takes long
		explained = x.Explain(r)
	}
	for _, e := range explained {
		add("%s: failed %d %d, uncertain %t, replaced by %q, left out %t", e.Rule.Policy, e.Failed, e.Header, e.Uncertain, e.ReplacedBy, e.LeftOut)
	}
	add("routes %v", x.RoutesOf(&route.Request{Method: r.Method, Host: r.Host, Target: r.Path}))
	s := search{index: x, request: r, kind: r.Kind(), steps: pattern.MaxSteps}
	s.find()
	add("cost %d, %d steps left, %d rules compared", s.cost, s.steps, s.compared)
	return lines
}

// contents describes what does not depend on a request.
func contents(x *Index) (lines []string) {
	for c := range x.Rules() {
		found, _ := x.RuleOf(c.Policy)
		number, isNumbered := x.NumberOf(c.policyName)
		lines = append(lines, fmt.Sprintf("%d %t %s, shares series %t, is found %t, %s", number, isNumbered, c.Policy, x.SharesTierSeries(c), found == c, c.Revision()))
	}
	for _, name := range slices.Sorted(x.namespaces.Keys()) {
		lines = append(lines, fmt.Sprintf("namespace %+v", *x.namespaces.Get(name)))
	}
	for scope := range strings.SplitSeq(scopesOfHistory, " ") {
		lines = append(lines, fmt.Sprintf("%s has ages %v and %d tiers", scope, x.scopes.ages.Get(scope), x.scopes.tiers.Get(scope)))
	}
	return append(lines, fmt.Sprint(slices.Collect(x.Policies()), x.Len(), x.revision, x.tables.Domains.Len(), x.tables.Namespaces.Len(), x.namespaces.Len(), x.scopes.ages.Len(),
		x.scopes.tiers.Len(), x.scopes.sharing.Len()))
}

// checkNumbers checks the numbers of policies, and which of them differ between the indexes.
func (h *history) checkNumbers(previous, x *Index) {
	policies := func(x *Index) (names []string) {
		if x != nil {
			for c := range x.Rules() {
				names = append(names, c.PolicyName())
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	names := policies(x)
	for i, name := range names {
		var rates []string
		for c := range x.RatesOf(name) {
			rates = append(rates, c.Policy)
		}
		want := slices.DeleteFunc(slices.Collect(x.Policies()), func(rule string) bool { return rules.WithoutRate(rule) != name })
		if number, found := x.NumberOf(name); number != i || !found || !slices.Equal(rates, want) {
			h.Fatalf("policy %s has number %d (%t) and the rates %q, want %d and %q", name, number, found, rates, i, want)
		}
	}
	if number, found := x.NumberOf("shop/unknown"); found {
		h.Fatalf("a policy that does not exist has number %d", number)
	}
	before := policies(previous)
	only := func(in, others []string) (numbers []int) {
		for i, name := range in {
			if !slices.Contains(others, name) {
				numbers = append(numbers, i)
			}
		}
		return numbers
	}
	removed, added := x.Renumbered(previous)
	if !slices.Equal(removed, only(before, names)) || !slices.Equal(added, only(names, before)) {
		h.Fatalf("from %q to %q: the numbers %v were removed and %v added", before, names, removed, added)
	}
}

// An index that grew by updates decides as one that was made from the same Set, and earlier versions decide as before.
func TestUpdate_DecidesAsANewIndex(t *testing.T) {
	key := limiter.RandomHashKey()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		h := &history{T: rt, Rand: rand.New(rand.NewPCG(seed, 0)), rules: map[string]rules.Rule{}, namespaces: map[string]rules.Namespace{}, byAge: map[string][]string{}, hashKey: key}
		var earlier []func()
		var previous *Index
		set := &rules.Sharded{}
		for step := range 8 {
			h.change()
			set = h.version(set)
			revision := strconv.Itoa(step)
			x, err := Update(previous, set, revision, "weir:", WithHashKey(key))
			if err != nil {
				rt.Fatal(err)
			}
			fresh, err := NewIndex(h.set(), revision, "weir:", WithHashKey(key))
			if err != nil {
				rt.Fatal(err)
			}
			compare := func(x, with *Index, r *rules.Request, explains bool) {
				got, want := contents(x), contents(with)
				if r != nil {
					got, want = answers(x, r, explains), answers(with, r, explains)
				}
				for i := range max(len(got), len(want)) {
					if i >= len(got) || i >= len(want) || got[i] != want[i] {
						rt.Fatalf("step %d of revision %s, request %+v, line %d:\n%q\nwant\n%q", step, x.revision, r, i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
					}
				}
			}
			compare(x, fresh, nil, false)
			h.checkNumbers(previous, x)
			for i := range 5 {
				r := h.request()
				compare(x, fresh, r, i == 0)
				earlier = append(earlier, func() { compare(x, fresh, r, false) })
			}
			checkShared(rt, previous, x)
			previous = x
		}
		for _, check := range earlier {
			check()
		}
	})
}

// checkShared checks that both indexes have the same rule if it is equal, and the same table if its rules are.
func checkShared(rt *rapid.T, previous, x *Index) {
	if previous == nil {
		return
	}
	touched, everywhere := map[string]bool{}, false
	for _, change := range x.Changes(previous) {
		if change.Old == change.New {
			continue
		}
		if change.Old != nil && change.New != nil && reflect.DeepEqual(change.Old.Rule, change.New.Rule) {
			rt.Fatalf("%s was compiled again", change.Old.Policy)
		}
		for _, c := range []*Compiled{change.Old, change.New} {
			if c == nil {
				continue
			}
			touched[c.Domain], everywhere = true, everywhere || c.AllDomains
			for _, domain := range c.Domains {
				touched[domain] = true
			}
			if c.AllDomains && c.Match.Kubernetes != nil {
				for _, namespace := range c.Match.Kubernetes.Namespaces {
					touched[namespace] = true
				}
			}
		}
	}
	for _, domain := range []string{"shop", "shop-b", "bank", "infra"} {
		if !touched[domain] && (x.tables.Domains.Get(domain) != previous.tables.Domains.Get(domain) || x.tables.Namespaces.Get(domain) != previous.tables.Namespaces.Get(domain)) {
			rt.Fatalf("the tables of %s were copied", domain)
		}
	}
	if !everywhere && (x.tables.Everywhere != previous.tables.Everywhere || x.tables.AllNamespaces != previous.tables.AllNamespaces) {
		rt.Fatal("the tables of all domains were copied")
	}
	if reflect.DeepEqual(x.set.RouteTable, previous.set.RouteTable) != (x.routes == previous.routes) && x.set.RouteTable != nil {
		rt.Fatal("the table of routes was compiled although it is equal, or not although it differs")
	}
}

func TestUpdate_AnEditCompilesOneRule(t *testing.T) {
	list := make([]rules.Rule, 2000)
	for i := range list {
		list[i] = perEndpointRule(fmt.Sprintf("shop/p%04d", i), func(r *rules.Rule) {
			r.Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: fmt.Sprint("/", i)}}
		})
	}
	before := newIndex(t, list...)
	list[1000].Units++
	after, err := Update(before, rules.Split(rules.Set{Rules: list}), "2", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	changes := after.Changes(before)
	if len(changes) != 1 || changes[0].Old.Policy != "shop/p1000" || changes[0].New.Units != list[1000].Units {
		t.Fatalf("changes %v", changes)
	}
	paths := func(x *Index) [2]any {
		some := &x.tables.Domains.Get("shop").Any.Some
		return [2]any{some.Find(func(c *Compiled) int { return strings.Compare(c.Policy, "shop/p0999") }), some.Len()}
	}
	if paths(before) != paths(after) {
		t.Error("another rule was compiled again")
	}
}

func TestUpdate_AnErrorChangesNothing(t *testing.T) {
	key := limiter.RandomHashKey()
	r := perEndpointRule("shop/a", func(*rules.Rule) {})
	secret := perEndpointRule("shop/s", func(r *rules.Rule) {
		r.Identifier = rules.Identifier{From: rules.FromHeader, Name: "x-key", Secret: true}
	})
	update := func(x *Index, hashKey string, key *limiter.HashKey, list ...rules.Rule) (*Index, error) {
		return Update(x, rules.Split(rules.Set{Rules: list, HashKey: hashKey}), "2", "weir:", WithHashKey(key))
	}
	x, err := update(nil, key.ID(), key, r, secret)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(x)
	invalid := perEndpointRule("shop/b", func(r *rules.Rule) { r.Match.Paths = []rules.PathMatch{{Type: "Glob", Value: "/"}} })
	rated := perEndpointRule("shop/a:1d", func(r *rules.Rule) { r.Rate = "1d" }) // in the shard of shop/a
	unrated := perEndpointRule("shop/a:1d", func(*rules.Rule) {})                // in that of shop/a:1d
	for name, tc := range map[string]struct {
		hashKey string
		key     *limiter.HashKey
		list    []rules.Rule
		want    string
	}{
		"an invalid rule":                      {key.ID(), key, []rules.Rule{r, secret, invalid}, `rule shop/b: unknown path match type "Glob"`},
		"two rules in one shard":               {key.ID(), key, []rules.Rule{r, r}, "rule shop/a: another rule has this name"},
		"two rules in two shards":              {key.ID(), key, []rules.Rule{rated, unrated}, "rule shop/a:1d: another rule has this name"},
		"another hash key of an unchanged set": {"another", key, []rules.Rule{r, secret}, `rule shop/s was compiled with hash key "another", and this limiter has hash key "` + key.ID() + `"`},
		"another hash key of the limiter":      {key.ID(), limiter.RandomHashKey(), []rules.Rule{r, secret}, `rule shop/s was compiled with hash key "` + key.ID() + `", and this limiter has hash key`},
		"no hash key":                          {key.ID(), nil, []rules.Rule{r, secret}, "rule shop/s hashes identifiers, and there is no hash key"},
	} {
		if _, err := update(x, tc.hashKey, tc.key, tc.list...); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if got := contents(x); !slices.Equal(got, want) {
			t.Errorf("%s: the previous index has changed: %v", name, got)
		}
	}
	if next, err := update(x, "", nil, r); err != nil || next.Len() != 1 {
		t.Errorf("a Set without secrets needs no key: %v", err)
	}
}

// Rules have the keys of their index, also if they are equal.
func TestUpdate_CompilesAllRulesForOtherKeys(t *testing.T) {
	r := perEndpointRule("shop/a", func(*rules.Rule) {})
	before := newIndex(t, r)
	after, err := Update(before, rules.Split(rules.Set{Rules: []rules.Rule{r}}), "2", "other:")
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := after.RuleOf("shop/a"); !strings.HasPrefix(c.Keys.Key("acme", ""), "other:") {
		t.Errorf("key %s", c.Keys.Key("acme", ""))
	}
}

// Requests are matched while the next index is made: what both share is not written.
func TestUpdate_ChangesNothingThatIsInUse(t *testing.T) {
	list := make([]rules.Rule, 200)
	for i := range list {
		list[i] = perEndpointRule(fmt.Sprintf("shop/p%03d", i), func(r *rules.Rule) {
			r.Match.Hosts = []string{fmt.Sprintf("h%d.example", i%20), "*.example"}
			r.PerEndpoint, r.Tiers = i%2 == 0, []rules.Tier{{Name: "t", Units: 1, When: rules.When{Identifiers: []string{"x"}}}}
		})
	}
	x := newIndex(t, list...)
	done := make(chan struct{})
	for i := range 50 {
		go func(x *Index) {
			for j := range 20 {
				r := &rules.Request{Domain: "shop", Host: fmt.Sprintf("h%d.example", j), Path: reading.NormalPath(fmt.Sprint("/", i))}
				kept, _ := x.Bounded(x.Match(nil, r))
				for _, m := range x.NameEndpoints(kept, false) {
					m.Terms(r, m.Key(m.Identify(r)))
					x.SharesTierSeries(m.Rule)
					m.Rule.Counted()
				}
			}
			done <- struct{}{}
		}(x)
		list[i*3].Units++
		list[i*3].Tiers = append(list[i*3].Tiers, rules.Tier{Name: "u", Units: 1, When: rules.When{Identifiers: []string{"y"}}})
		ages := []string{fmt.Sprintf("p%03d", i), "p150"}
		next, err := Update(x, rules.Split(rules.Set{Rules: list, ByAge: map[string][]string{"shop": ages}}), strconv.Itoa(i), "weir:")
		if err != nil {
			t.Fatal(err)
		}
		next.Inherit(x)
		x = next
	}
	for range 50 {
		<-done
	}
}

// A Go program can name a policy as if it were a rate of another one.
func TestRatesOf_HasNoOtherPolicies(t *testing.T) {
	list := []rules.Rule{{Policy: "a"}, {Policy: "a:1d", Rate: "1d"}, {Policy: "a:1h"}, {Policy: "a:1m", Rate: "1m"}}
	for i := range list {
		list[i].Axis, list[i].Identifier, list[i].Algorithm = "Tenant", rules.Identifier{From: rules.FromClientIP}, limiter.FixedWindow
		list[i].Units, list[i].WindowSeconds = 1, 60
	}
	x, err := NewIndex(rules.Set{Rules: list}, "r", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string]string{"a": "[a a:1d a:1m]", "a:1h": "[a:1h]", "a:1d": "[]"} {
		rates := []string{}
		for c := range x.RatesOf(policy) {
			rates = append(rates, c.Policy)
		}
		if got := fmt.Sprint(rates); got != want {
			t.Errorf("policy %s has the rules %s, want %s", policy, got, want)
		}
	}
}
