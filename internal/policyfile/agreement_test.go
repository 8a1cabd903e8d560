package policyfile

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// TestCompile_AgreesWithTheSchema compares the two validations of the API. The schema validates text fields in CEL for the
// API server. The compiler validates them in Go for objects that did not pass through an API server.
func TestCompile_AgreesWithTheSchema(t *testing.T) {
	for name, tc := range map[string]struct {
		text *rapid.Generator[string]
		set  func(*policyapi.RateLimitPolicySpec, string)
		yaml string // the spec, with %s in place of the quoted text
	}{
		"windows": {
			rapid.StringMatching(`[0-9]{0,3}[dhms]?[0-9]{0,7}[hms]?([0-9]{1,7}[ms])?`),
			func(s *policyapi.RateLimitPolicySpec, text string) { s.Window = policyapi.Duration(text) },
			`{axis: IP, limit: 1, window: %s}`,
		},
		"hosts": {
			rapid.StringMatching(`(\*\.)?[a-c*:-]{1,3}(\.[a0-]{0,64}){0,2}`),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Hosts: []policyapi.Host{policyapi.Host(text)}}}
			},
			`{axis: IP, limit: 1, window: 1m, match: {http: {hosts: [%s]}}}`,
		},
		"paths": {
			rapid.StringMatching(`/?([a./?# *{}~%-]|%2[05eEfF]){0,8}`),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Paths: []policyapi.PathMatch{{Value: text}}}}
			},
			`{axis: IP, limit: 1, window: 1m, match: {http: {paths: [{value: %s}]}}}`,
		},
		"header names": {
			rapid.StringMatching("[aZ0!#$%&*+.^_|~ :/@'\"`{}()-]{0,3}"),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				name := policyapi.HeaderName(text)
				s.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Header: &name}}
			},
			`{axis: User, limit: 1, window: 1m, identifier: {header: %s}}`,
		},
		"networks": {
			rapid.OneOf(
				rapid.StringMatching(`[0-9a-fA-F:./%-]{0,8}`),
				rapid.StringMatching(`(0|1|10|255|256|01)(\.(0|1|128|255)){3}/(0?8|16|24|30|32|33)?`),
				rapid.StringMatching(`(2001:[dD][bB]8|fe80|::ffff)?(:[0-9a-f]{0,5}){0,3}(::)?(10\.0\.0\.0)?(%eth0)?/(0|8|32|64|104|128|129)`),
			),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{CIDRs: []policyapi.CIDR{policyapi.CIDR(text)}}}
			},
			`{axis: IP, limit: 1, window: 1m, match: {http: {cidrs: [%s]}}}`,
		},
		"tier names": {
			rapid.StringMatching(`[aZ0-]{0,3}([a0]{60,64}|[._ a-])?`),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				s.Tiers = []policyapi.Tier{{Name: text, Unlimited: true, When: policyapi.When{Groups: []policyapi.Group{"a"}}}}
			},
			`{axis: IP, limit: 1, window: 1m, tiers: [{name: %s, unlimited: true, when: {groups: [a]}}]}`,
		},
		"API groups": {
			rapid.StringMatching(`[*aZ0./-]{0,4}`),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				resources, m := policyapi.KubernetesResources{APIGroups: []policyapi.APIGroup{""}, Resources: []policyapi.ResourceName{"pods"}}, policyapi.KubernetesMatch{}
				resources.APIGroups = []policyapi.APIGroup{policyapi.APIGroup(text)}
				m.Resources = []policyapi.KubernetesResources{resources}
				s.Match = &policyapi.Match{Kubernetes: &m}
			},
			`{axis: User, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [%s], resources: [pods]}]}}}`,
		},
		"resources": {
			rapid.StringMatching(`[*aZ0./-]{0,3}(/[*a0-]{0,2})?`),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				resources, m := policyapi.KubernetesResources{APIGroups: []policyapi.APIGroup{""}, Resources: []policyapi.ResourceName{"pods"}}, policyapi.KubernetesMatch{}
				resources.Resources = []policyapi.ResourceName{policyapi.ResourceName(text)}
				m.Resources = []policyapi.KubernetesResources{resources}
				s.Match = &policyapi.Match{Kubernetes: &m}
			},
			`{axis: User, limit: 1, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [%s]}]}}}`,
		},
		"namespaces": {
			rapid.StringMatching(`[aZ0.-]{0,3}([a0]{60,64})?`),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				resources, m := policyapi.KubernetesResources{APIGroups: []policyapi.APIGroup{""}, Resources: []policyapi.ResourceName{"pods"}}, policyapi.KubernetesMatch{}
				m.Namespaces = []policyapi.NamespaceName{policyapi.NamespaceName(text)}
				m.Resources = []policyapi.KubernetesResources{resources}
				s.Match = &policyapi.Match{Kubernetes: &m}
			},
			`{axis: User, limit: 1, window: 1m, match: {kubernetes: {namespaces: [%s], resources: [{apiGroups: [""], resources: [pods]}]}}}`,
		},
		"cookie names": {
			rapid.StringMatching("[aZ0!#$%&*+.^_|~ :;,='\"`{}()-]{0,3}"),
			func(s *policyapi.RateLimitPolicySpec, text string) {
				s.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Cookie: &text}}
			},
			`{axis: User, limit: 1, window: 1m, identifier: {cookie: %s}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := apischema.New()
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				text := tc.text.Draw(t, "text")
				if len(text) > 16 && name == "windows" {
					return // the schema limits the length, the compiler does not
				}
				policy := policyapi.RateLimitPolicy{Spec: policyapi.RateLimitPolicySpec{Axis: policyapi.AxisUser, Limit: new(int64(1)), Window: "1m"}}
				policy.Namespace, policy.Name = "shop", "a"
				tc.set(&policy.Spec, text)
				_, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, compile.DefaultIdentity())

				file := "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: " +
					strings.Replace(tc.yaml, "%s", strconv.Quote(text), 1)
				objects, _, unread := parse(File{Name: "a.yaml", Content: []byte(file)}, newBounds())
				if len(objects) != 1 {
					t.Fatalf("%q is not one object: %v", file, unread)
				}
				var fieldErrors []string
				s.Admit(policyKind, objects[0].content, func(field, message string) { fieldErrors = append(fieldErrors, field+": "+message) })

				if (len(problems) == 0) != (len(fieldErrors) == 0) {
					t.Errorf("%q: the compiler reports %v, the schema reports %v", text, problems, fieldErrors)
				}
			})
		})
	}
}

// TestCompile_AgreesWithTheSchemaOnNumbers compares both validations for limits, bursts and costs, which depend on each other.
func TestCompile_AgreesWithTheSchemaOnNumbers(t *testing.T) {
	s, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	usual := rapid.Int64Range(1, 3) // small, so that drawn numbers are often adjacent
	number := rapid.OneOf(usual, usual, usual, rapid.SampledFrom([]int64{-1, 0, 121, 122, 1_000_000, 1_000_001, 1_000_000_000, 1_000_000_001}))
	optional := rapid.Custom(func(t *rapid.T) *int64 {
		if rapid.Bool().Draw(t, "absent") {
			return nil
		}
		return new(number.Draw(t, "number"))
	})
	rapid.Check(t, func(t *rapid.T) {
		policy := policyapi.RateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Namespace: "shop", Name: "a"}}
		policy.Spec = policyapi.RateLimitPolicySpec{
			Axis: policyapi.AxisUser, Limit: new(number.Draw(t, "limit")), Burst: optional.Draw(t, "burst"),
			Window: rapid.SampledFrom([]policyapi.Duration{"1s", "720h", "30d", "31d", "365d", "8760h", "366d", "999999h", "9999999h"}).Draw(t, "window"),
			Algorithm: rapid.SampledFrom([]policyapi.Algorithm{
				"FixedWindow", "SlidingWindowLog", "SlidingWindowCounter", "TokenBucket", "LeakyBucket",
			}).Draw(t, "algorithm"),
		}
		if rapid.Bool().Draw(t, "has a cost") {
			policy.Spec.Cost = &policyapi.Cost{Value: optional.Draw(t, "cost")}
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "tiers") {
			policy.Spec.Tiers = append(policy.Spec.Tiers, policyapi.Tier{
				Name: strconv.Itoa(i), When: policyapi.When{Groups: []policyapi.Group{"a"}},
				Limit: optional.Draw(t, "limit of the tier"), Burst: optional.Draw(t, "burst of the tier"), Unlimited: rapid.Bool().Draw(t, "unlimited"),
			})
		}
		_, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, compile.DefaultIdentity())
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.RateLimitPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: policyKind},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: policy.Spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		var fieldErrors []string
		s.Admit(policyKind, content, func(field, message string) { fieldErrors = append(fieldErrors, field+": "+message) })
		if (len(problems) == 0) != (len(fieldErrors) == 0) {
			text, err := k8syaml.Marshal(policy.Spec) // the optional fields are pointers
			t.Errorf("the compiler reports %v, the schema reports %v, %v, for\n%s", problems, fieldErrors, err, text)
		}
	})
}
