package ratelimitservice_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// options are the defaults of weir ratelimit.
func options() ratelimitservice.Options {
	return ratelimitservice.Options{Algorithm: v1alpha1.FixedWindow, OnStoreFailure: v1alpha1.StoreFailureDeny}
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
		// One counter for each value of the last entry. The route is no wildcard.
		Identifier: rules.Identifier{From: rules.FromDescriptor, Name: "rule-0-match-0"},
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
	if _, err := rules.NewIndex(set, "1", "weir:"); err != nil {
		t.Error(err)
	}
}

func TestUpdate_AnInvalidDomainKeepsItsLimitsAndAffectsNoOther(t *testing.T) {
	valid := []*ratelimitv3.RateLimitConfig{config("a", node("k", per(1, ratelimitv3.RateLimitUnit_DAY))), config("b", node("k", per(2, ratelimitv3.RateLimitUnit_DAY)))}
	for name, test := range map[string]struct {
		invalid *ratelimitv3.RateLimitConfig
		want    string
	}{
		"no unit":           {config("a", node("k", &ratelimitv3.RateLimitPolicy{RequestsPerUnit: 1})), "descriptor 1 of domain a: unit UNKNOWN is unknown; the units are second, minute, hour, day, week, month, year"},
		"a later unit":      {config("a", node("k", per(1, 99))), "descriptor 1 of domain a: unit 99 is unknown; the units are second, minute, hour, day, week, month, year"},
		"no key":            {config("a", node("=v", nil)), "descriptor 1 of domain a: key is missing or empty; a descriptor must have a key"},
		"a key twice":       {config("a", node("x", nil), node("k=v", nil), node("k=v", nil)), "descriptor 3 of domain a: descriptor k=v is already defined at a:2; a key and a value can occur once in a list"},
		"a limit too large": {config("a", node("k", per(4e9, ratelimitv3.RateLimitUnit_DAY))), "descriptor 1 of domain a: requests_per_unit is 4000000000, but a limit of Weir is at most 1000000000; use unlimited: true or a lower limit"},
		"replaces": {
			config("a", node("k", &ratelimitv3.RateLimitPolicy{Unit: 1, RequestsPerUnit: 1, Replaces: []*ratelimitv3.RateLimitReplace{{Name: "n"}}})),
			"descriptor 1 of domain a: replaces switches off limits of other descriptors of the request (n), but in Weir all policies of a request apply; remove replaces, or leave the values out of those limits",
		},
		"quota_mode": {
			config("a", &ratelimitv3.RateLimitDescriptor{Key: "k", QuotaMode: true, RateLimit: per(1, 1)}),
			"descriptor 1 of domain a: quota_mode denies a request only if all of its quota descriptors are over their limits, but in Weir each policy can deny; remove quota_mode if the limit can deny alone",
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
			if diff := cmp.Diff([]string{"domain a: the new limits are invalid, and the previous limits stay active"}, d.Changes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpdate_RejectsWhatNamesNoDomainOrOneTwice(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	got, err := update(d, noon, true, config(""), config("a", node("k", per(1, 1))), config("a", node("k", per(2, 1))))
	want := "descriptor 0 of domain : domain is missing or empty; set it to the domain of the rate limit filter of Envoy\ndomain a is listed twice; only the first applies"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"a|k 1/1s"}, got); diff != "" {
		t.Error(diff)
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

func TestUpdate_NamesLimitsAsTheConfigurationDoes(t *testing.T) {
	d := ratelimitservice.NewDomains(options(), keep)
	named := per(1, 1)
	named.Name = "gold"
	if err := d.Update(noon, []*ratelimitv3.RateLimitConfig{config("10.0.0.1:80|x", node("k=v", named, node("masked_remote_address=10.1.0.0/16", per(2, 1))))}, true); err != nil {
		t.Fatal(err)
	}
	_, limits := d.Rules()
	want := map[string]ratelimitservice.Limit{
		"10.0.0.1:80|x|k=v": {Name: "gold", Units: 1, Domain: "10_0_0_1_80_x", Key1: "k_v"},
		"10.0.0.1:80|x|k=v|masked_remote_address=10.1.0.0/16": {
			Units: 2, Domain: "10_0_0_1_80_x", Key1: "k_v", Key2: "masked_remote_address_10_1_0_0/16",
		},
	}
	if diff := cmp.Diff(want, limits); diff != "" {
		t.Error(diff)
	}
}
