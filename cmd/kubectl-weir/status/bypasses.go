package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
)

// Bypass lets an identifier, or all, pass a policy, or blocks it.
type Bypass struct {
	Limiter        string    `json:"limiter"` // NAMESPACE/NAME
	Name           string    `json:"name"`
	Policy         string    `json:"policy"`
	Blocks         bool      `json:"blocks,omitempty"`
	Identifier     string    `json:"identifier,omitempty"`
	AllIdentifiers bool      `json:"allIdentifiers,omitempty"`
	Reason         string    `json:"reason"`
	CreatedBy      string    `json:"createdBy"`
	ExpiresAt      time.Time `json:"expiresAt"`
}

// UnknownBypass is why the bypasses of a Limiter could not be read.
type UnknownBypass struct {
	Limiter string `json:"limiter"`
	Message string `json:"message"`
}

// SetBypasses sets the bypasses, in any order. The API server does not have them: limiters do.
func (r *Report) SetBypasses(list []Bypass, unknown []UnknownBypass) {
	slices.SortFunc(list, func(a, b Bypass) int { return cmp.Or(cmp.Compare(a.Limiter, b.Limiter), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(unknown, func(a, b UnknownBypass) int { return cmp.Compare(a.Limiter, b.Limiter) })
	r.Bypasses, r.BypassesUnknown = append([]Bypass{}, list...), unknown
}

func printBypasses(w io.Writer, r *Report, now time.Time) {
	for _, blocks := range []bool{false, true} {
		list := slices.DeleteFunc(slices.Clone(r.Bypasses), func(b Bypass) bool { return b.Blocks != blocks })
		header := "BYPASS"
		if blocks {
			header = "BLOCK"
		}
		if len(list) > 0 {
			terminal.Printf(w, "\n%s\tLIMITER\tPOLICY\tIDENTIFIER\tLEFT\tBY\tREASON\n", header)
		}
		for i := range list {
			b := &list[i]
			identifier := explain.Printable(b.Identifier)
			if b.AllIdentifiers {
				identifier = "(all)"
			}
			terminal.Printf(w, "%s\t%s\t%s\t%s\t%v\t%s\t%s\n", explain.Printable(b.Name), b.Limiter, explain.Printable(b.Policy), identifier,
				b.ExpiresAt.Sub(now).Round(time.Second), explain.Printable(b.CreatedBy), explain.Printable(b.Reason))
		}
	}
	if len(r.BypassesUnknown) > 0 {
		u := &r.BypassesUnknown[0]
		more := ""
		if n := len(r.BypassesUnknown) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		terminal.Printf(w, "\nBypasses: unknown of Limiter %s%s: %s\n", u.Limiter, more, message(u.Message, false))
	}
}
