package policy

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/fixture"
)

func only(policy v1alpha1.RateLimitPolicy) compile.Policies {
	return compile.Policies{Namespaced: []v1alpha1.RateLimitPolicy{policy}}
}

// warningsFor returns the warnings for policy, compiled together with others.
func warningsFor(t fixture.Failer, policy v1alpha1.RateLimitPolicy, others ...v1alpha1.RateLimitPolicy) []string {
	t.Helper()
	found := compileWith(only(policy), compile.Policies{Namespaced: others}, compile.DefaultIdentity())
	if len(found.problems) > 0 {
		t.Fatalf("problems: %v", found.problems)
	}
	for _, warning := range found.warnings {
		if utf8.RuneCountInString(warning) > warningLength {
			t.Fatalf("a warning has %d characters: %s", utf8.RuneCountInString(warning), warning)
		}
	}
	return found.warnings
}

func TestLimitWarnings_CountsTheOmittedWarnings(t *testing.T) {
	var tiers []string
	for i := range 12 {
		tiers = append(tiers, fmt.Sprintf("{name: tier-%d, when: {groups: [g]}, limit: 2}", i))
	}
	got := warningsFor(t, fixture.Policy(t, "a", "{axis: User, limit: 1, window: 1m, tiers: ["+strings.Join(tiers, ", ")+"]}"))
	if len(got) != warningCount || got[warningCount-1] != "and 4 more warnings" {
		t.Errorf("got warnings %q", got)
	}
}

func TestLimitWarnings_TruncatesLongWarnings(t *testing.T) {
	long := strings.Repeat("n", 63)
	got := warningsFor(t, fixture.Policy(t, "a", `{axis: User, limit: 10, window: 1m}`), fixture.Policy(t, long, `{axis: User, limit: 1, window: 1m}`))
	if len(got) != 1 || !strings.HasPrefix(got[0], "spec: has no effect, because policy "+long+" counts") {
		t.Errorf("got warnings %q", got)
	}
}
