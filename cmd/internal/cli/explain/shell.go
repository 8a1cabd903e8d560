package explain

import (
	"errors"
	"strings"
)

// shellWords splits a command into words, as a POSIX shell does: it removes quotes and backslashes. Browsers also write $'…'. It expands
// nothing.
func shellWords(command string) (words []string, err error) {
	var word strings.Builder
	begun := false
	end := func() {
		if begun {
			words = append(words, word.String())
			word.Reset()
			begun = false
		}
	}
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			end()
		case c == '\\':
			i++
			if i < len(command) && command[i] == '\r' {
				i++
			}
			if i < len(command) && command[i] != '\n' { // a backslash at the end of a line continues the command
				word.WriteByte(command[i])
				begun = true
			}
		case c == '\'' || c == '"':
			quoted, length, err := unquote(command[i+1:], c, c == '"')
			if err != nil {
				return nil, err
			}
			word.WriteString(quoted)
			begun, i = true, i+length
		case c == '$' && strings.HasPrefix(command[i+1:], "'"):
			quoted, length, err := unquote(command[i+2:], '\'', true)
			if err != nil {
				return nil, err
			}
			word.WriteString(quoted)
			begun, i = true, i+1+length
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return words, nil
}

// unquote returns the text before the closing quote, and the length of both.
func unquote(text string, quote byte, escapes bool) (unquoted string, length int, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return b.String(), i + 1, nil
		case escapes && text[i] == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(text[i])
		}
	}
	return "", 0, errors.New("a quote in the command is not closed")
}
