// Package logtext has what the parsers of access logs and their messages share: digits, and quoted parts of a line.
package logtext

import (
	"fmt"
	"strings"
)

// IsDigit reports whether a byte is a decimal digit of ASCII.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// Quote returns text for a message, in quotes and shortened to 60 bytes.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:most], ""))
	}
	return fmt.Sprintf("%q", text)
}
