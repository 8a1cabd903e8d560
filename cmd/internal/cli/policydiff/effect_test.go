package policydiff_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli/policydiff"
)

func policy(spec string) string {
	return "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: {" + spec + "}\n"
}

func TestCompare_EffectOfAChange(t *testing.T) {
	const leaky, bucket = "axis: User, window: 1m, algorithm: LeakyBucket, ", "axis: User, window: 1m, algorithm: TokenBucket, "
	const shadow = "axis: User, window: 1m, enforcement: Shadow, "
	tiers := func(list string) string { return base + ", tiers: [" + list + "]" }
	const gold, silver = "{name: gold, when: {groups: [gold]}, limit: 1000}", "{name: silver, when: {groups: [silver]}, limit: 500}"
	rates := func(list string) string { return "axis: User, rates: [" + list + "]" }
	selector := func(labels string) string {
		return base + ", match: {kubernetes: {namespaceSelector: {matchLabels: {" + labels + "}}, resources: [{apiGroups: [apps], resources: [deployments], operations: [CREATE]}]}}"
	}
	for _, c := range []struct {
		before, after string
		want, back    policydiff.Effect
	}{
		// The queue of a LeakyBucket is empty by default, and a TokenBucket has the capacity of its limit.
		{leaky + "limit: 100", leaky + "limit: 100, burst: 10", policydiff.Looser, policydiff.Stricter},
		{leaky + "limit: 100, burst: 50", leaky + "limit: 200", policydiff.Different, policydiff.Different},
		{leaky + "limit: 100", leaky + "limit: 200", policydiff.Looser, policydiff.Stricter},
		{bucket + "limit: 100", bucket + "limit: 100, burst: 10", policydiff.Stricter, policydiff.Looser},
		{bucket + "limit: 100, burst: 1000", bucket + "limit: 100, burst: 1000, tiers: [" + silver + "]", policydiff.Different, policydiff.Different},
		// The requests of a tier belong to a later one without it.
		{tiers(gold), tiers(silver + ", " + gold), policydiff.Different, policydiff.Different},
		{tiers(gold), tiers(gold + ", " + silver), policydiff.Looser, policydiff.Stricter},
		{base + ", tiers: [{name: b, when: {identifiers: [b]}, limit: 1000}]", base + ", tiers: [{name: a, when: {identifiers: [a]}, limit: 500}, {name: b, when: {identifiers: [b]}, limit: 1000}]", policydiff.Looser, policydiff.Stricter},
		{base + ", tiers: [{name: b, when: {identifiers: [a, b]}, limit: 1000}]", base + ", tiers: [{name: a, when: {identifiers: [a]}, limit: 500}, {name: b, when: {identifiers: [a, b]}, limit: 1000}]", policydiff.Different, policydiff.Different},
		// One more rate.
		{rates("{limit: 5, window: 1s}"), rates("{limit: 5, window: 1s}, {limit: 50, window: 1m}"), policydiff.Stricter, policydiff.Looser},
		{rates("{limit: 5, window: 1s}") + ", tiers: [{name: a, when: {groups: [g]}, rates: [{limit: 9, window: 1s}]}]", rates("{limit: 5, window: 1s}") + ", tiers: [{name: a, when: {groups: [g]}, rates: [{limit: 9, window: 1s}, {limit: 90, window: 1m}]}]", policydiff.Stricter, policydiff.Looser},
		// A request costs 1 by default.
		{base, base + ", cost: {value: 2}", policydiff.Stricter, policydiff.Looser},
		{base, base + ", cost: {value: 1}", policydiff.Same, policydiff.Same},
		{base, base + ", cost: {header: x-cost}", policydiff.Different, policydiff.Different},
		// Whatever a policy denies, it denied nothing in Shadow.
		{shadow + "limit: 5", base, policydiff.Stricter, policydiff.Looser},
		{shadow + "limit: 5, replaces: [x]", base + ", replaces: [x]", policydiff.Different, policydiff.Different},
		// Labels with the name of a field, and without a value.
		{selector("enforcement: Enforce, a: b"), selector("a: b"), policydiff.Stricter, policydiff.Looser},
		{selector("team: '', a: b"), selector("a: b"), policydiff.Stricter, policydiff.Looser},
	} {
		for _, one := range []struct {
			before, after string
			want          policydiff.Effect
		}{{c.before, c.after, c.want}, {c.after, c.before, c.back}} {
			d := compare(t, policy(one.before), policy(one.after))
			if len(d.Policies) != 1 || d.Policies[0].Effect != one.want {
				t.Errorf("%s\n%s\ngot %+v, want %s", one.before, one.after, d.Policies, one.want)
			}
		}
	}
}

// tier is a tier of a random policy, with one of the conditions.
type tier struct {
	name, header string
	identifiers  string // letters
	limit        float64
}

// spec is a random policy.
type spec struct {
	limit float64
	tiers []tier
}

// text returns the policy as YAML.
func (s spec) text() string {
	var list []string
	for _, one := range s.tiers {
		when := "header: {name: x-plan, value: " + one.header + "}"
		if one.header == "" {
			when = "identifiers: [" + strings.Join(strings.Split(one.identifiers, ""), ", ") + "]"
		}
		limit := fmt.Sprintf("limit: %v", one.limit)
		if math.IsInf(one.limit, 1) {
			limit = "unlimited: true"
		}
		list = append(list, fmt.Sprintf("{name: %s, when: {%s}, %s}", one.name, when, limit))
	}
	if list == nil {
		return policy(fmt.Sprintf("axis: User, limit: %v, window: 1m", s.limit))
	}
	return policy(fmt.Sprintf("axis: User, limit: %v, window: 1m, tiers: [%s]", s.limit, strings.Join(list, ", ")))
}

