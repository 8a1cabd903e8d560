package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/weir/explain"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/topk"
)

const (
	// completionTimeout bounds the time that a shell waits for values. Without an answer, it completes nothing.
	completionTimeout = 3 * time.Second
	// completedObjects bounds the objects of one kind that are read for a completion.
	completedObjects = 2000
)

// values returns the values that a shell completes, for flags that were parsed before.
type values func(ctx context.Context) []string

// completion returns a function that completes the values that begin with what the user has typed. There are no values after an error: a
// message would disturb the command line.
func completion(of values) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if err := applyEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		found := of(ctx)
		slices.Sort(found)
		found = slices.DeleteFunc(slices.Compact(found), func(v string) bool {
			return !strings.HasPrefix(v, typed) || !isPlain(v)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// isPlain reports whether a shell takes a value as it is. Shells insert the common beginning of several completions without quotes, and execute
// $(…) and other syntax in it. Clients choose identifiers, so all other values are left out.
func isPlain(value string) bool {
	const marks = "._:/@=+,-"
	return !strings.HasPrefix(value, "-") && !strings.ContainsFunc(value, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	})
}

// fixed returns values that are always the same.
func fixed(of ...string) values { return func(context.Context) []string { return slices.Clone(of) } }

// completeFlags registers completions of flags by name. The flags must exist.
func completeFlags(cmd *cobra.Command, flags map[string]values) {
	for name, of := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, completion(of)); err != nil {
			panic("weir: complete a flag: " + err.Error())
		}
	}
}

// completeEndpoint registers completions of the flags that select a limiter.
func completeEndpoint(cmd *cobra.Command, endpoint *adminClientFlags) {
	completeFlags(cmd, map[string]values{"limiter": endpoint.cluster.limiters, "context": endpoint.cluster.contexts})
}

// completeCounters registers completions of a command that reads counters.
func completeCounters(cmd *cobra.Command, endpoint *adminClientFlags) {
	completeEndpoint(cmd, endpoint)
	completeFlags(cmd, map[string]values{"policy": endpoint.policies})
}

// onlyFirst completes the first argument. The command accepts no other.
func onlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// policies returns the policies that a limiter enforces, or those in the cluster.
func (f *adminClientFlags) policies(ctx context.Context) (names []string) {
	if f.address == "" {
		return f.cluster.policies(ctx)
	}
	sets, err := ask[admin.RuleSet](ctx, f, http.MethodGet, "/admin/v1/rules", nil, io.Discard)
	if err != nil {
		return nil
	}
	for i := range sets[0].value.Rules {
		names = append(names, sets[0].value.Rules[i].Policy)
	}
	return names
}

// domains returns the namespaces of policies.
func (f *adminClientFlags) domains(ctx context.Context) (names []string) {
	for _, policy := range f.policies(ctx) {
		if namespace, _, _ := strings.Cut(policy, "/"); namespace != "cluster" {
			names = append(names, namespace)
		}
	}
	return names
}

// identifiers returns the busiest and the most denied identifiers of a limiter, as arguments.
func (f *adminClientFlags) identifiers(ctx context.Context) []string {
	return f.topIdentifiers(ctx, func(e *topk.Entry) string { return explain.Identifier(e.Identifier, e.Hashed) })
}

// loggedIdentifiers returns them as denials have them.
func (f *adminClientFlags) loggedIdentifiers(ctx context.Context) []string {
	return f.topIdentifiers(ctx, func(e *topk.Entry) string { return e.Identifier })
}

func (f *adminClientFlags) topIdentifiers(ctx context.Context, name func(*topk.Entry) string) (names []string) {
	tops, err := ask[admin.Top](ctx, f, http.MethodGet, "/admin/v1/top", nil, io.Discard)
	if err != nil {
		return nil
	}
	for i := range tops {
		for _, list := range []topk.List{tops[i].value.Denied, tops[i].value.Allowed} {
			for j := range list.Identifiers {
				names = append(names, name(&list.Identifiers[j]))
			}
		}
	}
	return names
}

// policies returns the policies in the cluster.
func (f *clusterFlags) policies(ctx context.Context) (names []string) {
	c, err := f.reader()
	if err != nil {
		return nil
	}
	var namespaced v1alpha1.RateLimitPolicyList
	if c.List(ctx, &namespaced, client.Limit(completedObjects)) == nil {
		for i := range namespaced.Items {
			names = append(names, namespaced.Items[i].Namespace+"/"+namespaced.Items[i].Name)
		}
	}
	var cluster v1alpha1.ClusterRateLimitPolicyList
	if c.List(ctx, &cluster, client.Limit(completedObjects)) == nil {
		for i := range cluster.Items {
			names = append(names, "cluster/"+cluster.Items[i].Name)
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
	for _, object := range slices.Concat(f.policies(ctx), f.limiters(ctx)) {
		if namespace, _, _ := strings.Cut(object, "/"); namespace != "cluster" {
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
