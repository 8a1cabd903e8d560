package lowering

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/labelselector"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/expr"
)

// A policy for writes to the Kubernetes API must not use parts of HTTP requests: writes have no headers, addresses and endpoints. A policy for
// HTTP requests must not use parts of writes: only writes have a namespace with labels.

func (v *validator) validateAxisOfKind(axis policyapi.Axis) {
	switch axis {
	case policyapi.AxisNamespace, policyapi.AxisServiceAccount:
		if !v.kubernetes {
			v.report("spec.axis", "axes Namespace and ServiceAccount are valid only for writes to the Kubernetes API; set match.kubernetes or use another axis")
		}
	case policyapi.AxisIP, policyapi.AxisAPIKey, policyapi.AxisEndpoint:
		if v.kubernetes {
			v.report("spec.axis", "axis must be Tenant, User, ServiceAccount, Namespace or Custom with match.kubernetes")
		}
	}
}

func (v *validator) validateIdentifierOfKind(axis policyapi.Axis, id *policyapi.Identifier) {
	const field = "spec.identifier"
	if axis == policyapi.AxisNamespace || axis == policyapi.AxisServiceAccount {
		v.report(field, "identifier must not be set with axis Namespace or ServiceAccount; remove identifier or use axis Custom")
	}
	if v.kubernetes && id.Expression == nil {
		v.report(field, "identifier must be an expression with match.kubernetes, because a write has no headers, query parameters, cookies, claims "+
			"or descriptors; use identifier.expression or remove identifier")
	}
	if v.kubernetes && (len(id.Fallbacks) > 0 || id.OnMissing == policyapi.OnMissingClientAddress) {
		v.report(field, "identifier must not have fallbacks or onMissing: ClientAddress with match.kubernetes, because a write has no other source and "+
			"no client address; use another expression, or another value of onMissing")
	}
}

func (v *validator) validateTiersOfKind(tiers []policyapi.Tier) {
	const field = "spec.tiers"
	if v.kubernetes && slices.ContainsFunc(tiers, func(t policyapi.Tier) bool { return t.When.Header != nil || len(t.When.CIDRs) > 0 }) {
		v.report(field, "tiers must not use header or cidrs with match.kubernetes, because a write has no headers and no client address; "+
			"use identifiers, groups, namespaceSelector or expression")
	}
	if !v.kubernetes && slices.ContainsFunc(tiers, func(t policyapi.Tier) bool { return t.When.NamespaceSelector != nil }) {
		v.report(field, "tiers can use namespaceSelector only with match.kubernetes; set match.kubernetes or use another condition")
	}
}

func (v *validator) validateKubernetesMatch(field string, match *policyapi.KubernetesMatch) {
	if len(match.Resources) == 0 {
		v.report(field+".resources", "must not be empty; list the resources to limit, such as {apiGroups: [apps], resources: [deployments]}")
	}
	for i, resources := range match.Resources {
		v.validateResources(fmt.Sprintf("%s.resources[%d]", field, i), resources)
	}
	for i, namespace := range match.Namespaces {
		if !isLabel(string(namespace)) || lowercase(namespace) != string(namespace) {
			v.report(fmt.Sprintf("%s.namespaces[%d]", field, i),
				"the name of a namespace must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit")
		}
	}
	if match.NamespaceSelector != nil {
		v.validateSelector(field+".namespaceSelector", match.NamespaceSelector)
	}
	for _, list := range []struct {
		name  string
		users []policyapi.KubernetesUser
	}{{"users", match.Users}, {"groups", match.Groups}, {"exceptUsers", match.ExceptUsers}, {"exceptGroups", match.ExceptGroups}} {
		for i, user := range list.users {
			v.validateNotEmpty(fmt.Sprintf("%s.%s[%d]", field, list.name, i), string(user))
		}
	}
	if match.Expression != nil {
		v.validateExpression(field+".expression", *match.Expression, expr.ResultBool)
	}
}

var (
	apiGroup     = regexp.MustCompile(`^([*]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`)
	resourceName = regexp.MustCompile(`^([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?)(/([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?))?$`)
)

func (v *validator) validateResources(field string, resources policyapi.KubernetesResources) {
	if len(resources.APIGroups) == 0 {
		v.report(field+".apiGroups", `must not be empty; list the API groups, "" for the core group`)
	}
	if len(resources.Resources) == 0 {
		v.report(field+".resources", "must not be empty; list the resources, such as pods")
	}
	for i, group := range resources.APIGroups {
		if !apiGroup.MatchString(string(group)) {
			v.report(fmt.Sprintf("%s.apiGroups[%d]", field, i),
				"an API group must be a DNS name without a version, such as apps or batch, an empty string for the core group, or * for every group")
		}
	}
	for i, name := range resources.Resources {
		if !resourceName.MatchString(string(name)) {
			v.report(fmt.Sprintf("%s.resources[%d]", field, i), "a resource must be a plural name in lower case such as pods, a subresource such as "+
				"deployments/scale, or * for every resource")
		}
	}
	for i, operation := range resources.Operations {
		path := fmt.Sprintf("%s.operations[%d]", field, i)
		switch operation {
		case policyapi.OperationCreate, policyapi.OperationUpdate, policyapi.OperationConnect:
		default:
			v.report(path, "operation must be CREATE, UPDATE or CONNECT; deletions are never limited, because a deletion frees what a limit protects")
		}
	}
}

func (v *validator) validateSelector(field string, selector *policyapi.LabelSelector) {
	if err := labelselector.Validate(selector); err != nil {
		v.report(field, "%v", err)
	}
}

func isEmptySelector(selector *policyapi.LabelSelector) bool {
	return len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// serviceAccountPrefix is the prefix of the user name of a service account.
const serviceAccountPrefix = "system:serviceaccount:"

// validateServiceAccount validates an identifier of a tier on axis ServiceAccount.
func (v *validator) validateServiceAccount(field string, identifier policyapi.TierIdentifier) {
	account := lowerServiceAccount(string(identifier))
	if namespace, name, isComplete := strings.Cut(account, "/"); !isComplete || namespace == "" || name == "" || strings.ContainsAny(name, "/:") {
		v.report(field, "%q: a service account must be namespace/name, or %snamespace:name", identifier, serviceAccountPrefix)
	}
}

// lowerServiceAccount converts a service account in either spelling to "namespace/name", the form in which it is counted.
func lowerServiceAccount(given string) string {
	if account := rules.ServiceAccount(given); account != "" {
		return account
	}
	return given
}
