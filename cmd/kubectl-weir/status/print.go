package status

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
)

// Bounds of the table format. The format wide does not have them.
const (
	listedPolicies = 10
	messageLength  = 100 // characters
	revisionLength = 12  // hexadecimal digits
)

// Print prints a report in one of the formats of package explain.
func Print(w io.Writer, format string, r *Report) error {
	if printed, err := explain.PrintObject(w, format, r); printed || err != nil {
		return err
	}
	wide := format == explain.Wide
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	printInstallation(table, r)
	if !isUnread(r.Unread, limiterResource) {
		printLimiters(table, r.Limiters, wide)
	}
	if !isUnread(r.Unread, policyResource) || r.Policies.Total > 0 {
		printPolicies(table, &r.Policies, wide)
	}
	printBypasses(table, r, time.Now())
	if err := table.Flush(); err != nil {
		return err
	}
	printProblems(w, r, wide)
	return nil
}

func printInstallation(w io.Writer, r *Report) {
	if o := r.Operator; o != nil {
		terminal.Printf(w, "Operator:\t%s/%s, %s ready, version %s\n", o.Namespace, o.Name, o.Replicas, orDash(o.Version))
	}
	for _, hook := range r.Webhooks {
		state := "not registered"
		if hook.Registered {
			state = fmt.Sprintf("registered, webhooks: %d", hook.Webhooks)
		}
		if hook.CAExpires != nil {
			state += ", CA expires " + hook.CAExpires.Format(time.DateOnly)
		}
		terminal.Printf(w, "Webhook:\t%s, %s\n", hook.Name, state)
	}
	if r.Operator != nil || len(r.Webhooks) > 0 {
		terminal.Println(w)
	}
}

func printLimiters(w io.Writer, list []Limiter, wide bool) {
	if len(list) == 0 {
		terminal.Println(w, "No Limiters.")
		return
	}
	columns := []string{"LIMITER", "READY", "REASON", "REPLICAS", "VERSION", "ENFORCING", "REVISION", "REDIS"}
	if wide {
		columns = append(columns, "THROTTLE", "IMAGE")
	}
	terminal.Row(w, columns...)
	for i := range list {
		l := &list[i]
		revision := strings.TrimPrefix(l.Revision, "sha256:")
		if !wide {
			revision = revision[:min(len(revision), revisionLength)]
		}
		cells := []string{
			l.Namespace + "/" + l.Name, yesNo(l.Ready), orDash(l.Reason), l.Replicas.String(), orDash(shortDigest(l.Version)), strconv.Itoa(int(l.Enforcing)),
			orDash(revision), l.Redis,
		}
		if wide {
			cells = append(cells, orDash(l.ThrottleRegistered), orDash(l.Image))
		}
		terminal.Row(w, cells...)
	}
	printCertificates(w, list)
}

// printCertificates lists the certificates of Limiters, if there are any.
func printCertificates(w io.Writer, list []Limiter) {
	isFirst := true
	for i := range list {
		for _, c := range list[i].Certificates {
			if isFirst {
				terminal.Printf(w, "\nLIMITER\tCERTIFICATE\tSECRET\tEXPIRES\n")
			}
			isFirst = false
			terminal.Printf(w, "%s/%s\t%s\t%s\t%s\n", list[i].Namespace, list[i].Name, c.Use, c.Secret, c.NotAfter.UTC().Format(time.DateOnly))
		}
	}
}

func printPolicies(w io.Writer, p *Policies, wide bool) {
	terminal.Printf(w, "\nPolicies: %d, %d ready, %d degraded, %d overridden, %d enforced\n", p.Total, p.Ready, p.Degraded, p.Overridden, p.Enforced)
	if len(p.NotReady) > 0 {
		var counts []string
		for _, c := range p.NotReady {
			counts = append(counts, fmt.Sprintf("%d %s", c.Count, orDash(c.Reason)))
		}
		terminal.Printf(w, "Not ready: %s\n", strings.Join(counts, ", "))
	}
	for _, group := range p.NotEnforced {
		named := group.Policies
		if !wide {
			named = named[:min(len(named), namedPolicies)]
		}
		list := strings.Join(named, ", ")
		if more := len(group.Policies) - len(named); more > 0 {
			list += fmt.Sprintf(" and %d more, which -o wide lists", more)
		}
		terminal.Printf(w, "Ready, not enforced: %d %s: %s\n", len(group.Policies), orDash(group.Reason), list)
	}
	if len(p.List) == 0 {
		return
	}
	terminal.Printf(w, "\nPOLICY\tREADY\tREASON\tENFORCED\tMESSAGE\n")
	for i := range p.List {
		if i == listedPolicies && !wide {
			terminal.Printf(w, "%d more, which -o wide lists\t\t\t\t\n", len(p.List)-i)
			break
		}
		one := &p.List[i]
		terminal.Printf(w, "%s\t%s\t%s\t%s\t%s\n", one.Policy, yesNo(one.Ready), orDash(one.Reason), one.Enforced, message(one.Message, wide))
	}
}

func printProblems(w io.Writer, r *Report, wide bool) {
	terminal.Println(w)
	for i := range r.Problems {
		p := &r.Problems[i]
		reason := ""
		if p.Reason != "" {
			reason = p.Reason + ": "
		}
		terminal.Printf(w, "Problem %d: %s\n  %s%s\n  do: %s\n  runbook: %s\n", i+1, p.Object, reason, message(p.Message, wide), p.Do, p.Runbook)
	}
	for _, u := range r.Unread {
		terminal.Printf(w, "Cannot read %s: the user lacks the permission to %s\n", u.Resource, u.Permission)
	}
	if len(r.Unread) > 0 {
		do := "bind the ClusterRole weir-observer with a ClusterRoleBinding, or select a namespace with --namespace"
		if r.Namespace != "" {
			do = "bind the ClusterRole weir-observer in namespace " + r.Namespace
		}
		terminal.Println(w, "  do: "+do)
	}
	switch {
	case !r.Healthy:
	case r.Namespace == "":
		terminal.Println(w, "No problems.")
	case len(r.Limiters) == 0 && r.Policies.Total == 0:
		terminal.Printf(w, "Namespace %s has no Limiters and no RateLimitPolicies. The whole installation: kubectl weir status\n", r.Namespace)
	default:
		terminal.Printf(w, "No problems in namespace %s. ClusterRateLimitPolicies, webhooks and other namespaces: kubectl weir status\n", r.Namespace)
	}
}

func yesNo(ready bool) string {
	if ready {
		return "True"
	}
	return "False"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func shortDigest(version string) string {
	if digest, ok := strings.CutPrefix(version, "sha256:"); ok {
		return digest[:min(len(digest), revisionLength)]
	}
	return version
}

// message returns a text for one cell. Messages contain texts of others, such as errors of Redis, which could control a terminal.
func message(text string, whole bool) string {
	line := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	if !whole && len(line) > messageLength {
		return string(line[:messageLength]) + "…"
	}
	return string(line)
}
