package cli

import "fmt"

// Count returns, for example, "1 policy" or "2 policies".
func Count(n int, singular, plural string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", n, plural)
}
