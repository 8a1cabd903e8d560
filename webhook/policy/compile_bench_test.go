package policy

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// BenchmarkCompile measures the validation of one policy in a namespace with 1000 other policies, with and without a CEL expression in each
// policy.
func BenchmarkCompile(b *testing.B) {
	for name, spec := range map[string]string{
		"plain":       `{axis: User, limit: %d, window: 1m, match: {http: {paths: [{value: /v1/%[1]d}]}}}`,
		"expressions": `{axis: User, limit: %d, window: 1m, match: {http: {expression: 'request.path == "/v1/%[1]d"'}}}`,
	} {
		b.Run(name, func(b *testing.B) {
			var others []v1alpha1.RateLimitPolicy
			for i := range 1000 {
				others = append(others, policytest.Stored(b, fmt.Sprintf("p%d", i), fmt.Sprintf(spec, i+1)))
			}
			policy := policytest.Stored(b, "a", fmt.Sprintf(spec, 5000))
			for b.Loop() {
				compileWith(only(policy), stored.Policies{Namespaced: stored.Pointers(others)}, compile.DefaultIdentity())
			}
		})
	}
}
