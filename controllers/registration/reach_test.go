package registration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// inDomains returns the rule for these namespaces only.
func inDomains(rule rules.Rule, domains ...string) rules.Rule {
	rule.AllDomains, rule.Domains = false, domains
	return rule
}

func ofUsers(rule rules.Rule, users ...string) rules.Rule {
	rule.Match.Kubernetes.Users = users
	return rule
}

func TestEntries_SelectOnlyNamespacesThatPoliciesName(t *testing.T) {
	never := exempt.Lists{Namespaces: []string{"kube-system", "weir-system"}}
	pods := func() rules.Rule { return writeRule("/pods:CREATE") }
	named := func(namespaces ...string) rules.Rule {
		rule := pods()
		rule.Match.Kubernetes.Namespaces = namespaces
		return rule
	}
	both := inDomains(named("bank", "lab"), "shop", "bank")
	const name = "kubernetes.io/metadata.name "
	for title, c := range map[string]struct {
		rules []rules.Rule
		want  []string
	}{
		"domains":                       {[]rules.Rule{inDomains(pods(), "shop"), inDomains(pods(), "bank", "shop")}, []string{"namespaces-1: in (bank,shop)"}},
		"namespaces":                    {[]rules.Rule{named("shop"), named("bank")}, []string{"namespaces-1: in (bank,shop)"}},
		"domains and namespaces":        {[]rules.Rule{both}, []string{"namespaces-1: in (bank)"}},
		"exempt namespaces are omitted": {[]rules.Rule{inDomains(pods(), "shop", "kube-system")}, []string{"namespaces-1: in (shop)"}},
		"a rule for all namespaces that covers the others": {
			[]rules.Rule{inDomains(pods(), "shop"), pods()}, []string{": notin (kube-system,weir-system)"},
		},
		"a rule for all namespaces, and more in one": {
			[]rules.Rule{inDomains(writeRule("/secrets:CREATE"), "shop"), pods()},
			[]string{"cluster: notin (kube-system,weir-system)", ": notin (kube-system,shop,weir-system)", "namespaces-1: in (shop)"},
		},
		"namespaces with different resources": {
			[]rules.Rule{inDomains(writeRule("/secrets:CREATE"), "shop"), inDomains(pods(), "bank", "lab")},
			[]string{"namespaces-1: in (bank,lab)", "namespaces-2: in (shop)"},
		},
		"only exempt namespaces":                {[]rules.Rule{inDomains(pods(), "kube-system"), named("weir-system")}, nil},
		"only exempt resources":                 {[]rules.Rule{writeRule("/nodes:CREATE", "/pods:DELETE", "weir.dev/*:UPDATE")}, nil},
		"a domain without the named namespaces": {[]rules.Rule{inDomains(named("bank"), "shop")}, nil},
	} {
		t.Run(title, func(t *testing.T) {
			a := newReaches(c.rules, never)
			if a.empty() != (c.want == nil) {
				t.Fatalf("reaches %+v", a)
			}
			var got []string
			if !a.empty() {
				for _, e := range a.entries(never) {
					got = append(got, e.name+": "+strings.TrimPrefix(metav1.FormatLabelSelector(e.selector), name))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// One policy limits pods everywhere, and the tenant of namespace acme limits everything in its own.
func TestRender_OneTenantsPolicyCausesNoCallsForOthers(t *testing.T) {
	everything := writeRule("*/*/*:CREATE,UPDATE,DELETE,CONNECT")
	everything.Policy, everything.AllDomains, everything.Domain = "acme/everything", false, "acme"
	l := &v1alpha1.Limiter{}
	l.Name, l.Namespace, l.Spec.KubernetesThrottle = "default", "limits", &v1alpha1.KubernetesThrottle{FailurePolicy: v1alpha1.WebhookFailureFail}
	configuration := Render([]ThrottlingLimiter{{Limiter: l, Rules: []rules.Rule{writeRule("/pods:CREATE"), everything}}})
	text, err := yaml.Marshal(configuration.Webhooks)
	must(t, err)
	t.Logf("\n%s", text)
	calls := newWebhookMatcher(t, []string{"acme", "shop", "limits", "kube-system", "weir-system"}).callsOf(t, configuration)
	write := func(namespace, resource, operation string) int {
		group, name, _ := strings.Cut(resource, "/")
		name, sub, _ := strings.Cut(name, "/")
		return calls(&rules.KubernetesRequest{
			Operation: operation, Group: group, Version: "v1", Resource: name, Subresource: sub, Namespace: namespace, Name: "some", User: "alice",
		})
	}
	var asked []string
	for _, namespace := range []string{"acme", "shop", "limits", "kube-system", "weir-system", ""} {
		for _, resource := range []string{
			"/pods", "/configmaps", "apps/deployments", "apps/deployments/scale", "/pods/eviction", "rbac.authorization.k8s.io/rolebindings",
			"weir.dev/ratelimitpolicies", "coordination.k8s.io/leases", "/nodes",
		} {
			for _, operation := range []string{"CREATE", "UPDATE", "DELETE"} {
				if called := write(namespace, resource, operation); called == 1 {
					asked = append(asked, operation+" "+namespace+":"+resource)
				} else if called > 1 {
					t.Errorf("%s of %s in %s calls %d webhooks", operation, resource, namespace, called)
				}
			}
		}
	}
	want := []string{
		"CREATE acme:/pods", "UPDATE acme:/pods", "CREATE acme:/configmaps", "UPDATE acme:/configmaps",
		"CREATE acme:apps/deployments", "UPDATE acme:apps/deployments", "CREATE acme:apps/deployments/scale", "UPDATE acme:apps/deployments/scale",
		"CREATE shop:/pods",
		"CREATE weir-system:/pods", // not the namespace of the Limiter: the name means nothing
		"CREATE :/pods",            // the operator does not know which resources have namespaces
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("the API server calls the webhook for (-want +got):\n%s", diff)
	}
}

func TestRender_BoundsTheWebhooksOfManyNamespaces(t *testing.T) {
	var set []rules.Rule
	for i := range 60 {
		set = append(set, inDomains(writeRule(fmt.Sprintf("/r%d:CREATE", i)), fmt.Sprintf("n%d", i)))
	}
	set = append(set, inDomains(writeRule("*/*/*:CREATE,UPDATE"), "greedy"))
	never := exempt.Lists{}
	entries := newReaches(set, never).entries(never)
	if len(entries) != 16 {
		t.Fatalf("%d webhooks, want 16", len(entries))
	}
	for _, e := range entries {
		if names := e.selector.MatchExpressions[0].Values; slices.Contains(names, "greedy") && len(names) > 1 {
			t.Errorf("namespaces %q share the webhook of a policy that names everything", names)
		}
	}
	for i := range 2000 {
		set = append(set, inDomains(writeRule("apps/deployments:CREATE"), fmt.Sprintf("m%d", i)))
	}
	entries = newReaches(set, never).entries(never)
	named := 0
	for _, e := range entries {
		if e.selector.MatchExpressions[0].Operator == metav1.LabelSelectorOpIn {
			named += len(e.selector.MatchExpressions[0].Values)
		} else if len(e.reach.resources) > 1 { // of the namespaces that are too many
			t.Errorf("every namespace has rules %v", notation(e.rules))
		}
	}
	if named != 61 || len(entries) != 17 { // the webhook for all namespaces covers the others, so they need no webhook
		t.Errorf("%d webhooks name %d namespaces", len(entries), named)
	}
}

func TestMatchConditions_NameTheUsersThatPoliciesLimit(t *testing.T) {
	matcher := newWebhookMatcher(t, []string{"shop"})
	l := &v1alpha1.Limiter{}
	l.Name, l.Namespace, l.Spec.KubernetesThrottle = "default", "limits", &v1alpha1.KubernetesThrottle{FailurePolicy: v1alpha1.WebhookFailureFail}
	ofGroup := writeRule("/pods:CREATE")
	ofGroup.Match.Kubernetes.Groups = []string{"staff"}
	calls := matcher.callsOf(t, Render([]ThrottlingLimiter{{Limiter: l, Rules: []rules.Rule{ofUsers(writeRule("/pods:CREATE"), "alice"), ofGroup}}}))
	for _, c := range []struct {
		user   string
		groups []string
		want   int
	}{{"alice", nil, 1}, {"bob", []string{"staff"}, 1}, {"bob", []string{"others"}, 0}, {"", nil, 0}} {
		write := rules.KubernetesRequest{Operation: "CREATE", Version: "v1", Resource: "pods", Namespace: "shop", User: c.user, Groups: c.groups}
		if got := calls(&write); got != c.want {
			t.Errorf("user %q in %q: %d calls, want %d", c.user, c.groups, got, c.want)
		}
	}
}

func TestMatchConditions_ExemptObjectsThatAreBeingDeleted(t *testing.T) {
	l := &v1alpha1.Limiter{}
	l.Name, l.Namespace, l.Spec.KubernetesThrottle = "default", "limits", &v1alpha1.KubernetesThrottle{FailurePolicy: v1alpha1.WebhookFailureFail}
	calls := newWebhookMatcher(t, []string{"shop"}).callsOf(t, Render([]ThrottlingLimiter{{Limiter: l, Rules: []rules.Rule{writeRule("/configmaps:UPDATE")}}}))
	for old, want := range map[string]int{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`:                                            1,
		`{"apiVersion":"v1","kind":"ConfigMap"}`:                                                                    1,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","deletionTimestamp":"2026-11-22T00:00:00Z"}}`: 0,
	} {
		write := rules.KubernetesRequest{
			Operation: "UPDATE", Version: "v1", Resource: "configmaps", Namespace: "shop", User: "alice", Object: []byte(old), OldObject: []byte(old),
		}
		if got := calls(&write); got != want {
			t.Errorf("%s: %d calls, want %d", old, got, want)
		}
	}
}
