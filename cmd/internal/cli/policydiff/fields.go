package policydiff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/internal/compile/window"
	"github.com/weir-dev/weir/limiter"
)

// compareFields returns the fields of the specs that differ, with their effects.
func compareFields(before, after *policy) (changes []Change) {
	walk("spec", before.fields, after.fields, func(path string, from, to any) {
		changes = append(changes, Change{Field: path, From: yamlOf(from), To: yamlOf(to)})
	})
	changes = slices.DeleteFunc(changes, func(c Change) bool { return isDefault(c.Field, c.From) && isDefault(c.Field, c.To) })
	match := matchEffect(before, after)
	for i := range changes {
		c := &changes[i]
		switch {
		case strings.HasPrefix(c.Field, "spec.match"), strings.HasPrefix(c.Field, "spec.domains"), strings.HasPrefix(c.Field, "spec.targetRefs"):
			c.Effect, c.Why = match, whyMatch(match)
		default:
			c.Effect, c.Why = effectOf(c, before, after)
		}
	}
	for i := len(changes) - 1; i > 0; i-- {
		if changes[i].Why == changes[i-1].Why { // the fields have the effect together
			changes[i].Why = ""
		}
	}
	return changes
}

// walk reports the values below a path that differ. Items of lists are paired by what identifies them, and others are sets.
func walk(path string, a, b any, report func(path string, from, to any)) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, xIsObject := a.(map[string]any)
	y, yIsObject := b.(map[string]any)
	if xIsObject && yIsObject {
		for _, name := range slices.Sorted(maps.Keys(union(x, y))) {
			walk(path+"."+name, x[name], y[name], report)
		}
		return
	}
	p, pIsList := a.([]any)
	q, qIsList := b.([]any)
	if (pIsList || a == nil) && (qIsList || b == nil) && (len(p) > 0 || len(q) > 0) {
		walkList(path, p, q, report)
		return
	}
	report(path, a, b)
}

