package explain

import (
	"cmp"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
)

// PrintCounters prints counters as a table, or with the format Name their identifiers.
func PrintCounters(w io.Writer, format string, counters []admin.Counter) error {
	if format == Name {
		var names []string
		for i := range counters {
			names = append(names, Identifier(counters[i].Identifier, counters[i].Hashed))
		}
		return PrintNames(w, names)
	}
	wide := format == Wide
	columns := []string{"POLICY", "IDENTIFIER", "ENDPOINT", "TIER", "LIMIT", "USED", "REMAINING", "RESET", "SOURCE"}
	if wide {
		columns = append(columns, "ALGORITHM", "KEY")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	terminal.Row(table, columns...)
	for i := range counters {
		c := &counters[i]
		source := "store"
		if c.Local {
			source = "local share"
		}
		tier, limit, remaining := c.Tier, describeLimit(c.Limit, c.Window), strconv.FormatInt(c.Remaining, 10)
		if len(c.Tiers) > 0 {
			tier, limit, remaining = eachTier(c)
		}
		cells := []string{
			c.Policy, Printable(Identifier(c.Identifier, c.Hashed)), Printable(c.Endpoint), tier, limit,
			strconv.FormatInt(c.Used, 10), remaining, ms(c.ResetAfterMs).String(), source,
		}
		if wide {
			cells = append(cells, string(c.Algorithm), c.Key)
		}
		for j, cell := range cells {
			if cell == "" {
				cells[j] = "-"
			}
		}
		terminal.Row(table, cells...)
	}
	return table.Flush()
}

// eachTier describes a counter under each tier that its requests can belong to.
func eachTier(c *admin.Counter) (tiers, limits, remaining string) {
	var names, sizes, left []string
	for _, t := range c.Tiers {
		names = append(names, cmp.Or(t.Tier, "no tier"))
		if t.Unlimited {
			sizes, left = append(sizes, "unlimited"), append(left, "unlimited")
			continue
		}
		sizes, left = append(sizes, describeLimit(t.Limit, c.Window)), append(left, strconv.FormatInt(t.Remaining, 10))
	}
	return strings.Join(names, " or "), strings.Join(sizes, " or "), strings.Join(left, " or ")
}
