package policydiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli/policyset"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules"
)

// LimiterChange is a Limiter that differs in what it enforces, or in the responses to clients.
type LimiterChange struct {
	Limiter string `json:"limiter"` // "namespace/name"
	Kind    Kind   `json:"kind"`    // New, Gone or Edited
	Effect  Effect `json:"effect"`
	// File and Line are the place in the later set, or in the earlier one of a Limiter that is gone.
	File    string   `json:"file,omitempty"`
	Line    int      `json:"line,omitempty"`
	Summary string   `json:"summary,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Notices are what a replay of requests does not show of the change.
	Notices []string `json:"notices,omitempty"`
}

// asPolicy returns the change in the form in which it is printed.
func (c *LimiterChange) asPolicy() *PolicyChange {
	return &PolicyChange{
		Policy: "Limiter " + c.Limiter, Kind: c.Kind, Effect: c.Effect, File: c.File, Line: c.Line, Summary: c.Summary, Changes: c.Changes, Notices: c.Notices,
	}
}

// limiterEffect returns the effect of a change of a field of a Limiter.
type limiterEffect func(c *Change) Effect

func always(e Effect) limiterEffect { return func(*Change) Effect { return e } }

// lowerIsStricter is about a bound. An absent bound is the highest one.
func lowerIsStricter(c *Change) Effect { return ordered(-bound(c.From), -bound(c.To)) }

func bound(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return int(^uint(0) >> 1)
}

// strictValue is about a field with a value that is stricter than the others and the default.
func strictValue(value string) limiterEffect {
	is := func(text string) int {
		if text == value {
			return 1
		}
		return 0
	}
	return func(c *Change) Effect { return ordered(is(c.From), is(c.To)) }
}

// moreIsLooser is about a list of exemptions.
func moreIsLooser(c *Change) Effect {
	switch {
	case c.From == "":
		return Looser
	case c.To == "":
		return Stricter
	default:
		return Different
	}
}

// limiterField is a field of a Limiter, or an object with fields that have the same effect.
type limiterField struct {
	path   string
	effect limiterEffect // nil for a field that changes neither decisions nor responses
	why    string
}

// limiterFields returns what the fields of a Limiter change. Of several that match, the first applies.
func limiterFields() []limiterField {
	const (
		counters = "starts new counters"
		selects  = "enforces other policies"
		writes   = "of writes to the Kubernetes API"
		response = "other responses to clients"
		exempts  = "exempts other writers"
	)
	return []limiterField{
		{"spec.redis.addresses", always(Different), counters},
		{"spec.redis.database", always(Different), counters},
		{"spec.redis.masterName", always(Different), counters},
		{"spec.redis.mode", always(Different), counters + ", if it is another Redis"},
		{"spec.redis.timeout", always(Different), "a slower decision of Redis is one of spec.onStoreFailure of the policies"},
		{"spec.redis", nil, ""}, // how to connect
		{"spec.counterGroup", always(Different), counters},
		{"spec.identifiers.max", lowerIsStricter, "for identifiers above the bound"},
		{"spec.identifiers.overflow", strictValue("Deny"), "for identifiers above the bound"},
		{"spec.policySelector", always(Different), selects},
		{"spec.policyNamespaceSelector", always(Different), selects},
		{"spec.policyBudget", func(c *Change) Effect { return ordered(bound(c.From), bound(c.To)) }, "policies above the budget are not enforced"},
		{"spec.identity.ip", always(Different), "counts other addresses as clients"},
		{"spec.identity.credentials", always(Different), "hashes other identifiers, which starts new counters"},
		{"spec.identity", always(Different), "policies without spec.identifier count by another identifier"},
		{"spec.responseHeaders", always(Same), response},
		{"spec.endpoints.forwardAuth.claimsHeader", always(Different), "reads claims from another header"},
		{"spec.endpoints.grpc.defaultDomain", always(Different), "decides requests without a domain in another one"},
		{"spec.endpoints.grpc.refunds", strictValue("Forbidden"), "for callers that refund units"},
		{"spec.endpoints.grpc.errorResponse", always(Same), response},
		{"spec.endpoints.grpc.unitMultiplier", always(Same), response},
		{"spec.endpoints.http.proxyProtocolFrom", always(Different), "reads the addresses of clients from other proxies"},
		{"spec.endpoints.grpc.tls", always(Same), "accepts other callers"},
		{"spec.endpoints.http.tls", always(Same), "accepts other callers"},
		{"spec.endpoints", nil, ""},
		{"spec.routeMatching", always(Different), "finds the routes of other requests"},
		{"spec.kubernetesThrottle.mode", func(c *Change) Effect { return opposite(strictValue("Disabled")(c)) }, writes},
		{"spec.kubernetesThrottle.failurePolicy", strictValue("Fail"), writes + " while no pod replies"},
		{"spec.kubernetesThrottle.additionalExempt", moreIsLooser, exempts},
		{"spec.kubernetesThrottle.maxRetryAfter", always(Same), response},
		{"spec.kubernetesThrottle.warnAt", always(Same), response},
		{"spec.kubernetesThrottle.namespacedPolic", always(Different), selects + " " + writes},
		{"spec.kubernetesThrottle", func(c *Change) Effect { return opposite(moreIsLooser(c)) }, "for writes to the Kubernetes API"},
		{"spec.replicas", nil, ""},
		{"spec.autoscaling", nil, ""},
		{"spec.podDisruptionBudget", nil, ""},
		{"spec.podTemplate", nil, ""},
		{"spec.image", nil, ""},
		{"spec.networkPolicy", nil, ""},
		{"spec.logLevel", nil, ""},
		{"spec.decisionLog", nil, ""},
		{"spec.tracing", nil, ""},
	}
}

// hasFieldsBelow reports whether a path is that of an object without an effect of its own, whose fields have effects.
func hasFieldsBelow(path string) bool {
	below := false
	for _, f := range limiterFields() {
		if f.path == path && f.effect != nil {
			return false
		}
		below = below || strings.HasPrefix(f.path, path+".")
	}
	return below
}

func opposite(e Effect) Effect {
	switch e {
	case Stricter:
		return Looser
	case Looser:
		return Stricter
	default:
		return e
	}
}

// fieldOfLimiter returns what a field changes.
func fieldOfLimiter(path string) limiterField {
	path = itemKey.ReplaceAllString(path, "")
	all := limiterFields()
	i := slices.IndexFunc(all, func(f limiterField) bool { return strings.HasPrefix(path, f.path) })
	if i < 0 { // a new field
		return limiterField{path, always(Different), ""}
	}
	return all[i]
}

// limiterDefaults are the values of absent fields. Those of kubernetesThrottle apply only with it.
func limiterDefaults() map[string]any {
	limits := func(u budget.Usage) map[string]any {
		return map[string]any{
			"bytes": float64(u.Bytes), "rules": float64(u.Rules), "expressions": float64(u.Expressions), "regularExpressions": float64(u.RegularExpressions),
		}
	}
	identity, budgets := compile.DefaultIdentity(), budget.Default()
	return map[string]any{
		"redis":           map[string]any{"mode": string(v1alpha1.RedisAuto), "database": 0.0, "timeout": "50ms"},
		"identifiers":     map[string]any{"overflow": string(v1alpha1.OverflowShared)},
		"policyBudget":    map[string]any{"perNamespace": limits(budgets.PerNamespace), "total": limits(budgets.Total)},
		"responseHeaders": string(v1alpha1.ResponseHeadersRateLimit),
		"identity": map[string]any{
			"ip":     map[string]any{"header": "X-Forwarded-For", "ipv6PrefixLength": float64(rules.DefaultIPv6Prefix)},
			"tenant": map[string]any{"header": identity.Tenant.Name}, "user": map[string]any{"header": identity.User.Name},
			"apiKey": map[string]any{"header": identity.APIKey.Name},
		},
		"endpoints": map[string]any{"grpc": map[string]any{"errorResponse": false, "unitMultiplier": false}},
		"kubernetesThrottle": map[string]any{
			"mode": string(v1alpha1.ThrottleModeEnforce), "failurePolicy": "Ignore", "namespacedPolicies": "None", "maxRetryAfter": "5s", "warnAt": "80%",
		},
	}
}

// fill sets the defaults of fields that are absent.
func fill(fields, defaults map[string]any) {
	for name, value := range defaults {
		object, isObject := value.(map[string]any)
		if !isObject {
			if _, has := fields[name]; !has {
				fields[name] = value
			}
			continue
		}
		if fields[name] == nil {
			fields[name] = map[string]any{}
		}
		if own, is := fields[name].(map[string]any); is {
			fill(own, object)
		}
	}
}

// prune removes empty objects, which mean the same as their absence.
func prune(fields map[string]any) {
	for name, value := range fields {
		if object, is := value.(map[string]any); is {
			if prune(object); len(object) == 0 {
				delete(fields, name)
			}
		}
	}
}

// comparedLimiter is a Limiter of one of the sets.
type comparedLimiter struct {
	policyfile.Limiter

	spec map[string]any // with all defaults
}

// limitersOf returns the valid Limiters that are compared, by name.
func limitersOf(set *policyset.Set, accepts func(name string) bool) (map[string]*comparedLimiter, error) {
	byName := map[string]*comparedLimiter{}
	for _, l := range set.Limiters() {
		if !accepts(l.Name) {
			continue
		}
		var object struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(l.JSON, &object); err != nil {
			return nil, fmt.Errorf("%s: read Limiter %s: %w", l.File, l.Name, err)
		}
		defaults := limiterDefaults()
		if throttle, has := object.Spec["kubernetesThrottle"].(map[string]any); !has || throttle["mode"] == string(v1alpha1.ThrottleModeDisabled) {
			delete(object.Spec, "kubernetesThrottle") // API servers do not call the Limiter
			delete(defaults, "kubernetesThrottle")
		}
		if object.Spec == nil {
			object.Spec = map[string]any{}
		}
		fill(object.Spec, defaults)
		prune(object.Spec)
		byName[l.Name] = &comparedLimiter{l, object.Spec}
	}
	return byName, nil
}

// compareLimiters returns the Limiters that differ.
func compareLimiters(before, after *policyset.Set, accepts func(name string) bool) ([]LimiterChange, error) {
	older, err := limitersOf(before, accepts)
	if err != nil {
		return nil, err
	}
	newer, err := limitersOf(after, accepts)
	if err != nil {
		return nil, err
	}
	var all []LimiterChange
	names := maps.Clone(older)
	maps.Copy(names, newer)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, y := older[name], newer[name]
		switch {
		case x == nil:
			all = append(all, LimiterChange{Limiter: name, Kind: New, Effect: Different, File: y.File, Line: y.Line, Summary: "enforces the policies that it selects"})
		case y == nil:
			all = append(all, LimiterChange{Limiter: name, Kind: Gone, Effect: Different, File: x.File, Line: x.Line, Summary: "enforces no policy any more"})
		default:
			if changes := limiterChanges(x, y); len(changes) > 0 {
				c := LimiterChange{Limiter: name, Kind: Edited, Effect: combine(changes), File: y.File, Line: y.Line, Changes: changes}
				switch {
				case c.Effect == Same:
					c.Summary = "enforces the same"
				case slices.ContainsFunc(changes, func(c Change) bool { return strings.HasPrefix(c.Field, "spec.policyBudget") }):
					c.Summary = describeBudgets(before, after)
				}
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// limiterChanges returns the fields that differ, without those that change neither decisions nor responses.
func limiterChanges(before, after *comparedLimiter) (changes []Change) {
	var report func(path string, from, to any)
	report = func(path string, from, to any) {
		f := fieldOfLimiter(path)
		if hasFieldsBelow(path) && (from == nil || to == nil) { // an object that only one of them has: its fields have effects of their own
			x, _ := from.(map[string]any)
			y, _ := to.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(union(x, y))) {
				report(path+"."+name, x[name], y[name])
			}
			return
		}
		c := Change{Field: path, From: yamlOf(from), To: yamlOf(to)}
		isHeader := strings.HasPrefix(path, "spec.identity.") && strings.HasSuffix(path, ".header")
		if f.effect == nil || isHeader && strings.EqualFold(c.From, c.To) {
			return
		}
		c.Effect, c.Why = f.effect(&c), f.why
		changes = append(changes, c)
	}
	walk("spec", before.spec, after.spec, report)
	for i := len(changes) - 1; i > 0; i-- {
		if changes[i].Why == changes[i-1].Why { // the fields have the effect together
			changes[i].Why = ""
		}
	}
	return changes
}

// describeBudgets names the policies that a Limiter enforces only before or only after a change of its budget.
func describeBudgets(before, after *policyset.Set) string {
	older, newer := overBudget(before), overBudget(after)
	onlyIn := func(names, others map[string]bool) (only []string) {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !others[name] {
				only = append(only, name)
			}
		}
		return only
	}
	var parts []string
	for _, part := range []struct {
		verb  string
		names []string
	}{{"no longer enforces", onlyIn(newer, older)}, {"now enforces", onlyIn(older, newer)}} {
		switch n := len(part.names); {
		case n > maxNamed:
			parts = append(parts, fmt.Sprintf("%s %s and %d more", part.verb, strings.Join(part.names[:maxNamed], ", "), n-maxNamed))
		case n > 0:
			parts = append(parts, part.verb+" "+strings.Join(part.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// maxNamed is the number of policies that a summary names.
const maxNamed = 10

// overBudget returns the policies that exceed the budget of the Limiter in a set.
func overBudget(set *policyset.Set) map[string]bool {
	names := map[string]bool{}
	for _, p := range set.BudgetWarnings() {
		names[p.Policy] = true
	}
	return names
}