func union(a, b map[string]any) map[string]any {
	all := make(map[string]any, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func walkList(path string, a, b []any, report func(path string, from, to any)) {
	before, after := keyed(a), keyed(b)
	if before == nil || after == nil { // items without names: what is only in one of them
		onlyIn := func(list, other []any) (only []any) {
			for _, item := range list {
				if !slices.ContainsFunc(other, func(o any) bool { return reflect.DeepEqual(o, item) }) {
					only = append(only, item)
				}
			}
			return only
		}
		removed, added := onlyIn(a, b), onlyIn(b, a)
		switch {
		case len(removed) > 0 || len(added) > 0:
			report(path, listOrNil(removed), listOrNil(added))
		default:
			report(path, a, b) // another order
		}
		return
	}
	var order []string
	for _, item := range before {
		order = append(order, item.key)
	}
	for _, item := range after {
		if !slices.Contains(order, item.key) {
			order = append(order, item.key)
		}
	}
	for _, key := range order {
		walk(path+"["+key+"]", find(before, key), find(after, key), report)
	}
	if common := func(list, other []item) (keys []string) {
		for _, i := range list {
			if find(other, i.key) != nil {
				keys = append(keys, i.key)
			}
		}
		return keys
	}; !slices.Equal(common(before, after), common(after, before)) {
		report(path+" (order)", common(before, after), common(after, before))
	}
}

func listOrNil(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// item is an item of a list with what identifies it.
type item struct {
	key   string
	value any
}

func find(items []item, key string) any {
	for i := range items {
		if items[i].key == key {
			return items[i].value
		}
	}
	return nil
}

// keyed returns the items of a list with their keys: names of tiers, windows of rates. It returns nil if the items have no unique keys.
func keyed(list []any) []item {
	items := make([]item, 0, len(list))
	for _, value := range list {
		object, _ := value.(map[string]any)
		key, _ := object["name"].(string)
		if _, isHeader := object["value"]; isHeader {
			key = ""
		}
		if length, has := object["window"].(string); has && key == "" {
			key = length
		}
		if key == "" || find(items, key) != nil {
			return nil
		}
		items = append(items, item{key, value})
	}
	return items
}

// yamlOf returns a value as in YAML on one line, "" for an absent one.
func yamlOf(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		if value == "" {
			return `""` // unlike an absent one
		}
		return value
	case map[string]string:
		if len(value) == 0 {
			return ""
		}
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return flow(strings.TrimSpace(b.String()))
}

// quotedName is a text in JSON that YAML reads the same without quotes, and that stays readable.
var quotedName = regexp.MustCompile(`"([A-Za-z/][A-Za-z0-9/_.-]*)"(:?)`)

// flow returns JSON as YAML in one line.
func flow(text string) string {
	text = quotedName.ReplaceAllStringFunc(text, func(match string) string {
		m := quotedName.FindStringSubmatch(match)
		switch strings.ToLower(m[1]) {
		case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
			return match
		}
		if m[2] == ":" {
			return m[1] + ": "
		}
		return m[1]
	})
	var b strings.Builder
	inText := false
	for i := range len(text) {
		c := text[i]
		if c == '"' && (i == 0 || text[i-1] != '\\') {
			inText = !inText
		}
		b.WriteByte(c)
		if c == ',' && !inText {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// itemKey is the key of an item of a list in a path.
var itemKey = regexp.MustCompile(`\[[^\]]*\]`)

// isDefault reports whether a value of a field is absent or its default.
func isDefault(path, value string) bool {
	return value == "" || value == map[string]string{
		"spec.algorithm": string(limiter.DefaultAlgorithm), "spec.rates.algorithm": string(limiter.DefaultAlgorithm),
		"spec.tiers.rates.algorithm": string(limiter.DefaultAlgorithm), "spec.scope": string(policyapi.ScopePolicy), "spec.overrun": string(policyapi.OverrunDeny),
		"spec.enforcement": string(policyapi.EnforcementEnforce), "spec.onStoreFailure": string(policyapi.StoreFailureLocal),
		"spec.localShare": string(policyapi.LocalShareEqual), "spec.storage": string(policyapi.StorageExact),
		"spec.precedence": string(policyapi.PrecedenceOverride),
	}[itemKey.ReplaceAllString(path, "")]
}

// matchEffect returns the effect of the requests that the policies match.
func matchEffect(before, after *policy) Effect {
	x, y := &before.rules[0], &after.rules[0]
	sameDomains := x.Domain == y.Domain && slices.Equal(x.Domains, y.Domains) && x.AllDomains == y.AllDomains
	routes := len(before.spec.TargetRefs) > 0 || len(after.spec.TargetRefs) > 0
	if !sameDomains || routes || x.Kinds() != y.Kinds() {
		return domainEffect(before, after)
	}
	if len(before.spec.Replaces) > 0 || len(after.spec.Replaces) > 0 { // where it does not match, the default that it replaces applies
		return Different
	}
	more, fewer := redundancy.Covers(&y.Match, &x.Match), redundancy.Covers(&x.Match, &y.Match)
	switch {
	case more && fewer:
		return Same
	case more:
		return Stricter
	case fewer:
		return Looser
	default:
		return Different
	}
}

// domainEffect compares the domains of cluster policies that match the same requests of a domain.
func domainEffect(before, after *policy) Effect {
	x, y := &before.rules[0], &after.rules[0]
	if !reflect.DeepEqual(x.Match, y.Match) || x.Kinds() != y.Kinds() {
		return Different
	}
	more := y.AllDomains || !x.AllDomains && redundancy.IsSubset(x.Domains, y.Domains)
	fewer := x.AllDomains || !y.AllDomains && redundancy.IsSubset(y.Domains, x.Domains)
	switch {
	case more && !fewer:
		return Stricter
	case fewer && !more:
		return Looser
	default:
		return Different
	}
}

func whyMatch(effect Effect) string {
	switch effect {
	case Stricter:
		return "limits more requests"
	case Looser:
		return "limits fewer requests"
	case Different:
		return "limits other requests"
	default:
		return ""
	}
}

// effectOf returns the effect of a change of a field other than those that select requests.
func effectOf(c *Change, before, after *policy) (Effect, string) {
	parent, name, _ := cutLast(c.Field)
	switch name {
	case "limit", "window", "burst", "unlimited":
		return amountEffect(amountAt(before, parent), amountAt(after, parent))
	case "enforcement", "overrun", "precedence":
		return choiceEffect(name, c.To, before, after)
	case "onStoreFailure", "localShare":
		return ordered(outageStrictness(before), outageStrictness(after)), "while Redis is unavailable"
	}
	switch {
	case c.Field == "spec.cost", c.Field == "spec.cost.value":
		return costEffect(before, after), ""
	case strings.HasPrefix(c.Field, "spec.rates["):
		if strings.HasSuffix(c.Field, "].algorithm") {
			return Different, "counts by another algorithm, and starts new counters"
		}
		return rateEffect(c)
	case strings.HasPrefix(c.Field, "spec.denial"):
		return Same, "another response to denied requests"
	case strings.HasPrefix(c.Field, "spec.lease"):
		return leaseEffect(c)
	case strings.HasPrefix(c.Field, "spec.tiers["):
		return tierEffect(c, before, after)
	case c.Field == "spec.algorithm" || strings.HasSuffix(c.Field, "].algorithm"):
		return Different, "counts by another algorithm, and starts new counters"
	case strings.HasPrefix(c.Field, "spec.axis"), strings.HasPrefix(c.Field, "spec.identifier"), c.Field == "spec.scope":
		return Different, "counts other requests together"
	case c.Field == "spec.storage", c.Field == "spec.counterName":
		return Different, "starts new counters"
	case c.Field == "spec.replaces":
		return Different, "other defaults apply in addition"
	default:
		return Different, ""
	}
}

// choiceEffect returns the effect of a field with two values.
func choiceEffect(name, to string, before, after *policy) (Effect, string) {
	switch {
	case name == "enforcement" && (len(before.spec.Replaces) > 0 || len(after.spec.Replaces) > 0):
		return Different, "a policy with enforcement: Shadow replaces no default"
	case name == "enforcement" && to == string(policyapi.EnforcementShadow):
		return Looser, "denies no request any more"
	case name == "enforcement":
		return Stricter, "denies requests, and only reported them before"
	case name == "overrun" && to == string(policyapi.OverrunDebt):
		return Different, "a request that costs more than remains is allowed, and counts its whole cost"
	case name == "overrun":
		return Different, "a request that costs more than remains is denied"
	case to == string(policyapi.PrecedenceDefault):
		return Looser, "policies of namespaces can replace it"
	default:
		return Stricter, "policies of namespaces can no longer replace it"
	}
}

// outageStrictness orders policies by how strict they are while Redis is unavailable.
func outageStrictness(p *policy) int {
	switch s := p.spec; {
	case s.OnStoreFailure == policyapi.StoreFailureAllow:
		return 0
	case s.LocalShare == policyapi.LocalShareWhole:
		return 1
	case s.OnStoreFailure == policyapi.StoreFailureDeny:
		return 3
	default:
		return 2
	}
}

func ordered(before, after int) Effect {
	switch {
	case after > before:
		return Stricter
	case after < before:
		return Looser
	default:
		return Same
	}
}

// costEffect compares fixed costs. Without a cost, it is 1.
func costEffect(before, after *policy) Effect {
	x, y := costOf(before.spec.Cost), costOf(after.spec.Cost)
	if x == 0 || y == 0 {
		return Different
	}
	return ordered(x, y)
}

// costOf returns a fixed cost, 0 if it depends on the request.
func costOf(c *policyapi.Cost) int {
	switch {
	case c == nil:
		return 1
	case c.Value == nil:
		return 0
	default:
		return int(*c.Value)
	}
}

func leaseEffect(c *Change) (Effect, string) {
	switch {
	case c.Field != "spec.lease":
		return Different, "replicas admit another number of requests above the limit"
	case c.From == "":
		return Looser, "replicas can admit slightly more than the limit"
	default:
		return Stricter, "replicas no longer admit more than the limit"
	}
}

// tierEffect returns the effect of a tier that one of the policies has, or of another condition. Without the tier, its requests belong to a later tier, or
// the limit of the policy applies.
func tierEffect(c *Change, before, after *policy) (Effect, string) {
	const why = "for the requests of the tier"
	switch {
	case strings.Contains(c.Field, "].rates["):
		return rateEffect(c)
	case strings.HasSuffix(c.Field, " (order)"), !strings.HasSuffix(c.Field, "]"):
		return Different, "another selection of requests for the tier"
	}
	with, without, opposite := after, before, false
	if c.To == "" {
		with, without, opposite = before, after, true
	}
	tier := fieldAt(with.fields, c.Field)
	alternatives := []map[string]any{amountOnly(without.fields)}
	tiers, _ := with.fields["tiers"].([]any)
	later := map[any]bool{}
	for _, tier0 := range slices.Backward(tiers) {
		if other, _ := tier0.(map[string]any); other["name"] != tier["name"] {
			later[other["name"]] = true
			continue
		}
		break
	}
	others, _ := without.fields["tiers"].([]any)
	for i := range others {
		if other, _ := others[i].(map[string]any); later[other["name"]] && !areDisjoint(other["when"], tier["when"]) {
			alternatives = append(alternatives, other)
		}
	}
	effect := Same
	for _, alternative := range alternatives {
		one, _ := amountEffect(withWindow(alternative, without.fields), withWindow(tier, without.fields))
		switch {
		case one == Same || one == effect:
		case effect == Same:
			effect = one
		default:
			return Different, why
		}
	}
	if opposite {
		effect = cmp.Or(map[Effect]Effect{Stricter: Looser, Looser: Stricter}[effect], effect)
	}
	if effect == Same { // the tier has the limit of its requests
		effect = Different
	}
	return effect, why
}

// areDisjoint reports whether no request meets two conditions of tiers. It may return false if it cannot decide.
func areDisjoint(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	if p, q := list(x["identifiers"]), list(y["identifiers"]); len(p) > 0 && len(q) > 0 {
		return !slices.ContainsFunc(p, func(identifier any) bool { return slices.Contains(q, identifier) })
	}
	h, _ := x["header"].(map[string]any)
	i, _ := y["header"].(map[string]any)
	name, _ := h["name"].(string)
	other, _ := i["name"].(string)
	return name != "" && strings.EqualFold(name, other) && isExact(h) && isExact(i) && h["value"] != i["value"]
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

func isExact(header map[string]any) bool {
	return (header["type"] == nil || header["type"] == string(policyapi.HeaderExact)) && header["invert"] == nil
}

// rateEffect returns the effect of a rate that one of the policies has.
func rateEffect(c *Change) (Effect, string) {
	switch {
	case !strings.HasSuffix(c.Field, "]"):
		return Different, ""
	case c.From == "":
		return Stricter, "a further limit"
	default:
		return Looser, "one limit less"
	}
}

func amountOnly(fields map[string]any) map[string]any {
	return map[string]any{"limit": fields["limit"], "window": fields["window"], "burst": fields["burst"], "algorithm": fields["algorithm"]}
}

// withWindow returns the amount of a tier, whose window and algorithm are those of the policy.
func withWindow(tier, base map[string]any) map[string]any {
	with := amountOnly(tier)
	with["window"], with["algorithm"], with["unlimited"] = base["window"], base["algorithm"], tier["unlimited"]
	return with
}

// amount is what a policy, a rate or a tier admits.
type amount struct {
	limit, burst float64
	window       time.Duration
	known        bool
}

func amountOf(fields map[string]any) amount {
	a := amount{known: true}
	limit, hasLimit := fields["limit"].(float64)
	burst, hasBurst := fields["burst"].(float64)
	text, _ := fields["window"].(string)
	unlimited, _ := fields["unlimited"].(bool)
	switch {
	case unlimited:
		limit = math.Inf(1)
	case !hasLimit:
		return amount{}
	}
	switch a.limit = limit; {
	case hasBurst:
		a.burst = burst
	case unlimited, !queues(fields): // a capacity, which is the limit by default
		a.burst = limit
	}
	if length, err := window.Parse(policyapi.Duration(text)); err == nil {
		a.window = length
	}
	return a
}

// amountAt returns the fields of a policy, a rate or a tier, with the algorithm and the window that apply to it.
func amountAt(p *policy, path string) map[string]any {
	fields := fieldAt(p.fields, path)
	if strings.HasPrefix(path, "spec.tiers[") && strings.HasSuffix(path, "]") && !strings.Contains(path, "].rates[") {
		return withWindow(fields, map[string]any{"algorithm": p.fields["algorithm"]})
	}
	return fields
}

// queues reports whether the burst is a queue, which is empty by default.
func queues(fields map[string]any) bool {
	name, _ := fields["algorithm"].(string)
	return limiter.Algorithm(cmp.Or(name, string(limiter.DefaultAlgorithm))).Traits().Queues
}

// amountEffect compares what two rates admit.
func amountEffect(before, after map[string]any) (Effect, string) {
	x, y := amountOf(before), amountOf(after)
	if !x.known || !y.known {
		return Different, ""
	}
	atLeast, atMost := y.limit >= x.limit && y.burst >= x.burst && y.window <= x.window, y.limit <= x.limit && y.burst <= x.burst && y.window >= x.window
	switch {
	case atLeast && atMost:
		return Same, ""
	case atLeast:
		return Looser, ""
	case atMost:
		return Stricter, ""
	case x.window > 0 && y.window > 0 && x.window != y.window:
		return Different, fmt.Sprintf("on average %s instead of %s", perMinute(y), perMinute(x))
	default:
		return Different, ""
	}
}

func perMinute(a amount) string {
	return fmt.Sprintf("%.4g a minute", a.limit/a.window.Minutes())
}

// cutLast splits "spec.rates[1m].limit" into "spec.rates[1m]" and "limit".
func cutLast(path string) (parent, name string, found bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// fieldAt returns the object at a path such as "spec.tiers[paid]", nil without one.
func fieldAt(spec map[string]any, path string) map[string]any {
	var current any = spec
	for _, step := range regexp.MustCompile(`[^.\[\]]+|\[[^\]]+\]`).FindAllString(strings.TrimPrefix(path, "spec"), -1) {
		switch value := current.(type) {
		case map[string]any:
			current = value[step]
		case []any:
			current = find(keyed(value), strings.Trim(step, "[]"))
		default:
			return nil
		}
	}
	object, _ := current.(map[string]any)
	return object
}
