package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Validate returns an error for a rule whose fields contradict each other. The compiler makes no such rule.
func (r *Rule) Validate() error {
	for _, validate := range []func() error{
		r.validateDomains, r.validateSpelling, r.validateRate, r.validateKubernetes, r.validateStoreFailure, r.validateDebt, r.validateCompact, r.validateDenial,
	} {
		if err := validate(); err != nil {
			return err
		}
	}
	return nil
}

// validateDomains accepts a rule without a domain. Such a rule never matches, not even a request without a domain.
func (r *Rule) validateDomains() error {
	switch {
	case r.Domain != "" && (len(r.Domains) > 0 && r.Match.Routes == nil || r.AllDomains) || len(r.Domains) > 0 && r.AllDomains:
		return errors.New("a rule must have at most one of domain, domains and allDomains, unless the domains are those of routes")
	case len(r.ReplacesDefaults) > 0 && r.Default:
		return errors.New("a default must not replace others")
	case r.Default && r.Domain != "":
		return errors.New("a rule with domain must not be a default")
	default:
		return nil
	}
}

// validateRate rejects a rule that limits nothing, and a rate that is not in the name of the rule.
func (r *Rule) validateRate() error {
	switch {
	case r.Rate != "" && !strings.HasSuffix(r.Policy, ":"+r.Rate):
		return fmt.Errorf("the name of the rule must end with its rate, :%s", r.Rate)
	case r.TiersOnly && (len(r.Tiers) == 0 || r.Units != 0 || r.Burst != 0):
		return errors.New("a rule with tiersOnly must have tiers, and no limit for other requests")
	default:
		return nil
	}
}

// validateSpelling rejects names in another spelling than that in which requests have them. Such a rule would match nothing, or count
// all clients as one.
func (r *Rule) validateSpelling() error {
	for _, source := range r.Sources() {
		if source.From == FromHeader && source.Name != strings.ToLower(source.Name) {
			return fmt.Errorf("the header %q of the identifier must be in lower case", source.Name)
		}
	}
	if r.Cost != nil && r.Cost.Header != strings.ToLower(r.Cost.Header) {
		return fmt.Errorf("the header %q of the cost must be in lower case", r.Cost.Header)
	}
	headers := slices.Clone(r.Match.Headers)
	for i := range r.Tiers {
		if h := r.Tiers[i].When.Header; h != nil {
			headers = append(headers, *h)
		}
	}
	for _, h := range headers {
		if h.Name != strings.ToLower(h.Name) {
			return fmt.Errorf("the header %q must be in lower case", h.Name)
		}
	}
	for _, host := range r.Match.Hosts {
		if host != strings.ToLower(host) {
			return fmt.Errorf("the host %q must be in lower case", host)
		}
	}
	for _, path := range r.Match.Paths {
		if path.Type != PathRegex && !strings.HasPrefix(path.Value, "/") {
			return fmt.Errorf("the path %q must begin with a slash", path.Value)
		}
	}
	for _, method := range r.Match.Methods {
		if upper := strings.ToUpper(method); method != upper && slices.Contains(standardMethods(), upper) {
			return fmt.Errorf("the method %q must be %s: methods have a case", method, upper)
		}
	}
	return nil
}

// standardMethods returns the methods that a client can hardly mean in another case.
func standardMethods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}
}

// validateKubernetes rejects a rule for writes to the Kubernetes API that reads parts of HTTP requests, and the reverse.
func (r *Rule) validateKubernetes() error {
	match := r.Match.Kubernetes
	if match == nil {
		if slices.ContainsFunc(r.Sources(), func(i Identifier) bool { return i.From.IsKubernetes() }) ||
			slices.ContainsFunc(r.Tiers, func(t Tier) bool { return len(t.When.NamespaceSelector) > 0 }) {
			return errors.New("identifier and tiers must not use parts of Kubernetes requests without match.kubernetes")
		}
		return nil
	}
	if len(r.Fallbacks) > 0 {
		return errors.New("a rule for writes to the Kubernetes API must not have fallbacks")
	}
	if !r.Identifier.From.IsKubernetes() && r.Identifier.From != FromExpression {
		return fmt.Errorf("a write to the Kubernetes API has no %s", r.Identifier.From)
	}
	if r.PerEndpoint || r.Cost != nil && r.Cost.Header != "" || isHTTP(&r.Match) ||
		slices.ContainsFunc(r.Tiers, func(t Tier) bool { return t.When.Header != nil || len(t.When.CIDRs) > 0 }) {
		return errors.New("a write to the Kubernetes API has no endpoint, header, address or descriptor")
	}
	return match.Validate()
}

func isHTTP(m *Match) bool {
	return len(m.Hosts)+len(m.Paths)+len(m.Methods)+len(m.Headers)+len(m.CIDRs)+len(m.ExceptCIDRs)+len(m.Descriptors) > 0
}

func (r *Rule) validateStoreFailure() error {
	switch r.OnStoreFailure {
	case LocalOnFailure, AllowOnFailure, DenyOnFailure:
	default:
		return fmt.Errorf("unknown onStoreFailure %q", r.OnStoreFailure)
	}
	switch {
	case r.LocalShare != EqualShare && r.LocalShare != WholeShare:
		return fmt.Errorf("unknown localShare %q", r.LocalShare)
	case r.LocalShare == WholeShare && r.OnStoreFailure != LocalOnFailure:
		return fmt.Errorf("a rule with onStoreFailure %s must not have localShare %s", r.OnStoreFailure, r.LocalShare)
	default:
		return nil
	}
}

// validateDebt rejects debts of algorithms whose counters cannot hold more units than their limit, and of leased units.
func (r *Rule) validateDebt() error {
	switch {
	case !r.Debt && r.WholeDebt:
		return errors.New("a rule with wholeDebt must have debts")
	case !r.Debt:
		return nil
	case !r.Algorithm.Traits().Debts:
		return fmt.Errorf("algorithm %s must not have debts", r.Algorithm)
	case r.Lease != nil:
		return errors.New("a rule with leases must not have debts")
	default:
		return nil
	}
}

// validateCompact rejects compact counters of algorithms that do not have them.
func (r *Rule) validateCompact() error {
	if r.Compact && !r.Algorithm.HasCompact() {
		return fmt.Errorf("algorithm %s must not have compact counters", r.Algorithm)
	}
	return nil
}

// validateDenial rejects responses that the compiler does not make.
func (r *Rule) validateDenial() error {
	d := r.Denial
	switch {
	case d == nil:
		return nil
	case r.Match.Kubernetes != nil && (d.Status != 0 || d.ContentType != "" || len(d.Headers) > 0):
		return errors.New("the denial of a rule for writes to the Kubernetes API must have only a message")
	default:
		return d.Validate()
	}
}
