package rules

import (
	"errors"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/weir-dev/weir/limiter"
)

// tier is a compiled Tier.
type tier struct {
	Tier

	limit     limiter.Limit // unless Unlimited
	header    *header
	clients   *bart.Lite
	condition *expression
}

func (k *compiler) tier(rule *Rule, of Tier) (tier, error) {
	t := tier{Tier: of}
	if of.Unlimited {
		if of.Units != 0 || of.Burst != 0 {
			return tier{}, errors.New("an unlimited tier must not have a limit")
		}
	} else {
		tierRule := *rule
		tierRule.Units, tierRule.Burst = of.Units, of.Burst
		var err error
		if t.limit, err = tierRule.Limit(); err != nil {
			return tier{}, err
		}
	}
	return t, k.when(rule, &t)
}

func (k *compiler) when(rule *Rule, t *tier) (err error) {
	w := &t.When
	if countTrue(w.Header != nil, len(w.Identifiers) > 0, len(w.CIDRs) > 0, len(w.Groups) > 0, len(w.NamespaceSelector) > 0, w.Expression != "") != 1 {
		return errors.New("when must have exactly one of header, identifiers, cidrs, groups, namespaceSelector and expression")
	}
	switch {
	case w.Header != nil:
		h, err := compileHeader(*w.Header)
		t.header = &h
		return err
	case len(w.CIDRs) > 0:
		t.clients, err = compileCIDRs(w.CIDRs)
	case len(w.NamespaceSelector) > 0:
		err = w.NamespaceSelector.validate()
	case w.Expression != "":
		t.condition, err = k.expression(languageOf(rule), w.Expression, ResultBool)
	}
	return err
}

// matches reports whether request r with this identifier belongs to the tier. If the expression fails, the request does not belong to
// the tier, and the next tier or the limit of the rule applies.
func (t *tier) matches(m Matched, r *Request, identifier string, steps *int) bool {
	switch {
	case t.header != nil:
		is, known := t.header.matches(r, steps)
		return is && known
	case t.clients != nil:
		return within(t.clients, r.ClientIP)
	case t.condition != nil:
		is, err := t.condition.bool(m.activation(r))
		return is && err == nil
	case len(t.When.NamespaceSelector) > 0:
		return t.When.NamespaceSelector.Selects(m.namespace)
	case len(t.When.Groups) > 0 && r.Kubernetes != nil:
		return r.Kubernetes.inGroup(t.When.Groups)
	case len(t.When.Groups) > 0:
		return inGroup(r.Claims, t.When.Groups)
	default:
		return identifier != "" && slices.Contains(t.When.Identifiers, identifier)
	}
}
