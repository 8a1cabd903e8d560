package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
)

// Formats of Print.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name" // one name per line, only of commands that print a list
)

// Formats returns the formats of Print.
func Formats() []string { return []string{Table, Wide, JSON, YAML} }

// ListFormats returns the formats of commands that print a list.
func ListFormats() []string { return append(Formats(), Name) }

// PrintObject prints v as JSON or YAML. It reports false for the formats that are tables.
func PrintObject(w io.Writer, format string, v any) (printed bool, err error) {
	switch format {
	case JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return true, encoder.Encode(v)
	case YAML:
		text, err := terminal.MarshalYAML(v)
		if err == nil {
			_, err = w.Write(text)
		}
		return true, err
	default:
		return false, nil
	}
}

// Print prints an explanation in one of the formats.
func Print(w io.Writer, format string, x *admin.Explanation) error {
	if printed, err := PrintObject(w, format, x); printed || err != nil {
		return err
	}
	terminal.Println(w, Verdict(x))
	terminal.Println(w)
	columns := []string{"POLICY", "OUTCOME", "IDENTIFIER", "TIER", "COST", "LIMIT", "USED", "REMAINING", "REASON"}
	if format == Wide {
		columns = slices.Insert(columns, len(columns)-1, "FROM", "ALGORITHM", "RESET", "KEY")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	terminal.Row(table, columns...)
	for _, counted := range []bool{true, false} { // what counts the request comes first
		for i := range x.Policies {
			if p := &x.Policies[i]; (p.Charge != nil) == counted {
				terminal.Row(table, row(p, format == Wide)...)
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if x.OtherPolicies > 0 {
		terminal.Printf(w, "\nPolicies for other domains, which are not listed: %d. --all lists them.\n", x.OtherPolicies)
	}
	_, err := terminal.Printf(w, "\nRevision: %s\n", x.Revision)
	return err
}

// Verdict returns the answer in one sentence.
func Verdict(x *admin.Explanation) string {
	a := &x.Answer
	switch {
	case x.Exempt:
		return "Allowed: no policy limits this write. The outcomes below are those that it would have otherwise."
	case x.RefusedBy != "":
		return "Rejected with an error by " + x.RefusedBy + ": Redis is unavailable, and the policy has onStoreFailure: Deny."
	case a.Allowed && a.Policy == "":
		return "Allowed: no enforced policy limits the request."
	case a.Allowed && a.DelayMs > 0:
		return fmt.Sprintf("Allowed after a delay of %v. %s has the fewest units left in relation to its limit.", ms(a.DelayMs), a.Policy)
	case a.Allowed:
		return "Allowed. " + a.Policy + " has the fewest units left in relation to its limit."
	case a.RetryAfterMs == nil:
		return "Denied by " + a.Policy + ". No retry can succeed: " + reasonOf(x) + "."
	case a.Source == "cache":
		return fmt.Sprintf("Denied by %s, from the known denials of the replica. Retry after %v.", a.Policy, ms(*a.RetryAfterMs))
	default:
		return fmt.Sprintf("Denied by %s. Retry after %v.", a.Policy, ms(*a.RetryAfterMs))
	}
}

// reasonOf returns why the policy that decides denies the request.
func reasonOf(x *admin.Explanation) string {
	for i := range x.Policies {
		if p := &x.Policies[i]; p.Policy == x.Answer.Policy && p.Reason != "" {
			reason, _, _ := strings.Cut(p.Reason, ";")
			return reason
		}
	}
	return "the cost is above the limit"
}

func ms(n int64) time.Duration { return admin.RoundUp(time.Duration(n) * time.Millisecond) }

func row(p *admin.Policy, wide bool) []string {
	name, outcome := p.Policy, string(p.Outcome)
	if p.Shadow {
		name += " (Shadow)"
	}
	c := p.Charge
	if c == nil {
		c = &admin.Charge{}
	}
	limit, cost, reset := "", "", ""
	if c.Limit > 0 {
		limit, cost = describeLimit(c.Limit, c.Window), strconv.FormatInt(c.Cost, 10)
	}
	if c.ResetAfterMs > 0 {
		reset = ms(c.ResetAfterMs).String()
	}
	cells := []string{name, outcome, Printable(Identifier(c.Identifier, c.Hashed)), c.Tier, cost, limit, number(c.Used), number(c.Remaining)}
	if wide {
		cells = append(cells, c.From, string(c.Algorithm), reset, c.Key)
	}
	cells = append(cells, p.Reason)
	for i, cell := range cells[:len(cells)-1] {
		if cell == "" {
			cells[i] = "-"
		}
	}
	return cells
}

func number(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// Printable quotes a text that a client has chosen, if a terminal or the table could misread it.
func Printable(text string) string {
	quoted := strconv.Quote(text)
	if quoted == `"`+text+`"` {
		return text
	}
	return quoted
}
