package explain

import (
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/topk"
)

// maxTopPolicies is the number of policies that PrintTop lists.
const maxTopPolicies = 5

// PrintDenied prints the identifiers with the most denials, one per line.
func PrintDenied(w io.Writer, top *admin.Top) error {
	var names []string
	for _, e := range top.Denied.Identifiers {
		names = append(names, Identifier(e.Identifier, e.Hashed))
	}
	return PrintNames(w, names)
}

// PrintTop prints a top as tables.
func PrintTop(w io.Writer, top *admin.Top) error {
	var decisions, denied int64
	for _, e := range top.Endpoints {
		decisions += e.Decisions
	}
	for _, p := range top.Policies {
		if !p.Shadow {
			denied += p.Denied
		}
	}
	terminal.Printf(w, "Last %v: %d requests decided, %d denials by policies\n", time.Duration(top.Seconds)*time.Second, decisions, denied)
	tables := []func(w io.Writer){
		func(w io.Writer) { printEntries(w, "MOST DENIED", "DENIALS", &top.Denied) },
		func(w io.Writer) { printEntries(w, "BUSIEST", "ALLOWED", &top.Allowed) },
		func(w io.Writer) { printPolicies(w, top.Policies) },
		func(w io.Writer) { printSources(w, top.Sources) },
		func(w io.Writer) { printEndpoints(w, top.Endpoints) },
	}
	for _, fill := range tables {
		terminal.Println(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fill(table)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func printEntries(w io.Writer, title, column string, list *topk.List) {
	terminal.Printf(w, "%s\tPOLICY\t%s\tERROR\n", title, column)
	for _, e := range list.Identifiers {
		terminal.Printf(w, "%s\t%s\t%d\t%d\n", Printable(Identifier(e.Identifier, e.Hashed)), e.Policy, e.Requests, e.Error)
	}
}

func printPolicies(w io.Writer, list []admin.PolicyDecisions) {
	terminal.Printf(w, "POLICY\tDENIED\tALLOWED\tUNCHARGED\tUNLIMITED\tENFORCEMENT\n")
	for i, p := range list {
		if i == maxTopPolicies {
			terminal.Printf(w, "%d more\t\t\t\t\t\n", len(list)-i)
			break
		}
		enforcement := "Enforce"
		if p.Shadow {
			enforcement = "Shadow"
		}
		terminal.Printf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", p.Policy, p.Denied, p.Allowed, p.Uncharged, p.Unlimited, enforcement)
	}
}

func printSources(w io.Writer, list []admin.SourceDecisions) {
	var total int64
	for _, s := range list {
		total += s.Decisions
	}
	terminal.Printf(w, "SOURCE\tDECISIONS\tSHARE\n")
	for _, s := range list {
		terminal.Printf(w, "%s\t%d\t%.1f%%\n", s.Source, s.Decisions, 100*float64(s.Decisions)/float64(total))
	}
}

func printEndpoints(w io.Writer, list []admin.EndpointDecisions) {
	terminal.Row(w, "ENDPOINT", "DECISIONS", "P50", "P90", "P99")
	for _, e := range list {
		terminal.Printf(w, "%s\t%d\t%s\t%s\t%s\n", e.Endpoint, e.Decisions, millis(e.P50Ms), millis(e.P90Ms), millis(e.P99Ms))
	}
}

func millis(ms float64) string { return strconv.FormatFloat(ms, 'f', 2, 64) + "ms" }
