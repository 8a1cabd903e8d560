package policydiff

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
)

// The formats of a Diff.
const (
	Text     = "text"
	JSON     = "json"
	Markdown = "markdown"
)

// Formats returns the formats of a Diff.
func Formats() []string { return []string{Text, JSON, Markdown} }

// Write writes the diff in a format.
func (d *Diff) Write(w io.Writer, format string) error {
	switch format {
	case JSON:
		_, err := explain.PrintObject(w, explain.JSON, d)
		return err
	case Markdown:
		return d.markdown(w)
	default:
		return d.text(w)
	}
}

// Summary returns, for example, "2 policies differ: 1 stricter, 1 gone (looser)".
func (d *Diff) Summary() string {
	all := d.all()
	limiters, policies := all[:len(d.Limiters)], all[len(d.Limiters):]
	switch {
	case len(policies) == 0 && len(limiters) == 0:
		return "The policies are the same."
	case len(policies) == 0:
		return "The policies are the same. " + count(limiters, "Limiter", "Limiters")
	case len(limiters) == 0:
		return count(policies, "policy", "policies")
	default:
		return count(policies, "policy", "policies") + " " + count(limiters, "Limiter", "Limiters")
	}
}

// count returns, for example, "2 policies differ: 1 stricter, 1 gone (looser).".
func count(changes []*PolicyChange, one, several string) string {
	counts := map[string]int{}
	var order []string
	for _, c := range changes {
		label := c.label()
		if counts[label] == 0 {
			order = append(order, label)
		}
		counts[label]++
	}
	parts := make([]string, len(order))
	for i, label := range order {
		parts[i] = fmt.Sprintf("%d %s", counts[label], label)
	}
	verb := "differ"
	if len(changes) == 1 {
		verb = "differs"
	}
	return cli.Count(len(changes), one, several) + " " + verb + ": " + strings.Join(parts, ", ") + "."
}

// label returns what happens to a policy: "stricter", or "new (stricter)".
func (c *PolicyChange) label() string {
	effect := map[Effect]string{Stricter: "stricter", Looser: "looser", Different: "different", Same: "the same"}[c.Effect]
	if c.Kind == Edited {
		return effect
	}
	return fmt.Sprintf("%s (%s)", c.Kind, effect)
}

// all returns the changes of the Limiters, which apply to all policies, and those of the policies.
func (d *Diff) all() []*PolicyChange {
	all := make([]*PolicyChange, 0, len(d.Limiters)+len(d.Policies))
	for i := range d.Limiters {
		all = append(all, d.Limiters[i].asPolicy())
	}
	for i := range d.Policies {
		all = append(all, &d.Policies[i])
	}
	return all
}

func (d *Diff) text(w io.Writer) error {
	all := d.all()
	for _, c := range all {
		terminal.Println(w, c.label()+": "+c.title())
		for j := range c.Changes {
			terminal.Println(w, "  "+c.Changes[j].text())
		}
		for _, notice := range c.Notices {
			terminal.Println(w, "  "+notice)
		}
	}
	if len(all) > 0 {
		terminal.Println(w)
	}
	_, err := terminal.Println(w, d.Summary())
	return err
}

// title returns the name of a policy, its place, and the summary.
func (c *PolicyChange) title() string {
	text := c.Policy
	if c.Was != "" {
		text = c.Was + " is now " + c.Policy
	}
	if c.File != "" {
		text += fmt.Sprintf(" (%s:%d)", c.File, c.Line)
	}
	if c.Summary != "" {
		text += ": " + c.Summary
	}
	return text
}

func (c *Change) text() string {
	text := c.Field + ": " + c.values(func(s string) string { return s })
	if c.Why != "" {
		text += "; " + c.Why
	}
	if c.Effect != Same {
		text += " [" + string(c.Effect) + "]"
	}
	return text
}

// values returns the two values, or what is added or removed.
func (c *Change) values(quote func(string) string) string {
	switch {
	case c.From == "":
		return "added " + quote(c.To)
	case c.To == "":
		return "removed " + quote(c.From)
	case strings.HasPrefix(c.From, "[") && strings.HasPrefix(c.To, "[") && !strings.HasSuffix(c.Field, "(order)"):
		return "removed " + quote(c.From) + ", added " + quote(c.To)
	default:
		return quote(c.From) + " → " + quote(c.To)
	}
}

// maxMarkdown bounds a comment, in bytes: GitHub accepts 65 536 characters, and GitLab a million.
const maxMarkdown = 60_000

// markdown writes a comment for a merge request.
func (d *Diff) markdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("### Rate limits\n\n" + d.Summary() + "\n")
	all := d.all()
	if len(all) > 0 {
		b.WriteString("\n| effect | policy | change |\n|---|---|---|\n")
	}
	for i, c := range all {
		row := c.row()
		if b.Len()+len(row) > maxMarkdown {
			b.WriteString("\nand " + strconv.Itoa(len(all)-i) + " more; weir diff lists them\n")
			break
		}
		b.WriteString(row)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *PolicyChange) row() string {
	icon := map[Effect]string{Stricter: "🔺", Looser: "🔻", Different: "🔀", Same: "▫️"}[c.Effect]
	name := code(c.Policy)
	if c.Was != "" {
		name = code(c.Was) + " is now " + name
	}
	var lines []string
	if c.Summary != "" {
		lines = append(lines, plain(c.Summary))
	}
	for i := range c.Changes {
		line := code(c.Changes[i].Field) + ": " + c.Changes[i].values(code)
		if c.Changes[i].Why != "" {
			line += "; " + plain(c.Changes[i].Why)
		}
		lines = append(lines, line)
	}
	for _, notice := range c.Notices {
		lines = append(lines, plain(notice))
	}
	return fmt.Sprintf("| %s %s | %s | %s |\n", icon, c.label(), name, strings.Join(lines, "<br>"))
}

// maxCode bounds a value in a table, in bytes.
const maxCode = 300

// marks are the characters that a table or Markdown gives a meaning.
const marks = "`|\\*_[]()<>!#~$@:&"

// code returns a text as code in a cell of a table. Backticks and backslashes have no notation there, so that HTML has them.
func code(text string) string {
	text = strings.ReplaceAll(terminal.Line(terminal.Shorten(text, maxCode)), "\n", " ")
	if !strings.ContainsAny(text, "`\\") {
		return "`" + strings.ReplaceAll(text, "|", "\\|") + "`"
	}
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(marks, r) {
			b.WriteString("&#" + strconv.Itoa(int(r)) + ";")
		} else {
			b.WriteRune(r)
		}
	}
	return "<code>" + b.String() + "</code>"
}

// plain returns a text in a cell of a table, without markup.
func plain(text string) string {
	escapes := []string{"\\", "&#92;", "&", "&amp;", "|", "\\|", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "'", "[", "\\[", "@", "@\u200b"}
	return strings.NewReplacer(escapes...).Replace(terminal.Line(text))
}
