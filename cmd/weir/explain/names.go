package explain

import (
	"fmt"
	"io"
)

// PrintNames prints each name once, in the order of names.
func PrintNames(w io.Writer, names []string) error {
	printed := map[string]bool{}
	for _, name := range names {
		if printed[name] {
			continue
		}
		printed[name] = true
		if _, err := fmt.Fprintln(w, Printable(name)); err != nil {
			return err
		}
	}
	return nil
}
