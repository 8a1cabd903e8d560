package policy

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

const unseen = "Weir could not read the other policies and has judged this one by itself"

// judge judges one policy beside those of the cluster and of the namespace, if one is given.
func (c Config) judge(ctx context.Context, one compile.Policies, namespace string) judgement {
	others, err := c.others(ctx, namespace)
	if err == nil {
		return judge(one, others, c.Identity)
	}
	// To refuse would be to stop everybody for a trouble of ours; what is wrong with the policy itself shows without the others.
	log.FromContext(ctx).Error(err, "A policy is judged without those beside it", "policy", nameOf(one))
	found := judge(one, compile.Policies{}, c.Identity)
	found.warnings = append(found.warnings, unseen)
	return found
}

// others lists policies for reading only: they are the cache's own.
func (c Config) others(ctx context.Context, namespace string) (compile.Policies, error) {
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if err := c.Stored.List(ctx, &cluster, client.UnsafeDisableDeepCopy); err != nil {
		return compile.Policies{}, fmt.Errorf("list the policies of the cluster: %w", err)
	}
	if namespace == "" {
		return compile.Policies{Cluster: cluster.Items}, nil
	}
	var namespaced v1alpha1.RateLimitPolicyList
	if err := c.Stored.List(ctx, &namespaced, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return compile.Policies{}, fmt.Errorf("list the policies of namespace %s: %w", namespace, err)
	}
	return compile.Policies{Namespaced: namespaced.Items, Cluster: cluster.Items}, nil
}

// judge compiles one policy beside others, of which one may be the policy as it was.
func judge(one, others compile.Policies, identity compile.Identity) judgement {
	name, ofCluster := nameOf(one), len(one.Cluster) > 0
	for i := range others.Namespaced {
		if ofCluster || compile.Name(&others.Namespaced[i]) != name {
			one.Namespaced = append(one.Namespaced, others.Namespaced[i])
		}
	}
	for i := range others.Cluster {
		if !ofCluster || compile.ClusterName(&others.Cluster[i]) != name {
			one.Cluster = append(one.Cluster, others.Cluster[i])
		}
	}
	result := one.Compile(identity)
	found := judgement{problems: slices.DeleteFunc(result.Problems, func(p compile.Problem) bool {
		return p.Policy != name || p.Cluster != ofCluster
	})}
	// A namespace can be called cluster, so that the name alone does not tell the rule.
	own := slices.IndexFunc(result.Set.Rules, func(r rules.Rule) bool { return r.Policy == name && (r.Domain == "") == ofCluster })
	if own >= 0 {
		found.warnings = shown(compile.Warn(&result.Set.Rules[own], result.Set.Rules))
	}
	return found
}

// nameOf is the name of the one policy.
func nameOf(one compile.Policies) string {
	if len(one.Cluster) > 0 {
		return compile.ClusterName(&one.Cluster[0])
	}
	return compile.Name(&one.Namespaced[0])
}
