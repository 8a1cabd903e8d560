package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/reply"
)

// PrintRules prints a rule set in one of the formats.
func PrintRules(w io.Writer, format string, set *admin.RuleSet) error {
	if printed, err := PrintObject(w, format, set); printed || err != nil {
		return err
	}
	if format == Name {
		var names []string
		for i := range set.Rules {
			names = append(names, set.Rules[i].Policy)
		}
		return PrintNames(w, names)
	}
	columns := []string{"POLICY", "DOMAINS", "AXIS", "IDENTIFIER", "LIMIT", "ALGORITHM", "TIERS", "ENFORCEMENT"}
	if format == Wide {
		columns = append(columns, "REVISION", "KEYS")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	terminal.Row(table, columns...)
	for i := range set.Rules {
		rule := &set.Rules[i]
		domains := rule.Domain
		switch {
		case rule.AllDomains:
			domains = "all"
		case len(rule.Domains) > 0:
			domains = strings.Join(rule.Domains, ",")
		}
		enforcement := "Enforce"
		if rule.Shadow {
			enforcement = "Shadow"
		}
		cells := []string{
			rule.Policy, domains, rule.Axis, strings.TrimSpace(string(rule.Identifier.From) + " " + rule.Identifier.Name),
			describeLimit(rule.Units, (time.Duration(rule.WindowSeconds) * time.Second).String()), string(rule.Algorithm), strconv.Itoa(len(rule.Tiers)), enforcement,
		}
		if format == Wide {
			cells = append(cells, rule.Revision, rule.Keys)
		}
		terminal.Row(table, cells...)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := terminal.Printf(w, "\nRevision: %s\n", set.Revision)
	return err
}

// describeLimit returns "100 per 24h" for a window of "24h0m0s".
func describeLimit(units int64, window string) string {
	if d, err := time.ParseDuration(window); err == nil {
		window = reply.ShortDuration(d)
	}
	return fmt.Sprintf("%d per %s", units, window)
}
