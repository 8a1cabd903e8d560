package registration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

type testingT interface {
	Helper()
	Context() context.Context
	Fatalf(format string, values ...any)
}

// Few values, so that rules and writes often match.
var (
	someNamespaces = []string{"shop", "bank", "kube-system", "weir-system", "lab"}
	someGroups     = []string{"", "apps", "batch", "*", "rbac.authorization.k8s.io", "coordination.k8s.io"}
	someResources  = []string{"pods", "configmaps", "namespaces", "pods/exec", "pods/status", "pods/eviction", "nodes", "deployments", "*", "*/*"}
	someOperations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}
	someUsers      = []string{"alice", "system:node:n1", `CN="o'brien",\O=x`, "$(HOME)\n\t\x7f", "ünï 💥"}
	someGroupNames = []string{
		"staff", "developers", "system:serviceaccounts:shop", `qu"oted\`, "system:nodes", "system:masters",
		"system:serviceaccounts:kube-system", "system:serviceaccounts:weir-system",
	}
)

// drawSome draws up to three of the values.
func drawSome[T any](t *rapid.T, of []T, least int, what string) (picked []T) {
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(of)-1), least, min(3, len(of)), rapid.ID[int]).Draw(t, what) {
		picked = append(picked, of[i])
	}
	return picked
}

func drawRule(t *rapid.T, name string) rules.Rule {
	match := &rules.KubernetesMatch{}
	for range rapid.IntRange(1, 3).Draw(t, "entries") {
		match.Resources = append(match.Resources, rules.KubernetesResources{
			APIGroups: drawSome(t, someGroups, 1, "groups"), Resources: drawSome(t, someResources, 1, "resources"), Operations: drawSome(t, someOperations, 1, "operations"),
		})
	}
	if rapid.Bool().Draw(t, "namespaced") {
		match.Namespaces = drawSome(t, someNamespaces, 1, "namespaces")
	}
	if rapid.IntRange(0, 3).Draw(t, "selector") == 0 {
		match.NamespaceSelector = rules.Selector{{Key: "plan", Operator: rules.SelectorExists}}
	}
	if rapid.IntRange(0, 3).Draw(t, "of users") == 0 {
		match.Users = drawSome(t, someUsers, 1, "users")
	}
	rule := rules.Rule{
		Policy: name, Algorithm: limiter.FixedWindow, Units: 1, WindowSeconds: 60, Axis: "User",
		Identifier: rules.Identifier{From: rapid.SampledFrom([]rules.IdentifierSource{
			rules.FromKubernetesTenant, rules.FromKubernetesNamespace, rules.FromKubernetesUser, rules.FromServiceAccount,
		}).Draw(t, "identifier")},
		Match: rules.Match{Kubernetes: match},
	}
	switch rapid.IntRange(0, 2).Draw(t, "domain") {
	case 0:
		rule.Domain = rapid.SampledFrom(someNamespaces).Draw(t, "domain")
	case 1:
		rule.Domains = drawSome(t, someNamespaces, 1, "domains")
	default:
		rule.AllDomains = true
	}
	return rule
}

// drawWrite draws any write. Most of the time it is a write that matches a resource of the rule.
func drawWrite(t *rapid.T, near *rules.Rule) *rules.KubernetesRequest {
	write := &rules.KubernetesRequest{
		Operation: rapid.SampledFrom(someOperations).Draw(t, "operation"),
		Group:     rapid.SampledFrom([]string{"", "apps", "batch", "storage.k8s.io", "rbac.authorization.k8s.io", "weir.dev"}).Draw(t, "group"),
		Version:   "v1",
		Resource:  rapid.SampledFrom([]string{"pods", "configmaps", "namespaces", "deployments", "storageclasses", "nodes"}).Draw(t, "resource"),
		Namespace: rapid.SampledFrom(append([]string{""}, someNamespaces...)).Draw(t, "namespace"),
		Name:      rapid.SampledFrom(someNamespaces).Draw(t, "name"),
		User:      rapid.SampledFrom(append([]string{"", "system:serviceaccount:shop:deployer"}, someUsers...)).Draw(t, "user"),
		Groups:    drawSome(t, someGroupNames, 0, "groups"),
	}
	write.Subresource = rapid.SampledFrom([]string{"", "", "exec", "status", "scale", "eviction"}).Draw(t, "subresource")
	if rapid.IntRange(0, 3).Draw(t, "near") > 0 {
		of := rapid.SampledFrom(near.Match.Kubernetes.Resources).Draw(t, "of")
		write.Operation = rapid.SampledFrom(of.Operations).Draw(t, "one of its operations")
		if group := rapid.SampledFrom(of.APIGroups).Draw(t, "one of its groups"); group != wildcard {
			write.Group = group
		}
		write.Subresource = ""
		if name := rapid.SampledFrom(of.Resources).Draw(t, "one of its resources"); !strings.Contains(name, wildcard) {
			write.Resource, write.Subresource, _ = strings.Cut(name, "/")
		}
		if near.Domain != "" {
			write.Namespace = near.Domain
		}
		if rapid.IntRange(0, 3).Draw(t, "of a user who is seldom exempt") > 0 {
			write.User, write.Groups = "alice", nil
		}
	}
	if write.Resource == "namespaces" || write.Resource == "nodes" { // cluster-scoped, in the core group
		write.Group, write.Namespace = "", ""
	}
	return write
}

// isExempt is a second implementation of the match conditions and the namespace selector.
func isExempt(never exempt.Lists, write *rules.KubernetesRequest) bool {
	in := write.Namespace
	if isNamespace(write) {
		in = write.Name
	}
	ofSystem := write.Group == "rbac.authorization.k8s.io" || write.Group == "weir.dev" || write.Group == "coordination.k8s.io"
	ofCore := write.Group == "" && (write.Resource == "nodes" || write.Resource == "pods" && write.Subresource == "eviction")
	return slices.Contains(never.Namespaces, in) || slices.Contains(never.Users, write.User) ||
		slices.ContainsFunc(write.Groups, func(g string) bool { return slices.Contains(never.Groups, g) }) ||
		write.Operation == "DELETE" || ofSystem || ofCore
}

func drawLimiter(t *rapid.T) *v1alpha1.Limiter {
	l := &v1alpha1.Limiter{}
	l.Name, l.Namespace = "default", "weir-system"
	spec := &v1alpha1.KubernetesThrottle{FailurePolicy: v1alpha1.WebhookFailureFail} // makes errors in match conditions visible
	l.Spec.KubernetesThrottle = spec
	if rapid.Bool().Draw(t, "only the writes that are always exempt") {
		return l // so that enough writes are not exempt
	}
	for _, name := range drawSome(t, someNamespaces[2:], 0, "exempt namespaces") {
		spec.AdditionalExemptNamespaces = append(spec.AdditionalExemptNamespaces, v1alpha1.NamespaceName(name))
	}
	for _, name := range drawSome(t, someUsers, 0, "exempt users") {
		spec.AdditionalExemptUsers = append(spec.AdditionalExemptUsers, v1alpha1.KubernetesUser(name))
	}
	for _, name := range drawSome(t, someGroupNames, 0, "exempt groups") {
		spec.AdditionalExemptGroups = append(spec.AdditionalExemptGroups, v1alpha1.KubernetesUser(name))
	}
	return l
}

func TestRender_CoversEveryMatchedWriteAndNoExemptOne(t *testing.T) {
	matcher := newWebhookMatcher(t, someNamespaces)
	selected, exempted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		set := rules.Set{Namespaces: []rules.Namespace{{Name: "shop", Labels: map[string]string{"plan": "free"}}}}
		for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
			set.Rules = append(set.Rules, drawRule(t, "_cluster/"+string(rune('a'+i))))
		}
		index, err := matching.NewIndex(set, "", "weir:")
		if err != nil {
			t.Fatalf("%v", err)
		}
		throttling := ThrottlingLimiter{Limiter: drawLimiter(t), Rules: set.Rules}
		never := stored.ExemptionsOf(throttling.Limiter)
		configuration := Render([]ThrottlingLimiter{throttling})
		calls := matcher.callsOf(t, configuration)
		for range 20 {
			write := drawWrite(t, &set.Rules[0])
			matched := len(index.Match(nil, &rules.Request{Domain: write.Namespace, Kubernetes: write})) > 0
			called := calls(write)
			switch {
			case called > 1:
				t.Fatalf("the API server calls %d webhooks for %+v, which counts twice\nwith %+v", called, write, configuration.Webhooks)
			case isExempt(never, write):
				exempted++
				if called > 0 {
					t.Fatalf("the API server calls the webhook for %+v, which is exempt by %+v", write, never)
				}
			case matched:
				selected++
				if called == 0 {
					t.Fatalf("the API server does not call the webhook for %+v\nwith %+v", write, configuration.Webhooks)
				}
			}
		}
	})
	t.Logf("drew %d matching and %d exempt writes", selected, exempted)
	if selected < 30 || exempted < 300 {
		t.Error("too few of them")
	}
}
