package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/rules"
)

// The values of Difference.Change.
const (
	Added   = "added"   // only the second rule set has the policy
	Removed = "removed" // only the first rule set has the policy
	Changed = "changed"
)

// Difference is a policy that differs between two rule sets, or one of its fields.
type Difference struct {
	Policy string `json:"policy"`
	Change string `json:"change"`
	// Field of the compiled policy, for example "match.hosts". It is empty if only one rule set has the policy.
	Field string `json:"field,omitempty"`
	// From and To are the values in the two rule sets, nil if the field is absent.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
}

// Comparison is the result of comparing two rule sets.
type Comparison struct {
	From        Side         `json:"from"`
	To          Side         `json:"to"`
	Differences []Difference `json:"differences"`
}

// Side is one of the two rule sets.
type Side struct {
	Name     string `json:"name"`
	Revision string `json:"revision,omitempty"`
}

// DiffRules returns the differences between two rule sets, which are sorted by policy. It leaves out the fields that ignore selects.
func DiffRules(older, newer []rules.Rule, ignore func(a, b *rules.Rule, field string) bool) []Difference {
	differences := []Difference{}
	for len(older) > 0 || len(newer) > 0 {
		switch order := compareFirst(older, newer); {
		case order < 0:
			differences = append(differences, Difference{Policy: older[0].Policy, Change: Removed})
			older = older[1:]
		case order > 0:
			differences = append(differences, Difference{Policy: newer[0].Policy, Change: Added})
			newer = newer[1:]
		default:
			a, b := &older[0], &newer[0]
			diffValues("", plain(a), plain(b), func(field string, x, y any) {
				if !ignore(a, b, field) {
					differences = append(differences, Difference{a.Policy, Changed, field, x, y})
				}
			})
			older, newer = older[1:], newer[1:]
		}
	}
	return differences
}

func compareFirst(older, newer []rules.Rule) int {
	switch {
	case len(older) == 0:
		return 1
	case len(newer) == 0:
		return -1
	default:
		return strings.Compare(older[0].Policy, newer[0].Policy)
	}
}

// plain returns a rule as JSON has it: objects are maps.
func plain(rule *rules.Rule) any {
	text, err := json.Marshal(rule)
	if err != nil {
		panic(fmt.Sprintf("explain: encode rule %s: %v", rule.Policy, err)) // strings and integers
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		panic(fmt.Sprintf("explain: decode rule %s: %v", rule.Policy, err))
	}
	return out
}

// diffValues reports the innermost fields that differ. Lists of different lengths are one field.
func diffValues(field string, a, b any, report func(field string, a, b any)) {
	x, isMap := a.(map[string]any)
	if y, both := b.(map[string]any); isMap && both {
		names := map[string]bool{}
		for name := range x {
			names[name] = true
		}
		for name := range y {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			diffValues(strings.TrimPrefix(field+"."+name, "."), x[name], y[name], report)
		}
		return
	}
	list, isList := a.([]any)
	if other, both := b.([]any); isList && both && len(list) == len(other) {
		for i := range list {
			diffValues(fmt.Sprintf("%s[%d]", field, i), list[i], other[i], report)
		}
		return
	}
	if !reflect.DeepEqual(a, b) {
		report(field, a, b)
	}
}

// valueLength is the length of a value in a table, in characters. The format wide prints whole values.
const valueLength = 60

// PrintComparisons prints comparisons in one of the formats. Name prints the policies that differ.
func PrintComparisons(w io.Writer, format string, comparisons []Comparison) error {
	if printed, err := PrintObject(w, format, comparisons); printed || err != nil {
		return err
	}
	if format == Name {
		return PrintNames(w, differentPolicies(comparisons))
	}
	for i := range comparisons {
		c := &comparisons[i]
		terminal.Printf(w, "--- %s\n+++ %s\n", c.From.describe(), c.To.describe())
		if len(c.Differences) == 0 {
			terminal.Println(w, "The rules are equal: only facts about namespaces, or the order of policies by age, differ.")
			continue
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		terminal.Printf(table, "POLICY\tFIELD\tFROM\tTO\n")
		for j := range c.Differences {
			d := &c.Differences[j]
			policy := Printable(d.Policy)
			cells := []string{policy, Printable(d.Field), describeValue(d.From, format == Wide), describeValue(d.To, format == Wide)}
			switch d.Change {
			case Added:
				cells = []string{policy, "-", "absent", "present"}
			case Removed:
				cells = []string{policy, "-", "present", "absent"}
			}
			terminal.Row(table, cells...)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func differentPolicies(comparisons []Comparison) (names []string) {
	for i := range comparisons {
		for j := range comparisons[i].Differences {
			names = append(names, comparisons[i].Differences[j].Policy)
		}
	}
	slices.Sort(names)
	return names
}

func (s *Side) describe() string {
	if s.Revision == "" {
		return Printable(s.Name)
	}
	return Printable(s.Name) + "  " + Printable(s.Revision)
}

// describeValue returns a value as JSON.
func describeValue(v any, whole bool) string {
	if v == nil {
		return "absent"
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err.Error()
	}
	line := []rune(strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) { // a limiter can be compromised, and values could control the terminal
			return unicode.ReplacementChar
		}
		return r
	}, strings.TrimSpace(text.String())))
	if !whole && len(line) > valueLength {
		return string(line[:valueLength-1]) + "…"
	}
	return string(line)
}
