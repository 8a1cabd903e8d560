package policyfile

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/internal/compile"
)

// TestTheCompilerAgreesWithTheSchema holds the two descriptions of the API together: what one text field may hold is
// said once in CEL for the API server and once in Go for objects that no API server has seen.
func TestTheCompilerAgreesWithTheSchema(t *testing.T) {
	for name, tc := range map[string]struct {
		text *rapid.Generator[string]
		set  func(*v1alpha1.RateLimitPolicySpec, string)
		yaml string // the spec with %s for the text in quotes
	}{
		"windows": {
			rapid.StringMatching(`[0-9]{0,3}[dhms]?[0-9]{0,7}[hms]?([0-9]{1,7}[ms])?`),
			func(s *v1alpha1.RateLimitPolicySpec, text string) { s.Window = v1alpha1.Window(text) },
			`{axis: IP, limit: 1, window: %s}`,
		},
		"hosts": {
			rapid.StringMatching(`(\*\.)?[a-c*:-]{1,3}(\.[a0-]{0,64}){0,2}`),
			func(s *v1alpha1.RateLimitPolicySpec, text string) {
				s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Hosts: []v1alpha1.Host{v1alpha1.Host(text)}}}
			},
			`{axis: IP, limit: 1, window: 1m, match: {http: {hosts: [%s]}}}`,
		},
		"paths": {
			rapid.StringMatching(`/?([a./?# *{}~%-]|%2[05eEfF]){0,8}`),
			func(s *v1alpha1.RateLimitPolicySpec, text string) {
				s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Paths: []v1alpha1.PathMatch{{Value: text}}}}
			},
			`{axis: IP, limit: 1, window: 1m, match: {http: {paths: [{value: %s}]}}}`,
		},
		"header names": {
			rapid.StringMatching("[aZ0!#$%&*+.^_|~ :/@'\"`{}()-]{0,3}"),
			func(s *v1alpha1.RateLimitPolicySpec, text string) {
				name := v1alpha1.HeaderName(text)
				s.Identifier = &v1alpha1.Identifier{Header: &name}
			},
			`{axis: User, limit: 1, window: 1m, identifier: {header: %s}}`,
		},
		"cookie names": {
			rapid.StringMatching("[aZ0!#$%&*+.^_|~ :;,='\"`{}()-]{0,3}"),
			func(s *v1alpha1.RateLimitPolicySpec, text string) { s.Identifier = &v1alpha1.Identifier{Cookie: &text} },
			`{axis: User, limit: 1, window: 1m, identifier: {cookie: %s}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newSchema(crd.RateLimitPolicies(), v1alpha1.GroupVersion.Version)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				text := tc.text.Draw(t, "text")
				if len(text) > 16 && name == "windows" {
					return // the schema bounds the length, the compiler has no need to
				}
				policy := v1alpha1.RateLimitPolicy{Spec: v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisUser, Limit: 1, Window: "1m"}}
				policy.Namespace, policy.Name = "shop", "a"
				tc.set(&policy.Spec, text)
				_, compiler := compile.Compile([]v1alpha1.RateLimitPolicy{policy}, compile.DefaultIdentity())

				file := "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: " +
					strings.Replace(tc.yaml, "%s", strconv.Quote(text), 1)
				objects, unread := parse(File{Name: "a.yaml", Content: []byte(file)})
				if len(objects) != 1 {
					t.Fatalf("%q is no object: %v", file, unread)
				}
				schema := s.admit(objects[0].content)

				if (len(compiler) == 0) != (len(schema) == 0) {
					t.Errorf("%q: the compiler says %v, the schema %v", text, compiler, schema)
				}
			})
		})
	}
}
