package ratelimitservice_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// options are the defaults of weir ratelimit.
func options() ratelimitservice.Options {
	return ratelimitservice.Options{
		Algorithm: v1alpha1.FixedWindow, OnStoreFailure: v1alpha1.StoreFailureDeny, HashKey: ratelimitservice.PublicHashKey(),
	}
}

// node returns a descriptor with a key and a value such as "tenant=acme", and its limit, or nil.
func node(text string, limit *ratelimitv3.RateLimitPolicy, children ...*ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitDescriptor {
	key, value, _ := strings.Cut(text, "=")
	return &ratelimitv3.RateLimitDescriptor{Key: key, Value: value, RateLimit: limit, Descriptors: children}
}

func per(units uint32, unit ratelimitv3.RateLimitUnit) *ratelimitv3.RateLimitPolicy {
	return &ratelimitv3.RateLimitPolicy{RequestsPerUnit: units, Unit: unit}
}

func config(domain string, descriptors ...*ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitConfig {
	return &ratelimitv3.RateLimitConfig{Name: domain, Domain: domain, Descriptors: descriptors}
}

// update updates the configuration and returns the policies with their units and the error.
func update(d *ratelimitservice.Domains, now time.Time, complete bool, configs ...*ratelimitv3.RateLimitConfig) (policies []string, err error) {
	err = d.Update(now, configs, complete)
	return list(d), err
}

func list(d *ratelimitservice.Domains) (policies []string) {
	set, _ := d.Rules()
	for _, r := range set.Rules {
		policies = append(policies, fmt.Sprintf("%s %d/%ds", r.Policy, r.Units, r.WindowSeconds))
	}
	return policies
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const keep = 10 * time.Second

func TestUpdate_CompilesTheLimitsOfEachDomain(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	const route = "httproute/default/backend/rule/0/match/0/*"
	got, err := update(d, noon, true,
		config("default/eg/http", node(route+"="+route, nil,
			node("rule-0-match-0", per(3, ratelimitv3.RateLimitUnit_HOUR)),
			node("rule-1-match-0=rule-1-match-0", nil, node("masked_remote_address=invert:192.168.0.0/24", per(0, ratelimitv3.RateLimitUnit_MINUTE)))),
		),
		config("shop", node("tenant=acme", per(5, ratelimitv3.RateLimitUnit_YEAR)), node("tenant=a*", per(6, ratelimitv3.RateLimitUnit_WEEK))))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"default/eg/http|" + route + "=|rule-0-match-0 3/3600s",
		"default/eg/http|" + route + "=|rule-1-match-0=|masked_remote_address=invert:192.168.0.0/24 1/60s",
		"shop|tenant=a* 6/604800s", "shop|tenant=acme 5/31536000s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	set, limits := d.Rules()
	rule := set.Rules[0]
	wanted := rules.Rule{
		Policy: want[0][:len(want[0])-len(" 3/3600s")], Domains: []string{"default/eg/http"}, Axis: "Custom",
		// One counter for each value of the last entry, which is that of a header, such as an API key. The route is no wildcard.
		Identifier: rules.Identifier{From: rules.FromDescriptor, Name: "rule-0-match-0", Secret: true},
		Match:      rules.Match{Descriptors: []rules.DescriptorMatch{{Key: route, Value: route}, {Key: "rule-0-match-0"}}},
		Algorithm:  limiter.FixedWindow, Units: 3, WindowSeconds: 3600, Debt: true, WholeDebt: true, OnStoreFailure: rules.DenyOnFailure,
	}
	if diff := cmp.Diff(wanted, rule); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(ratelimitservice.Limit{
		Zero: true, Units: 1, Domain: "default/eg/http", Key1: route + "_" + route, Key2: "rule-1-match-0_rule-1-match-0",
	}, limits[set.Rules[1].Policy]); diff != "" {
		t.Error(diff)
	}
	if _, err := matching.NewIndex(set, "1", "weir:", matching.WithHashKey(options().HashKey)); err != nil {
		t.Error(err)
	}
}

func TestUpdate_NoNameContainsACredential(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	if _, err := update(d, noon, true, config("shop", node("api_key=s3cret", per(5, ratelimitv3.RateLimitUnit_DAY), node("plan=free", per(1, ratelimitv3.RateLimitUnit_DAY))),
		node("api_key=s3cret*", per(6, ratelimitv3.RateLimitUnit_DAY)), node("plan=free", per(7, ratelimitv3.RateLimitUnit_DAY)))); err != nil {
		t.Fatal(err)
	}
	set, limits := d.Rules()
	names := map[string]bool{}
	for _, rule := range set.Rules {
		limit := limits[rule.Policy]
		if text := fmt.Sprint(rule.Policy, limit); strings.Contains(text, "s3cret") || !strings.Contains(text, "hash:") && !strings.Contains(text, "plan_free") {
			t.Error(text)
		}
		names[rule.Policy] = true
	}
	if len(names) != 4 || !names["shop|plan=free"] {
		t.Errorf("%v", names)
	}
}

func TestUpdate_AnInvalidDescriptorKeepsItsLimitsAndAffectsNoOther(t *testing.T) {
	valid := []*ratelimitv3.RateLimitConfig{config("a", node("k", per(1, ratelimitv3.RateLimitUnit_DAY))), config("b", node("k", per(2, ratelimitv3.RateLimitUnit_DAY)))}
	for name, test := range map[string]struct {
		invalid *ratelimitv3.RateLimitConfig
		want    string
	}{
		"no unit":            {config("a", node("k", &ratelimitv3.RateLimitPolicy{RequestsPerUnit: 1})), "descriptor 1 of domain a, in k: unit UNKNOWN is unknown; the units are second, minute, hour, day, week, month, year"},
		"a later unit":       {config("a", node("k", per(1, 99))), "descriptor 1 of domain a, in k: unit 99 is unknown; the units are second, minute, hour, day, week, month, year"},
		"no key below it":    {config("a", node("k", nil, node("=v", nil))), "descriptor 2 of domain a, in k: key is missing or empty; a descriptor must have a key"},
		"too many wildcards": {config("a", wildcards(65)), "descriptor 2 of domain a, in k: spec.match.descriptors[1].except: 65 entries contain *, but at most 64 can; a request is compared with each of them"},
		"replaces": {
			config("a", node("k", &ratelimitv3.RateLimitPolicy{Unit: 1, RequestsPerUnit: 1, Replaces: []*ratelimitv3.RateLimitReplace{{Name: "n"}}},
				node("l", &ratelimitv3.RateLimitPolicy{Unit: 1, RequestsPerUnit: 1, Name: "n"}))),
			"descriptor 1 of domain a, in k: replaces switches off limits of other descriptors of the request (n at a:2), but spec.replaces of a policy applies only to a descriptor that the policy itself matches; remove replaces, or leave the values out of those limits",
		},
		"quota_mode": {
			config("a", &ratelimitv3.RateLimitDescriptor{Key: "k", QuotaMode: true, RateLimit: per(1, 1)}),
			"descriptor 1 of domain a, in k: quota_mode denies a request only if all of its quota descriptors are over their limits, but in Weir each policy can deny; remove quota_mode if the limit can deny alone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := ratelimitservice.NewDomains(options(), keep)
			if _, err := update(d, noon, true, valid...); err != nil {
				t.Fatal(err)
			}
			d.Changes()
			got, err := update(d, noon, true, test.invalid, config("b", node("k", per(7, ratelimitv3.RateLimitUnit_DAY))))
			if err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
			if diff := cmp.Diff([]string{"a|k 1/86400s", "b|k 7/86400s"}, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"domain a: the new limits of k are invalid, and the previous limits stay active"}, d.Changes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// wildcards returns the descriptor k with a limit for n wildcards of one key and for all other values of it.
func wildcards(n int) *ratelimitv3.RateLimitDescriptor {
	k := node("k", nil, node("v", per(1, 1)))
	for i := range n {
		k.Descriptors = append(k.Descriptors, node(fmt.Sprintf("v=%d*", i), nil))
	}
	return k
}

// In Envoy Gateway, a domain is a listener, and each descriptor of the first level is a route.
func TestUpdate_LeavesOutInvalidDescriptorsOfTheFirstLevel(t *testing.T) {
	const hour = ratelimitv3.RateLimitUnit_HOUR
	d := ratelimitservice.NewDomains(options(), keep)
	if _, err := update(d, noon, true, config("a", node("new=bad", nil, node("x", per(1, 99))))); err == nil || d.Count() != 0 {
		t.Errorf("%v, %d domains: a domain without a valid descriptor must not be active", err, d.Count())
	}
	if changes := d.Changes(); len(changes) > 0 {
		t.Errorf("%q, and the domain has no previous limits", changes)
	}
	// The numbers count the descriptors that were received, also after a first one was left out.
	first := []*ratelimitv3.RateLimitConfig{config("a",
		node("route=one", nil, node("x", nil), node("y", per(1, 99))), node("route=two", nil, node("x", per(2, hour))), wildcards(65),
		node("route=two", nil, node("x", per(3, hour))), node("=v", nil))}
	got, err := update(d, noon, true, first...)
	want := `descriptor 3 of domain a, in route=one: unit 99 is unknown; the units are second, minute, hour, day, week, month, year
descriptor 75 of domain a, in =v: key is missing or empty; a descriptor must have a key
descriptor 73 of domain a, in route=two: descriptor route=two is already defined at a:4; a key and a value can occur once in a list
descriptor 7 of domain a, in k: spec.match.descriptors[1].except: 65 entries contain *, but at most 64 can; a request is compared with each of them`
	if err == nil || !sameLines(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"a|route=two|x 2/3600s"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"domain a: the limits of route=one are invalid and left out", "domain a: the limits of route=two are invalid and left out",
		"domain a: the limits of =v are invalid and left out", "domain a: the limits of k are invalid and left out",
	}, d.Changes()); diff != "" {
		t.Error(diff)
	}
	if _, again := update(d, noon, true, first...); again == nil || again.Error() != err.Error() {
		t.Errorf("the same configuration is accepted the second time: %v", again)
	}
	// A previous version replaces an invalid one, and is still there for the next update. A removed descriptor is removed.
	for range 2 {
		got, err = update(d, noon, true, config("a", node("route=two", nil, node("x", per(2, 99))), node("route=one", per(1, hour))))
		if diff := cmp.Diff([]string{"a|route=one 1/3600s", "a|route=two|x 2/3600s"}, got); diff != "" || err == nil {
			t.Error(diff, err)
		}
	}
	got, err = update(d, noon, true, config("a", node("route=two", nil, node("x", per(4, hour)))))
	if diff := cmp.Diff([]string{"a|route=two|x 4/3600s"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A previous version can have more or fewer descriptors than the invalid one that it replaces.
func TestUpdate_NumbersDescriptorsAfterAReplacedOne(t *testing.T) {
	for _, previous := range [][]*ratelimitv3.RateLimitDescriptor{{node("x", per(1, 1))}, {node("x", per(1, 1)), node("y", per(1, 1)), node("z", per(1, 1))}} {
		d := ratelimitservice.NewDomains(options(), keep)
		if _, err := update(d, noon, true, config("a", node("first", nil, previous...))); err != nil {
			t.Fatal(err)
		}
		_, err := update(d, noon, true, config("a", node("first", nil, node("x", per(1, 1)), node("y", per(1, 99))), wildcards(65)))
		want := `descriptor 3 of domain a, in first: unit 99 is unknown; the units are second, minute, hour, day, week, month, year
descriptor 5 of domain a, in k: spec.match.descriptors[1].except: 65 entries contain *, but at most 64 can; a request is compared with each of them`
		if err == nil || err.Error() != want {
			t.Errorf("after %d descriptors: %v", len(previous)+1, err)
		}
	}
}

// No descriptor can be left out to make the domain valid.
func TestUpdate_AnInvalidDomainIsNoProblemOfADescriptor(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	const domain = "a b"
	_, err := update(d, noon, true, config(domain, node("k", per(1, 1)), node("l", per(1, 1))))
	if err == nil || !strings.HasPrefix(err.Error(), "domain "+domain+": spec.domains[0]: ") || d.Count() != 0 {
		t.Errorf("%v, %d domains", err, d.Count())
	}
}

// sameLines reports whether two texts have the same lines in any order.
func sameLines(a, b string) bool {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	slices.Sort(left)
	slices.Sort(right)
	return slices.Equal(left, right)
}

// 4294967295 is a usual limit for "unlimited".
func TestUpdate_ReplacesLimitsAboveTheMaximum(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	got, err := update(d, noon, true, config("a", node("k", per(4294967295, 1)), node("l", per(4294967295, 1)), node("m", per(1_000_000_000, 1))))
	if diff := cmp.Diff([]string{"a|k 1000000000/1s", "a|l 1000000000/1s", "a|m 1000000000/1s"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff([]string{"domain a: a limit of 4294967295 is above the maximum of Weir; 1000000000 applies"}, d.Changes()); diff != "" {
		t.Error(diff)
	}
}

// A rule of Envoy Gateway has a descriptor entry for each selector. With type Distinct, each value has a counter.
func TestUpdate_ManyEntriesSeparateCounters(t *testing.T) {
	for _, n := range []int{2, 7, 8, 32} {
		d := ratelimitservice.NewDomains(options(), keep)
		limit := node("k0", per(1, 1))
		for i := 1; i < n; i++ {
			limit = node(fmt.Sprint("k", i), nil, limit)
		}
		if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("a", limit)}, true); err != nil {
			t.Fatalf("%d entries: %v", n, err)
		}
		set, _ := d.Rules()
		index, err := matching.NewIndex(set, "1", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		var entries rules.Descriptor
		for i := n - 1; i >= 0; i-- {
			entries = append(entries, rules.Entry{Key: fmt.Sprint("k", i), Value: strconv.Itoa(i)})
		}
		request := rules.Request{Domain: "a", Descriptors: []rules.Descriptor{entries}, NoHTTP: true}
		matched := index.Match(nil, &request)
		if len(matched) != 1 {
			t.Fatalf("%d entries: matched %d times", n, len(matched))
		}
		var values, lengths []string
		for _, e := range entries {
			values, lengths = append(values, e.Value), append(lengths, strconv.Itoa(len(e.Value)))
		}
		if got, want := matched[0].Identify(&request), strings.Join(values, "/")+"#"+strings.Join(lengths[:n-1], ","); got != want {
			t.Errorf("%d entries: %s, want %s", n, got, want)
		}
	}
}

func TestUpdate_RejectsWhatNamesNoDomainOrOneTwice(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	got, err := update(d, noon, true, config(""), config("a", node("k", per(1, 1))), config("a", node("k", per(2, 1))), config("b", node("k", per(3, 1))))
	want := "domain : domain is missing or empty; set it to the domain of the rate limit filter of Envoy\ndomain a is listed twice; only the first applies"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"a|k 1/1s", "b|k 3/1s"}, got); diff != "" {
		t.Error(diff)
	}
}

// The server has a configuration, although no request is limited yet.
func TestUpdate_ADomainWithoutLimitsIsActive(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	if got, err := update(d, noon, true, config("a", node("k", nil))); len(got) > 0 || err != nil || d.Count() != 1 {
		t.Errorf("%q (%v), %d domains", got, err, d.Count())
	}
}

// A server that has just started lists its domains one after the other. Its first configuration must not remove the others.
func TestUpdate_KeepsDomainsThatDisappearForAWhile(t *testing.T) {
	a, b := config("a", node("k", per(1, ratelimitv3.RateLimitUnit_DAY))), config("b", node("k", per(2, ratelimitv3.RateLimitUnit_DAY)))
	both := []string{"a|k 1/86400s", "b|k 2/86400s"}
	d := ratelimitservice.NewDomains(options(), keep)
	expect := func(what string, got, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	got, _ := update(d, noon, true, a, b)
	expect("both are listed", got, both)
	got, _ = update(d, noon, true, a)
	expect("one is listed", got, both)
	expect("log", d.Changes(), []string{"domain b is no longer in the configuration; its limits stay active for 10s"})
	if at, ok := d.NextExpiry(); !ok || !at.Equal(noon.Add(keep)) {
		t.Errorf("next expiry %v %v", at, ok)
	}
	if d.Expire(noon.Add(keep - 1)) {
		t.Error("expired too early")
	}
	got, _ = update(d, noon.Add(keep-1), true, a, b)
	expect("it is listed again", got, both)
	if _, ok := d.NextExpiry(); ok || d.Expire(noon.Add(time.Hour)) {
		t.Error("it expires although it is listed")
	}
	got, _ = update(d, noon, true)
	expect("an empty configuration", got, both)
	if !d.Expire(noon.Add(keep)) || list(d) != nil {
		t.Errorf("after a while: %v", list(d))
	}
	if got := d.Changes(); len(got) != 4 || got[3] != "domain b has no limits any more, because it is no longer in the configuration" {
		t.Errorf("log %q", got)
	}
}

func TestUpdate_RemovesDomainsImmediatelyIfNoneIsKept(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), 0)
	if got, err := update(d, noon, true, config("a", node("k", per(1, ratelimitv3.RateLimitUnit_DAY)))); len(got) != 1 || err != nil {
		t.Fatal(got, err)
	}
	got, err := update(d, noon, true)
	want := []string{"domain a has no limits any more, because it is no longer in the configuration"}
	if changes := d.Changes(); len(got) > 0 || err != nil || !slices.Equal(changes, want) {
		t.Errorf("%q, %v, log %q", got, err, changes)
	}
}

func TestUpdate_ResourcesThatCannotBeReadRemoveNothing(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), 0)
	if _, err := update(d, noon, true, config("a", node("k", per(1, 1)))); err != nil {
		t.Fatal(err)
	}
	got, err := update(d, noon.Add(time.Hour), false)
	if diff := cmp.Diff([]string{"a|k 1/1s"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, _ := update(d, noon.Add(time.Hour), true); got != nil {
		t.Errorf("without a time to keep them, domains are removed immediately: %v", got)
	}
}

// The domain that is missing can be in the resource that could not be read.
func TestUpdate_ResourcesThatCannotBeReadStopARemoval(t *testing.T) {
	a, b := config("a", node("k", per(1, 1))), config("b", node("k", per(2, 1)))
	d := ratelimitservice.NewDomains(options(), keep)
	for i, update := range []struct {
		configs  []*ratelimitv3.RateLimitConfig
		complete bool
	}{{[]*ratelimitv3.RateLimitConfig{a, b}, true}, {[]*ratelimitv3.RateLimitConfig{a}, true}, {[]*ratelimitv3.RateLimitConfig{a}, false}} {
		if err := d.Update(noon.Add(time.Duration(i)*time.Second), update.configs, update.complete); err != nil {
			t.Fatal(err)
		}
	}
	if at, ok := d.NextExpiry(); ok || d.Expire(noon.Add(time.Hour)) {
		t.Errorf("b is removed at %v", at)
	}
	// The next configuration without it that can be read starts the time again.
	if err := d.Update(noon.Add(time.Hour), []*ratelimitv3.RateLimitConfig{a}, true); err != nil {
		t.Fatal(err)
	}
	if at, ok := d.NextExpiry(); !ok || !at.Equal(noon.Add(time.Hour+keep)) {
		t.Errorf("next expiry %v %v", at, ok)
	}
}

func TestUpdate_IgnoresFieldsOfLaterVersionsAndSaysSo(t *testing.T) {
	later := config("a", node("k", per(1, 1)))
	later.GetDescriptors()[0].ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	d := ratelimitservice.NewDomains(options(), keep)
	got, err := update(d, noon, true, later)
	if diff := cmp.Diff([]string{"a|k 1/1s"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff([]string{"domain a: RateLimitDescriptor has fields that this version does not know, and ignores"}, d.Changes()); diff != "" {
		t.Error(diff)
	}
}

func TestUpdate_AppliesTheOptions(t *testing.T) {
	d := ratelimitservice.NewDomains(ratelimitservice.Options{
		Algorithm: v1alpha1.SlidingWindowCounter, OnStoreFailure: v1alpha1.StoreFailureLocal, Shadow: true,
	}, keep)
	if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("a", node("k", per(1, ratelimitv3.RateLimitUnit_MONTH)), node("l", per(1, ratelimitv3.RateLimitUnit_YEAR)))}, true); err != nil {
		t.Fatal(err)
	}
	set, _ := d.Rules()
	for i, want := range []limiter.Algorithm{limiter.SlidingWindowCounter, limiter.FixedWindow} {
		if r := set.Rules[i]; r.Algorithm != want || r.Debt || r.WholeDebt || !r.Shadow || r.OnStoreFailure != rules.LocalOnFailure {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff([]string{"domain a: l, 1 per year: SlidingWindowCounter has no windows of 365d; FixedWindow applies"}, d.Changes()); diff != "" {
		t.Error(diff)
	}
}

// withAlgorithm adds metadata with an algorithm.
func withAlgorithm(t *testing.T, d *ratelimitv3.RateLimitDescriptor, value any) *ratelimitv3.RateLimitDescriptor {
	t.Helper()
	metadata, err := structpb.NewStruct(map[string]any{"weir.dev/algorithm": value, "owner": "shop"})
	if err != nil {
		t.Fatal(err)
	}
	d.Metadata = metadata
	return d
}

func TestUpdate_ADescriptorChoosesItsAlgorithm(t *testing.T) {
	for _, standard := range []v1alpha1.Algorithm{v1alpha1.FixedWindow, v1alpha1.TokenBucket} {
		t.Run(string(standard), func(t *testing.T) {
			choices := options()
			choices.Algorithm = standard
			d := ratelimitservice.NewDomains(choices, keep)
			// Descriptors below one with metadata have their own.
			parent := withAlgorithm(t, node("d=d", per(1, 2), node("below", per(1, 2))), "SlidingWindowLog")
			err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("a",
				withAlgorithm(t, node("a", per(1, 2)), "SlidingWindowCounter"), node("b", per(1, 2)), withAlgorithm(t, node("c", per(1, 2)), "FixedWindow"), parent,
				withAlgorithm(t, node("e", per(1, ratelimitv3.RateLimitUnit_YEAR)), "SlidingWindowLog"), withAlgorithm(t, node("f", nil), "LeakyBucket"))}, true)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			set, _ := d.Rules()
			for _, r := range set.Rules {
				got = append(got, fmt.Sprintf("%s %s %t/%t", r.Policy, r.Algorithm, r.Debt, r.WholeDebt))
			}
			fixed := standard == v1alpha1.FixedWindow
			of := fmt.Sprintf(" %s %t/%t", standard, fixed, fixed)
			want := []string{
				"a|a SlidingWindowCounter false/false", "a|b" + of, "a|c FixedWindow true/true", "a|d= SlidingWindowLog false/false", "a|d=|below" + of,
				"a|e FixedWindow false/false",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			changes := []string{
				"domain a: metadata weir.dev/algorithm has no effect: f has no limit, and the descriptors below it have metadata of their own",
				"domain a: e, 1 per year: SlidingWindowLog has no windows of 365d; FixedWindow applies",
			}
			if diff := cmp.Diff(changes, d.Changes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpdate_RejectsUnknownAlgorithms(t *testing.T) {
	for value, want := range map[any]string{"Guess": `"Guess"`, "": `""`, 7: `"7"`} {
		d := ratelimitservice.NewDomains(options(), keep)
		if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("a", node("k", per(1, 2)))}, true); err != nil {
			t.Fatal(err)
		}
		got, err := update(d, noon, true, config("a", withAlgorithm(t, node("k", per(9, 2)), value), node("l", per(3, 2))))
		message := "descriptor 1 of domain a, in k: metadata weir.dev/algorithm is " + want +
			", but must be one of FixedWindow, SlidingWindowCounter, SlidingWindowLog, TokenBucket, LeakyBucket"
		if err == nil || err.Error() != message {
			t.Errorf("%v, want %s", err, message)
		}
		if diff := cmp.Diff([]string{"a|k 1/60s", "a|l 3/60s"}, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUpdate_NamesLimitsAsTheConfigurationDoes(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	named := per(1, 1)
	named.Name = "gold"
	if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("10.0.0.1:80|x", node("k=v", named, node("masked_remote_address=10.1.0.0/16", per(2, 1))))}, true); err != nil {
		t.Fatal(err)
	}
	_, limits := d.Rules()
	want := map[string]ratelimitservice.Limit{
		`10.0.0.1:80\|x|k=v`: {Name: "gold", Units: 1, Domain: "10_0_0_1_80_x", Key1: "k_v"},
		`10.0.0.1:80\|x|k=v|masked_remote_address=10.1.0.0/16`: {
			Units: 2, Domain: "10_0_0_1_80_x", Key1: "k_v", Key2: "masked_remote_address_10_1_0_0/16",
		},
	}
	if diff := cmp.Diff(want, limits); diff != "" {
		t.Error(diff)
	}
}

func TestUpdate_DifferentLimitsHaveDifferentNames(t *testing.T) {
	limit := per(3, ratelimitv3.RateLimitUnit_HOUR)
	leaf := func(key, value string) *ratelimitv3.RateLimitDescriptor {
		return &ratelimitv3.RateLimitDescriptor{Key: key, Value: value, RateLimit: limit}
	}
	for name, test := range map[string]struct {
		configs []*ratelimitv3.RateLimitConfig
		want    []string
	}{
		"a key with =":         {[]*ratelimitv3.RateLimitConfig{config("d", leaf("x=y", ""), leaf("x", "y"))}, []string{`d|x=y`, `d|x\=y`}},
		"a value equal to key": {[]*ratelimitv3.RateLimitConfig{config("d", leaf("a", "a"), leaf("a=", ""))}, []string{`d|a=`, `d|a\=`}},
		"a key with |": {
			[]*ratelimitv3.RateLimitConfig{config("d", leaf("a|b", ""), node("a", nil, leaf("b", "")))}, []string{`d|a\|b`, `d|a|b`},
		},
		"a value with |": {
			[]*ratelimitv3.RateLimitConfig{config("d", leaf("a", "b|c"), node("a=b", nil, leaf("c", "")))}, []string{`d|a=b\|c`, `d|a=b|c`},
		},
		"a domain with |": {
			[]*ratelimitv3.RateLimitConfig{config("d|x", leaf("y", "")), config("d", leaf("x|y", ""), node("x", nil, leaf("y", "")))},
			[]string{`d\|x|y`, `d|x\|y`, `d|x|y`},
		},
		"a key with \\": {
			[]*ratelimitv3.RateLimitConfig{config("d", leaf(`a\|b`, ""), node(`a\`, nil, leaf("b", "")))}, []string{`d|a\\\|b`, `d|a\\|b`},
		},
		"a wildcard": {[]*ratelimitv3.RateLimitConfig{config("d", leaf("k", "*=*"), leaf("k=*", "*"))}, []string{`d|k=*\=*`, `d|k\=*=*`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := ratelimitservice.NewDomains(options(), keep)
			if err := d.Update(noon, test.configs, true); err != nil {
				t.Fatal(err)
			}
			set, limits := d.Rules()
			var got []string
			for _, r := range set.Rules {
				got = append(got, r.Policy)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(limits) != len(got) {
				t.Errorf("%s, %d limits", diff, len(limits))
			}
			if _, err := matching.NewIndex(set, "1", "weir:"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReport_PrintsNamesWithoutEscapes(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("d|x", node(`a\|b=c=d`, nil, node("e=e", per(3, 1))))}, true); err != nil {
		t.Fatal(err)
	}
	want := []ratelimitservice.LimitReport{`d|x.a\|b=c=d.e=: 3 per 1s, algorithm FixedWindow, shadow_mode: false`}
	if diff := cmp.Diff(want, ratelimitservice.Report(d.Rules())); diff != "" {
		t.Error(diff)
	}
}

func TestReport_PrintsALimitOfZeroAsItWasReceived(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("a", node("k", per(0, 2)))}, true); err != nil {
		t.Fatal(err)
	}
	want := []ratelimitservice.LimitReport{`a.k: 0 per 1m0s, algorithm FixedWindow, shadow_mode: false`}
	if diff := cmp.Diff(want, ratelimitservice.Report(d.Rules())); diff != "" {
		t.Error(diff)
	}
}
