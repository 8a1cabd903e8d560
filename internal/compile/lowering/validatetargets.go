package lowering

import (
	"fmt"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
)

// maxTargets is the number of targets of a policy, and of entries in its status.ancestors.
const maxTargets = 16

// validateTargets validates spec.targetRefs without looking for the targets.
func (v *validator) validateTargets(policy *Policy) {
	spec := policy.Spec
	if len(spec.TargetRefs) == 0 {
		return
	}
	const field = "spec.targetRefs"
	if n := len(spec.TargetRefs); n > maxTargets {
		v.report(field, "%d targets, but at most %d can be set", n, maxTargets)
	}
	if m := spec.Match; m != nil && (len(m.Descriptors) > 0 || m.Kubernetes != nil || m.HTTP != nil && len(m.HTTP.Hosts) > 0) {
		v.report("spec.match", "match must not have descriptors, kubernetes and http.hosts together with targetRefs, which select the requests instead; "+
			"use other fields of match.http, or remove targetRefs")
	}
	type object struct {
		kind                     policyapi.TargetKind
		namespace, name, section string
	}
	seen := map[object]bool{}
	for i, ref := range spec.TargetRefs {
		v.validateTarget(fmt.Sprintf("%s[%d]", field, i), ref, policy.Cluster != nil)
		key := object{kind: ref.Kind, name: ref.Name}
		if ref.Namespace != nil {
			key.namespace = *ref.Namespace
		}
		if ref.SectionName != nil {
			key.section = *ref.SectionName
		}
		if seen[key] {
			v.report(field, "targetRefs must be unique; remove the repeated one")
		}
		seen[key] = true
	}
	if policy.Cluster != nil && len(policy.Cluster.Domains) > 0 {
		v.report("spec.domains", "domains must not be set together with targetRefs, because the routes of the Gateways determine the domains; "+
			"remove one of them")
	}
}

func (v *validator) validateTarget(field string, ref policyapi.TargetReference, cluster bool) {
	if ref.Group != policyapi.GatewayGroup {
		v.report(field+".group", "unknown group %q; use %s", ref.Group, policyapi.GatewayGroup)
	}
	if ref.Kind == "" {
		v.report(field+".kind", "must not be empty; set HTTPRoute, GRPCRoute or Gateway")
	}
	validateEnum(v, field+".kind", ref.Kind, policyapi.TargetHTTPRoute, policyapi.TargetGRPCRoute, policyapi.TargetGateway)
	v.validateName(field+".name", ref.Name)
	switch {
	case cluster && ref.Namespace == nil:
		v.report(field, "targetRefs of a ClusterRateLimitPolicy must have kind Gateway and a namespace; use a RateLimitPolicy for a route")
	case ref.Namespace != nil && ref.Kind != policyapi.TargetGateway:
		v.report(field+".namespace", "namespace is valid only with kind Gateway, because a policy can target only routes of its own namespace; remove namespace")
	}
}
