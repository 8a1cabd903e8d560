package policy

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/warning"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

func only(policy v1alpha1.RateLimitPolicy) stored.Policies {
	return stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{policy})}
}

// warningsFor returns the warnings for policy, compiled together with others.
func warningsFor(t policytest.Failer, policy v1alpha1.RateLimitPolicy, others ...v1alpha1.RateLimitPolicy) []string {
	t.Helper()
	found := compileWith(only(policy), stored.Policies{Namespaced: stored.Pointers(others)}, compile.DefaultIdentity())
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
	got := warningsFor(t, policytest.Stored(t, "a", "{axis: User, limit: 1, window: 1m, tiers: ["+strings.Join(tiers, ", ")+"]}"))
	if len(got) != warningCount || got[warningCount-1] != "and 4 more warnings" {
		t.Errorf("got warnings %q", got)
	}
}

func TestLimitWarnings_TruncatesLongWarnings(t *testing.T) {
	long := strings.Repeat("n", 63)
	got := warningsFor(t, policytest.Stored(t, "a", `{axis: User, limit: 10, window: 1m}`), policytest.Stored(t, long, `{axis: User, limit: 1, window: 1m}`))
	if len(got) != 1 || !strings.HasPrefix(got[0], "spec: has no effect, because policy "+long+" counts") {
		t.Errorf("got warnings %q", got)
	}
}

func TestLimitWarnings_OmitsOnlyWhatExceedsTheLimit(t *testing.T) {
	for given, want := range map[int]struct {
		texts int
		last  string
	}{
		1: {1, "spec.limit: warning 1"},
		8: {8, "spec.limit: warning 8"},
		9: {8, "and 2 more warnings"},
	} {
		var warnings []warning.Warning
		for i := range given {
			warnings = append(warnings, warning.Warning{Field: "spec.limit", Message: fmt.Sprintf("warning %d", i+1)})
		}
		got := limitWarnings(warnings)
		if len(got) != want.texts || got[len(got)-1] != want.last {
			t.Errorf("%d warnings: %q, want %d with the last %q", given, got, want.texts, want.last)
		}
	}
}

func TestTruncate_KeepsTextsOf120Characters(t *testing.T) {
	fits := strings.Repeat("ä", 120)
	if got := truncate(fits); got != fits {
		t.Errorf("120 characters became %q", got)
	}
	if got, want := truncate(fits+"ä"), strings.Repeat("ä", 119)+"…"; got != want {
		t.Errorf("121 characters became %q, want 119 and an ellipsis", got)
	}
}
