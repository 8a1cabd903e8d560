package main

import (
	"context"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// completedObjects bounds the objects of one kind that are read for a completion.
const completedObjects = 2000

// Policies implements [ask.Limiters]: it returns the policies in the cluster.
func (f *clusterFlags) Policies(ctx context.Context) (names []string) {
	c, err := f.reader()
	if err != nil {
		return nil
	}
	var namespaced v1alpha1.RateLimitPolicyList
	if c.List(ctx, &namespaced, client.Limit(completedObjects)) == nil {
		for i := range namespaced.Items {
			names = append(names, policyname.Join(namespaced.Items[i].Namespace, namespaced.Items[i].Name))
		}
	}
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if c.List(ctx, &cluster, client.Limit(completedObjects)) == nil {
		for i := range cluster.Items {
			names = append(names, policyname.Join(policyname.Cluster, cluster.Items[i].Name))
		}
	}
	return names
}

// limiters returns the Limiters in the cluster.
func (f *clusterFlags) limiters(ctx context.Context) (names []string) {
	c, err := f.reader()
	if err != nil {
		return nil
	}
	var list v1alpha1.LimiterList
	if err := c.List(ctx, &list, client.Limit(completedObjects)); err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	return names
}

// namespaces returns the namespaces with policies or Limiters.
func (f *clusterFlags) namespaces(ctx context.Context) (names []string) {
	for _, object := range slices.Concat(f.Policies(ctx), f.limiters(ctx)) {
		if namespace, _ := policyname.Split(object); namespace != policyname.Cluster {
			names = append(names, namespace)
		}
	}
	return names
}

// contexts returns the contexts of the kubeconfig.
func (f *clusterFlags) contexts(context.Context) (names []string) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names
}
