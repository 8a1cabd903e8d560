package matching

import (
	"cmp"
	"errors"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/expr"
	"github.com/weir-dev/weir/go/internal/limiter/rules/pattern"
)

// tier is a compiled Tier.
type tier struct {
	rules.Tier

	limit     limiter.Limit // unless Unlimited
	header    *pattern.Header
	clients   *bart.Lite
	condition *expr.Expression
}

func (k *compiler) tier(rule *rules.Rule, declared rules.Tier) (tier, error) {
	t := tier{Tier: declared}
	if declared.Unlimited {
		if declared.Units != 0 || declared.Burst != 0 {
			return tier{}, errors.New("an unlimited tier must not have a limit")
		}
	} else {
		tierRule := *rule
		tierRule.Units, tierRule.Burst = declared.Units, declared.Burst
		var err error
		if t.limit, err = tierRule.Limit(); err != nil {
			return tier{}, err
		}
	}
	return t, k.when(rule, &t)
}

func (k *compiler) when(rule *rules.Rule, t *tier) (err error) {
	w := &t.When
	if countTrue(w.Header != nil, len(w.Identifiers) > 0, len(w.CIDRs) > 0, len(w.Groups) > 0, len(w.NamespaceSelector) > 0, w.Expression != "") != 1 {
		return errors.New("when must have exactly one of header, identifiers, cidrs, groups, namespaceSelector and expression")
	}
	switch {
	case w.Header != nil:
		h, err := pattern.CompileHeader(*w.Header)
		t.header = &h
		return err
	case len(w.CIDRs) > 0:
		t.clients, err = pattern.CompileCIDRs(w.CIDRs)
	case len(w.NamespaceSelector) > 0:
		err = w.NamespaceSelector.Validate()
	case w.Expression != "":
		t.condition, err = k.expression(expr.LanguageOf(rule), w.Expression, expr.ResultBool)
	}
	return err
}

// matches reports whether request r with this identifier belongs to the tier. The result is unknown if what the client sent makes the
// expression fail, or takes too many steps.
func (t *tier) matches(m Matched, r *rules.Request, identifier string, steps *int) (matches, certain bool) {
	switch {
	case t.header != nil:
		return m.matchesHeader(t.header, r, steps)
	case t.clients != nil:
		return pattern.Within(t.clients, r.ClientIP), !r.InvalidClientIP
	case t.condition != nil:
		return t.condition.Selects(m.activation(r), &m.Rule.Rule)
	case len(t.When.NamespaceSelector) > 0:
		return t.When.NamespaceSelector.Selects(m.namespace), true
	case len(t.When.Groups) > 0 && r.Kubernetes != nil:
		return r.Kubernetes.InGroup(t.When.Groups), true
	case len(t.When.Groups) > 0:
		groups := m.activation(r).Groups()
		return slices.ContainsFunc(t.When.Groups, func(name string) bool { return groups[name] }), true
	default:
		return identifier != "" && slices.Contains(t.When.Identifiers, identifier), true
	}
}

// matchesHeader is pattern.Header.Meets for a tier. The steps of a regular expression are also those of the policies of the namespace together: without this
// bound, the time would grow with the number of policies that match a request.
func (m Matched) matchesHeader(h *pattern.Header, r *rules.Request, steps *int) (matches, certain bool) {
	if m.on == nil || h.Regexp == nil {
		return h.Meets(r, steps)
	}
	left := m.on.Left(&m.Rule.Rule)
	allowed := int(min(*left, uint64(max(*steps, 0))))
	rest := allowed
	matches, certain = h.Meets(r, &rest)
	spent := allowed - rest
	*steps -= spent
	*left -= min(*left, uint64(spent))
	return matches, certain
}

// isStricter reports whether a request that belongs to the tier gets less than one with the terms.
func (t *tier) isStricter(than Terms) bool {
	return !t.Unlimited && (than.Unlimited ||
		cmp.Or(cmp.Compare(t.limit.Units(), than.Limit.Units()), cmp.Compare(t.limit.Burst(), than.Limit.Burst())) < 0)
}
