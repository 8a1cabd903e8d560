package compile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// What requests of the one kind have is refused in a policy for the other: writes to the Kubernetes API have neither headers
// nor addresses nor endpoints, and only they have a namespace with labels.

func (c *checker) checkAxisOfKind(axis v1alpha1.Axis) {
	switch axis {
	case v1alpha1.AxisNamespace, v1alpha1.AxisServiceAccount:
		if !c.kubernetes {
			c.add("spec.axis", "axes Namespace and ServiceAccount are valid only for writes to the Kubernetes API; set match.kubernetes or use another axis")
		}
	case v1alpha1.AxisIP, v1alpha1.AxisAPIKey, v1alpha1.AxisEndpoint:
		if c.kubernetes {
			c.add("spec.axis", "axis must be Tenant, User, ServiceAccount, Namespace or Custom with match.kubernetes")
		}
	}
}

func (c *checker) checkIdentifierOfKind(axis v1alpha1.Axis, id *v1alpha1.Identifier) {
	const field = "spec.identifier"
	if axis == v1alpha1.AxisNamespace || axis == v1alpha1.AxisServiceAccount {
		c.add(field, "identifier must not be set with axis Namespace or ServiceAccount; remove identifier or use axis Custom")
	}
	if c.kubernetes && id.Expression == nil {
		c.add(field, "identifier must be an expression with match.kubernetes, because a write has no headers, query parameters, cookies, claims "+
			"or descriptors; use identifier.expression or remove identifier")
	}
}

func (c *checker) checkTiersOfKind(tiers []v1alpha1.Tier) {
	const field = "spec.tiers"
	if c.kubernetes && slices.ContainsFunc(tiers, func(t v1alpha1.Tier) bool { return t.When.Header != nil || len(t.When.CIDRs) > 0 }) {
		c.add(field, "tiers must not use header or cidrs with match.kubernetes, because a write has no headers and no client address; "+
			"use identifiers, groups, namespaceSelector or expression")
	}
	if !c.kubernetes && slices.ContainsFunc(tiers, func(t v1alpha1.Tier) bool { return t.When.NamespaceSelector != nil }) {
		c.add(field, "tiers can use namespaceSelector only with match.kubernetes; set match.kubernetes or use another condition")
	}
}

func (c *checker) checkKubernetesMatch(field string, match *v1alpha1.KubernetesMatch) {
	if len(match.Resources) == 0 {
		c.add(field+".resources", "must not be empty; list the resources to limit, such as {apiGroups: [apps], resources: [deployments]}")
	}
	for i, of := range match.Resources {
		c.checkResources(fmt.Sprintf("%s.resources[%d]", field, i), of)
	}
	for i, namespace := range match.Namespaces {
		if !isLabel(string(namespace)) || lowercase(namespace) != string(namespace) {
			c.add(fmt.Sprintf("%s.namespaces[%d]", field, i),
				"the name of a namespace must consist of lower-case letters, digits and hyphens, and must begin and end with a letter or digit")
		}
	}
	if match.NamespaceSelector != nil {
		c.checkSelector(field+".namespaceSelector", match.NamespaceSelector)
	}
	for _, list := range []struct {
		name string
		of   []v1alpha1.KubernetesUser
	}{{"users", match.Users}, {"groups", match.Groups}, {"exceptUsers", match.ExceptUsers}, {"exceptGroups", match.ExceptGroups}} {
		for i, user := range list.of {
			c.checkNotEmpty(fmt.Sprintf("%s.%s[%d]", field, list.name, i), string(user))
		}
	}
	if match.Expression != nil {
		c.checkExpression(field+".expression", *match.Expression, rules.ResultBool)
	}
}

var (
	apiGroup     = regexp.MustCompile(`^([*]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`)
	resourceName = regexp.MustCompile(`^([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?)(/([*]|[a-z0-9]([a-z0-9-]*[a-z0-9])?))?$`)
)

func (c *checker) checkResources(field string, of v1alpha1.KubernetesResources) {
	if len(of.APIGroups) == 0 {
		c.add(field+".apiGroups", `must not be empty; list the API groups, "" for the core group`)
	}
	if len(of.Resources) == 0 {
		c.add(field+".resources", "must not be empty; list the resources, such as pods")
	}
	for i, group := range of.APIGroups {
		if !apiGroup.MatchString(string(group)) {
			c.add(fmt.Sprintf("%s.apiGroups[%d]", field, i),
				"an API group must be a DNS name without a version, such as apps or batch, an empty string for the core group, or * for every group")
		}
	}
	for i, name := range of.Resources {
		if !resourceName.MatchString(string(name)) {
			c.add(fmt.Sprintf("%s.resources[%d]", field, i), "a resource must be a plural name in lower case such as pods, a subresource such as "+
				"deployments/scale, or * for every resource")
		}
	}
	for i, operation := range of.Operations {
		at := fmt.Sprintf("%s.operations[%d]", field, i)
		c.checkNotEmpty(at, string(operation))
		checkEnum(c, at, operation, v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationDelete, v1alpha1.OperationConnect)
	}
}

func (c *checker) checkSelector(field string, selector *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		c.add(field, "%v", err)
	}
}

func isEmptySelector(selector *metav1.LabelSelector) bool {
	return len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// serviceAccountPrefix is how API servers begin the name of a user who is a service account.
const serviceAccountPrefix = "system:serviceaccount:"

// checkServiceAccount checks an identifier of a tier on axis ServiceAccount.
func (c *checker) checkServiceAccount(field string, identifier v1alpha1.TierIdentifier) {
	account := lowerServiceAccount(string(identifier))
	if namespace, name, both := strings.Cut(account, "/"); !both || namespace == "" || name == "" || strings.ContainsAny(name, "/:") {
		c.add(field, "%q: a service account must be namespace/name, or %snamespace:name", identifier, serviceAccountPrefix)
	}
}

// lowerServiceAccount writes a service account as it is counted, "namespace/name", however its author does.
func lowerServiceAccount(given string) string {
	if account := rules.ServiceAccount(given); account != "" {
		return account
	}
	return given
}
