package stored

import (
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/credentials"
)

// IdentityOf returns the identity table of a Limiter. It replaces missing fields by those of [compile.DefaultIdentity].
func IdentityOf(spec *v1alpha1.LimiterSpec) compile.Identity {
	table, identity := spec.Identity, compile.DefaultIdentity()
	for _, header := range []struct {
		given      v1alpha1.HeaderName
		identifier *rules.Identifier
	}{{table.Tenant.Header, &identity.Tenant}, {table.User.Header, &identity.User}, {table.APIKey.Header, &identity.APIKey}} {
		if header.given != "" {
			header.identifier.Name = strings.ToLower(string(header.given))
		}
	}
	identity.IPv6PrefixLength = int(table.IP.IPv6PrefixLength)
	identity.NamespaceLabel = string(table.Tenant.NamespaceLabel)
	identity.NamespaceAnnotation = string(table.Tenant.NamespaceAnnotation)
	names := make([]string, len(table.Credentials))
	for i, name := range table.Credentials {
		names[i] = string(name)
	}
	identity.Credentials = credentials.New(names...)
	return identity
}

// ExemptionsOf returns the namespaces, users and groups that the Limiter never limits. Its namespace is known by its real name: anyone who
// may create namespaces could create one that has a well-known name elsewhere.
func ExemptionsOf(limiter *v1alpha1.Limiter) exempt.Lists {
	var additional exempt.Lists
	if spec := limiter.Spec.KubernetesThrottle; spec != nil {
		additional = exempt.Lists{
			Namespaces: texts(spec.AdditionalExemptNamespaces), Users: texts(spec.AdditionalExemptUsers), Groups: texts(spec.AdditionalExemptGroups),
		}
	}
	return exempt.With(limiter.Namespace, additional)
}

func texts[T ~string](given []T) []string {
	all := make([]string, len(given))
	for i, one := range given {
		all[i] = string(one)
	}
	return all
}

// BudgetOf returns the budget of a Limiter. It replaces missing limits by those of [budget.Default].
func BudgetOf(spec *v1alpha1.LimiterSpec) budget.Budget {
	limits := budget.Default()
	for _, part := range []struct {
		given v1alpha1.BudgetLimits
		usage *budget.Usage
	}{{spec.PolicyBudget.PerNamespace, &limits.PerNamespace}, {spec.PolicyBudget.Total, &limits.Total}} {
		set := func(limit *int64, target *int64) {
			if limit != nil {
				*target = *limit
			}
		}
		set(part.given.Bytes, &part.usage.Bytes)
		set(part.given.Rules, &part.usage.Rules)
		set(part.given.Expressions, &part.usage.Expressions)
		set(part.given.RegularExpressions, &part.usage.RegularExpressions)
	}
	return limits
}
