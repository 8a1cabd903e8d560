package explain

import (
	"io"

	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Identifier returns an identifier as it is counted in the form that commands accept as an argument.
func Identifier(counted string, isHashed bool) string {
	if !isHashed {
		return counted
	}
	at := max(0, len(counted)-limiter.HashLength) // behind the prefix of its source
	return counted[:at] + rules.HashPrefix + counted[at:]
}

// PrintNames prints each name once, in the order of names.
func PrintNames(w io.Writer, names []string) error {
	printed := map[string]bool{}
	for _, name := range names {
		if printed[name] {
			continue
		}
		printed[name] = true
		if _, err := terminal.Println(w, Printable(name)); err != nil {
			return err
		}
	}
	return nil
}
