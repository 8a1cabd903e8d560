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
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

// objectsIn decodes Limiters and policies.
func objectsIn(t *testing.T, text []byte) (limiters []v1alpha1.Limiter, policies compile.Policies) {
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
			policies.Namespaced = append(policies.Namespaced, p)
		case "ClusterRateLimitPolicy":
			var p v1alpha1.ClusterRateLimitPolicy
			must(t, yaml.UnmarshalStrict(document, &p))
			policies.Cluster = append(policies.Cluster, p)
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
				set, err := throttleRules(&limiters[i], policies)
				must(t, err)
				throttling = append(throttling, ThrottlingLimiter{&limiters[i], set, []byte("trusted\n")})
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
		Policy: "cluster/some", AllDomains: true, Identifier: rules.Identifier{From: rules.FromKubernetesUser}, Match: rules.Match{Kubernetes: match},
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

var kubeSystemExempt = deployment.Exemptions{Namespaces: []string{"kube-system"}}

func TestWebhookRules_CoverEachResourceOnceWithFewRules(t *testing.T) {
	within := func(rule rules.Rule) rules.Rule { rule.AllDomains, rule.Domain = false, "shop"; return rule }
	for name, c := range map[string]struct {
		rules []rules.Rule
		want  []string
	}{
		"operations of one resource": {
			[]rules.Rule{writeRule("/pods:DELETE"), writeRule("/pods:CREATE,UPDATE")}, []string{"/pods:CREATE,UPDATE,DELETE *"},
		},
		"resources of one group": {
			[]rules.Rule{writeRule("apps/deployments:CREATE", "apps/daemonsets:CREATE")}, []string{"apps/daemonsets|deployments:CREATE *"},
		},
		"groups with the same resources": {
			[]rules.Rule{writeRule("b/things:CREATE", "a/things:CREATE", "a/others:DELETE")}, []string{"a/others:DELETE *", "a|b/things:CREATE *"},
		},
		"a resource that a wildcard already covers": {
			[]rules.Rule{writeRule("apps/*:CREATE", "apps/deployments:CREATE,DELETE", "apps/deployments/scale:CREATE")},
			[]string{"apps/*|deployments/scale:CREATE *", "apps/deployments:DELETE *"},
		},
		"every group and single groups": {
			[]rules.Rule{writeRule("*/*:CREATE", "/pods:CREATE,UPDATE", "apps/things:CREATE")}, []string{"/pods:UPDATE *", "*/*:CREATE *"},
		},
		"rules of a namespace and of the cluster": {
			[]rules.Rule{within(writeRule("/pods:CREATE,DELETE", "/services:CREATE")), writeRule("/pods:CREATE")},
			[]string{"/pods:CREATE *", "/pods:DELETE Namespaced", "/services:CREATE Namespaced"},
		},
		"an operation that does not exist": {[]rules.Rule{writeRule("/pods:READ")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, notation(newWebhookRules(c.rules, kubeSystemExempt).list())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWebhookRules_AreWidenedWhenThereAreTooMany(t *testing.T) {
	var many, more []string
	for i := range maxRules + 1 {
		many = append(many, fmt.Sprintf("g%d/r%d:CREATE", i, i))
	}
	for i := range maxResources + 1 {
		more = append(more, fmt.Sprintf("g/r%d:DELETE", i))
	}
	of := newWebhookRules([]rules.Rule{writeRule(many...)}, kubeSystemExempt).list()
	if len(of) != 1 || of[0].APIGroups[0] != "*" || len(of[0].Resources) != maxRules+1 || len(of[0].Operations) != 1 {
		t.Errorf("%d rules: %v", len(of), notation(of))
	}
	if got := notation(newWebhookRules([]rules.Rule{writeRule(more...)}, kubeSystemExempt).list()); !slices.Equal(got, []string{"*/*/*:DELETE *"}) {
		t.Errorf("%v", got)
	}
}

func TestNamespaceSelector_SelectsOnlyNamespacesThatPoliciesName(t *testing.T) {
	exempt := deployment.Exemptions{Namespaces: []string{"kube-system", "weir-system"}}
	in := func(domains ...string) rules.Rule {
		rule := writeRule("/pods:CREATE")
		rule.AllDomains, rule.Domains = false, domains
		return rule
	}
	named := func(namespaces ...string) rules.Rule {
		rule := writeRule("/pods:CREATE")
		rule.Match.Kubernetes.Namespaces = namespaces
		return rule
	}
	both := in("shop", "bank")
	both.Match.Kubernetes.Namespaces = []string{"bank", "lab"}
	var many []string
	for i := range maxNamespaces + 1 {
		many = append(many, fmt.Sprintf("n%d", i))
	}
	all := "kubernetes.io/metadata.name notin (kube-system,weir-system)"
	for name, c := range map[string]struct {
		rules []rules.Rule
		want  string
	}{
		"domains":                               {[]rules.Rule{in("shop"), in("bank", "shop")}, "kubernetes.io/metadata.name in (bank,shop)"},
		"namespaces":                            {[]rules.Rule{named("shop"), named("bank")}, "kubernetes.io/metadata.name in (bank,shop)"},
		"domains and namespaces":                {[]rules.Rule{both}, "kubernetes.io/metadata.name in (bank)"},
		"exempt namespaces are omitted":         {[]rules.Rule{in("shop", "kube-system")}, "kubernetes.io/metadata.name in (shop)"},
		"a rule for all namespaces":             {[]rules.Rule{in("shop"), writeRule("/pods:CREATE")}, all},
		"more than maxNamespaces":               {[]rules.Rule{in(many...)}, all},
		"only exempt namespaces":                {[]rules.Rule{in("kube-system"), named("weir-system")}, ""},
		"a domain without the named namespaces": {[]rules.Rule{func() rules.Rule { r := in("shop"); r.Match.Kubernetes.Namespaces = []string{"bank"}; return r }()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newWebhookRules(c.rules, exempt)
			if a.empty() != (c.want == "") {
				t.Fatalf("webhook rules %+v", a)
			}
			if got := metav1.FormatLabelSelector(a.namespaceSelector(exempt)); c.want != "" && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
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
