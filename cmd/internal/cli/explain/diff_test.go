package explain

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

func all(_, _ *rules.Rule, _ string) bool { return false }

func TestDiffRules_NamesThePolicyAndTheField(t *testing.T) {
	before := []rules.Rule{
		{Policy: "shop/a", Units: 10, WindowSeconds: 60, Match: rules.Match{Hosts: []string{"a.example"}}},
		{Policy: "shop/b", Tiers: []rules.Tier{{Name: "paid", Units: 5}, {Name: "staff", Unlimited: true}}},
		{Policy: "shop/c"},
		{Policy: "shop/same", Units: 1},
	}
	after := []rules.Rule{
		{Policy: "shop/a", Units: 20, WindowSeconds: 60, Match: rules.Match{Hosts: []string{"a.example", "b.example"}, Methods: []string{"GET"}}},
		{Policy: "shop/b", Tiers: []rules.Tier{{Name: "paid", Units: 5}, {Name: "staff", Units: 7}}},
		{Policy: "shop/d"},
		{Policy: "shop/same", Units: 1},
	}
	want := []Difference{
		{"shop/a", Changed, "match.hosts", []any{"a.example"}, []any{"a.example", "b.example"}},
		{"shop/a", Changed, "match.methods", nil, []any{"GET"}},
		{"shop/a", Changed, "units", json.Number("10"), json.Number("20")},
		{"shop/b", Changed, "tiers[1].units", nil, json.Number("7")},
		{"shop/b", Changed, "tiers[1].unlimited", true, nil},
		{Policy: "shop/c", Change: Removed},
		{Policy: "shop/d", Change: Added},
	}
	if diff := cmp.Diff(want, DiffRules(before, after, all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if same := DiffRules(before, slices.Clone(before), all); len(same) > 0 {
		t.Errorf("the same rules differ: %+v", same)
	}
	if some := DiffRules(before[:1], after[:1], func(a, b *rules.Rule, field string) bool { return a.Units == 10 && b.Units == 20 && field != "units" }); len(some) != 1 {
		t.Errorf("%+v, want only the field units", some)
	}
}

// A limiter can be compromised, and names could control the terminal.
func TestPrintComparisons_EscapesNamesAndRevisions(t *testing.T) {
	comparison := []Comparison{{
		From: Side{Name: "published", Revision: "sha256:1"}, To: Side{Name: "enforced by a\n", Revision: "\x1b]0;owned\x07\x1b[2J"},
		Differences: []Difference{
			{Policy: "shop/a\x1b[31m\nshop/forged  -  present  absent", Change: Added}, {Policy: "shop/b", Change: Changed, Field: "match.\x1b[2J", From: 1, To: 2},
		},
	}}
	for _, format := range []string{Table, Wide, Name} {
		var out bytes.Buffer
		if err := PrintComparisons(&out, format, comparison); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\x07") || strings.Contains(out.String(), "\nshop/forged") || strings.Contains(out.String(), "a\n  ") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}

func TestPrintComparisons_PrintsEachFormat(t *testing.T) {
	comparison := []Comparison{{
		From: Side{"published", "sha256:1"}, To: Side{"enforced by x", "sha256:2"},
		Differences: []Difference{
			{"shop/a", Changed, "match.expression", nil, strings.Repeat("e", 80) + "\u009b"}, {Policy: "shop/b", Change: Added}, {"shop/a", Changed, "units", 1, 2},
		},
	}, {From: Side{Name: "published"}, To: Side{Name: "enforced by y"}}}
	printed := func(format string) string {
		var out bytes.Buffer
		if err := PrintComparisons(&out, format, comparison); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const want = `--- published  sha256:1
+++ enforced by x  sha256:2
POLICY  FIELD             FROM    TO
shop/a  match.expression  absent  "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee…
shop/b  -                 absent  present
shop/a  units             1       2
--- published
+++ enforced by y
The rules are equal: only facts about namespaces, or the order of policies by age, differ.
`
	if diff := cmp.Diff(want, printed(Table)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := printed(Wide); !strings.Contains(got, strings.Repeat("e", 80)+"\ufffd") || strings.Contains(got, "\u009b") {
		t.Error(got)
	}
	if got := printed(Name); got != "shop/a\nshop/b\n" {
		t.Errorf("%q", got)
	}
	var decoded []Comparison
	if err := json.Unmarshal([]byte(printed(JSON)), &decoded); err != nil || len(decoded) != 2 || len(decoded[0].Differences) != 3 {
		t.Errorf("%v: %+v", err, decoded)
	}
}
