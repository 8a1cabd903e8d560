package registration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/rules"
)

// objectsIn decodes Limiters and policies.
func objectsIn(t *testing.T, text []byte) (limiters []v1alpha1.Limiter, policies stored.Policies) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		must(t, yaml.Unmarshal(document, &kind))
		switch kind.Kind {
		case "Limiter":
			var l v1alpha1.Limiter
			must(t, yaml.UnmarshalStrict(document, &l))
			limiters = append(limiters, l)
		case "RateLimitPolicy":
			var p v1alpha1.RateLimitPolicy
			must(t, yaml.UnmarshalStrict(document, &p))
			policies.Namespaced = append(policies.Namespaced, &p)
		case "ClusterRateLimitPolicy":
			var p v1alpha1.ClusterRateLimitPolicy
			must(t, yaml.UnmarshalStrict(document, &p))
			policies.Cluster = append(policies.Cluster, &p)
		default:
			t.Fatalf("kind %q", kind.Kind)
		}
	}
	return limiters, policies
}

func TestRender_MatchesGoldenFiles(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	must(t, err)
	if len(inputs) == 0 {
		t.Fatal("no testdata/*.in.yaml")
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(input)
			must(t, err)
			limiters, policies := objectsIn(t, text)
			var throttling []ThrottlingLimiter
			for i := range limiters {
				selected, err := policies.SelectedBy(&limiters[i].Spec)
				must(t, err)
				throttling = append(throttling, ThrottlingLimiter{Limiter: &limiters[i], Rules: throttleRules(selected, new(compile.Memo)), Bundle: []byte("trusted\n")})
			}
			got, err := yaml.Marshal(Render(throttling))
			must(t, err)
			slices.Reverse(throttling)
			again, err := yaml.Marshal(Render(throttling))
			must(t, err)
			if diff := cmp.Diff(string(got), string(again)); diff != "" {
				t.Errorf("in another order (-one +other):\n%s", diff)
			}
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				must(t, os.WriteFile(golden, got, 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s; run go test -update to write it (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// writeRule returns a cluster-wide rule for resources in the notation "group/resource[/subresource]:OPERATION,…".
func writeRule(what ...string) rules.Rule {
	match := &rules.KubernetesMatch{}
	for _, one := range what {
		of, operations, _ := strings.Cut(one, ":")
		group, name, _ := strings.Cut(of, "/")
		match.Resources = append(match.Resources, rules.KubernetesResources{
			APIGroups: []string{group}, Resources: []string{name}, Operations: strings.Split(operations, ","),
		})
	}
	return rules.Rule{
		Policy: "_cluster/some", AllDomains: true, Identifier: rules.Identifier{From: rules.FromKubernetesUser}, Match: rules.Match{Kubernetes: match},
	}
}

// notation formats webhook rules in the same notation, with | between groups and between resources.
func notation(all []admissionv1.RuleWithOperations) (texts []string) {
	for _, r := range all {
		var operations []string
		for _, o := range r.Operations {
			operations = append(operations, string(o))
		}
		texts = append(texts, strings.Join(r.APIGroups, "|")+"/"+strings.Join(r.Resources, "|")+":"+strings.Join(operations, ",")+" "+string(*r.Scope))
	}
	return texts
}

var kubeSystemExempt = exempt.Lists{Namespaces: []string{"kube-system"}}

// firstEntry returns the only webhook for the rules.
func firstEntry(t *testing.T, set []rules.Rule) entry {
	t.Helper()
	all := newReaches(set, kubeSystemExempt).entries(kubeSystemExempt)
	if len(all) != 1 {
		t.Fatalf("%d webhooks", len(all))
	}
	return all[0]
}

func TestEntries_CoverEachResourceOnceWithFewRules(t *testing.T) {
	inAll := func(rule rules.Rule) rules.Rule { rule.Identifier.From = rules.FromKubernetesNamespace; return rule }
	for name, c := range map[string]struct {
		rules []rules.Rule
		want  []string
	}{
		"operations of one resource": {
			[]rules.Rule{writeRule("/pods:CONNECT"), writeRule("/pods:CREATE,UPDATE")}, []string{"/pods:CREATE,UPDATE,CONNECT *"},
		},
		"resources of one group": {
			[]rules.Rule{writeRule("apps/deployments:CREATE", "apps/daemonsets:CREATE")}, []string{"apps/daemonsets|deployments:CREATE *"},
		},
		"groups with the same resources": {
			[]rules.Rule{writeRule("b/things:CREATE", "a/things:CREATE", "a/others:UPDATE")}, []string{"a/others:UPDATE *", "a|b/things:CREATE *"},
		},
		"a resource that a wildcard already covers": {
			[]rules.Rule{writeRule("apps/*:CREATE", "apps/deployments:CREATE,UPDATE", "apps/deployments/scale:CREATE")},
			[]string{"apps/*|deployments/scale:CREATE *", "apps/deployments:UPDATE *"},
		},
		"every group and single groups": {
			[]rules.Rule{writeRule("*/*:CREATE", "/pods:CREATE,UPDATE", "apps/things:CREATE")}, []string{"/pods:UPDATE *", "*/*:CREATE *"},
		},
		"rules of namespaces and of the cluster": {
			[]rules.Rule{inAll(writeRule("/pods:CREATE,UPDATE", "/services:CREATE")), writeRule("/pods:CREATE")},
			[]string{"/pods:CREATE *", "/pods:UPDATE Namespaced", "/services:CREATE Namespaced"},
		},
		"writes that are never limited": {
			[]rules.Rule{writeRule(
				"/nodes:CREATE", "/nodes/status:UPDATE", "/pods/eviction:CREATE", "/pods:DELETE", "weir.dev/*:CREATE", "coordination.k8s.io/leases:UPDATE",
				"rbac.authorization.k8s.io/roles:CREATE", "/pods/exec:CONNECT",
			)},
			[]string{"/pods/exec:CONNECT *"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, notation(firstEntry(t, c.rules).rules)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntries_AreWidenedWhenThereAreTooMany(t *testing.T) {
	var many, more []string
	for i := range maxRules + 1 {
		many = append(many, fmt.Sprintf("g%d/r%d:CREATE", i, i))
	}
	for i := range maxResources + 1 {
		more = append(more, fmt.Sprintf("g/r%d:UPDATE", i))
	}
	first := firstEntry(t, []rules.Rule{writeRule(many...)})
	of := first.rules
	if !slices.ContainsFunc(first.matchConditions(exempt.With("limits", exempt.Lists{})), func(c admissionv1.MatchCondition) bool {
		return c.Name == "exempt-resources"
	}) {
		t.Error("API servers call the limiter for exempt resources, because the rule covers all groups")
	}
	if len(of) != 1 || of[0].APIGroups[0] != "*" || len(of[0].Resources) != maxRules+1 || len(of[0].Operations) != 1 {
		t.Errorf("%d rules: %v", len(of), notation(of))
	}
	if got := notation(firstEntry(t, []rules.Rule{writeRule(more...)}).rules); !slices.Equal(got, []string{"*/*/*:UPDATE *"}) {
		t.Errorf("%v", got)
	}
}

func TestWebhookName_IsADNSNameForEveryLimiterName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &v1alpha1.Limiter{}
		l.Name = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?`).Draw(t, "name")
		l.Namespace = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(t, "namespace")
		if wrong := validation.IsDNS1123Subdomain(WebhookName(l)); len(wrong) > 0 {
			t.Errorf("%s: %v", WebhookName(l), wrong)
		}
	})
}