// Random changes of limits and tiers: what is called stricter admits no request more, by the first tier that a request belongs to.
func TestCompare_StricterAdmitsNoRequestMore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limits := []float64{1, 2, 3}
	pick := func() float64 { return limits[random.IntN(len(limits))] }
	newTier := func(name string) tier {
		one := tier{name: name, limit: pick()}
		if random.IntN(5) == 0 {
			one.limit = math.Inf(1)
		}
		if random.IntN(2) == 0 {
			one.header = string("ab"[random.IntN(2)])
		} else {
			one.identifiers = []string{"a", "b", "ab", "c"}[random.IntN(4)]
		}
		return one
	}
	limitOf := func(s spec, header, identifier string) float64 {
		for _, one := range s.tiers {
			if one.header != "" && one.header == header || one.identifiers != "" && strings.Contains(one.identifiers, identifier) {
				return one.limit
			}
		}
		return s.limit
	}
	seen := map[policydiff.Effect]int{}
	for range 600 {
		before := spec{limit: pick()}
		for i := range random.IntN(3) {
			before.tiers = append(before.tiers, newTier(string("pqr"[i])))
		}
		after := spec{limit: before.limit}
		for _, one := range before.tiers {
			switch random.IntN(6) {
			case 0: // removed
			case 1:
				one.limit = pick()
				fallthrough
			default:
				after.tiers = append(after.tiers, one)
			}
		}
		switch at := random.IntN(len(after.tiers) + 1); random.IntN(4) {
		case 0:
			after.limit = pick()
		case 1:
			after.tiers = append(after.tiers[:at:at], append([]tier{newTier("new")}, after.tiers[at:]...)...)
		}
		stricter, looser := false, false
		for _, header := range []string{"", "a", "b"} {
			for _, identifier := range []string{"a", "b", "c", "d"} {
				x, y := limitOf(before, header, identifier), limitOf(after, header, identifier)
				stricter, looser = stricter || y < x, looser || y > x
			}
		}
		effect := policydiff.Same
		if d := compare(t, before.text(), after.text()); len(d.Policies) == 1 {
			effect = d.Policies[0].Effect
		}
		seen[effect]++
		if effect == policydiff.Stricter && looser || effect == policydiff.Looser && stricter || effect == policydiff.Same && (stricter || looser) {
			t.Fatalf("called %s, and some requests are admitted less %t, more %t\n%s%s", effect, stricter, looser, before.text(), after.text())
		}
	}
	for _, effect := range []policydiff.Effect{policydiff.Stricter, policydiff.Looser, policydiff.Different, policydiff.Same} {
		if seen[effect] < 20 {
			t.Errorf("%d changes are called %s", seen[effect], effect)
		}
	}
}

const limiterWithHeader = `apiVersion: weir.dev/v1alpha1
kind: Limiter
metadata: {name: a, namespace: shop}
spec:
  redis: {addresses: ["redis:6379"]}
  identity: {user: {header: x-account}}
---
`

// The identity table of the Limiter decides what a policy counts by. Without a Limiter on one side, it is that of the other side.
func TestCompare_MentionsTheIdentityTable(t *testing.T) {
	other := strings.Replace(limiterWithHeader, "x-account", "x-login", 1)
	d := compare(t, limiterWithHeader+policy(base), other+policy(base))
	want := policydiff.Change{
		Field: "spec.identity of the Limiter", From: "header x-account", To: "header x-login", Effect: policydiff.Different,
		Why: "counts by another identifier, and starts new counters",
	}
	if len(d.Policies) != 1 || len(d.Policies[0].Changes) != 1 || d.Policies[0].Changes[0] != want || d.Policies[0].Line != 8 {
		t.Errorf("got %+v, want %+v at line 8", d.Policies, want)
	}
	for _, text := range []string{limiterWithHeader + policy(base), policy(base)} {
		if d := compare(t, text, limiterWithHeader+policy(base)); len(d.Policies) > 0 {
			t.Errorf("%+v, want no difference", d.Policies)
		}
		if d := compare(t, limiterWithHeader+policy(base), text); len(d.Policies) > 0 {
			t.Errorf("%+v, want no difference", d.Policies)
		}
	}
}

// A cell of a table shows a value as it is, whatever is in it.
func TestWrite_EscapesValuesInMarkdown(t *testing.T) {
	path := func(value string) string {
		return base + ", match: {http: {paths: [{type: RegularExpression, value: '" + value + "'}]}}"
	}
	d := compare(t, policy(path("/a")), policy(path(`/(a|b\|c)[*_]x`+"`")))
	var b strings.Builder
	if err := d.Write(&b, policydiff.Markdown); err != nil {
		t.Fatal(err)
	}
	row := strings.Split(strings.TrimSpace(b.String()), "\n")[len(strings.Split(strings.TrimSpace(b.String()), "\n"))-1]
	if n := strings.Count(row, "|"); n != 4 || strings.Count(row, "`")%2 != 0 || !strings.Contains(row, "/&#40;a&#124;b&#92;&#92;&#124;c&#41;&#91;&#42;&#95;&#93;x&#96;") {
		t.Errorf("%d bars in a row of 3 cells:\n%s", n, row)
	}
}
