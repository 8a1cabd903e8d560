package policyname_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter/rules/policyname"
)

func TestSplit_ReturnsWhatJoinWasGiven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// A scope has no slash. A name can have one, and much else, in a file that is not valid yet.
		scope := rapid.OneOf(rapid.Just(policyname.Cluster), rapid.Just("cluster"), rapid.StringMatching(`[^/]*`)).Draw(t, "scope")
		name := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]*`), rapid.String()).Draw(t, "name")
		joined := policyname.Join(scope, name)
		if gotScope, gotName := policyname.Split(joined); gotScope != scope || gotName != name {
			t.Errorf("Split(%q) = %q, %q, want %q, %q", joined, gotScope, gotName, scope, name)
		}
	})
}

func TestSplit_OfTextWithoutScope(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "orders", policyname.Cluster} {
		if scope, name := policyname.Split(text); scope != text || name != "" {
			t.Errorf("Split(%q) = %q, %q", text, scope, name)
		}
	}
}
