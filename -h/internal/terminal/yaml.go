package terminal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// MarshalYAML returns v as YAML without characters that are not printable. The encoder escapes only those that YAML does not allow, and reads JSON as
// YAML, which replaces U+0085 in a text by a space.
func MarshalYAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return yamlOf(separators.ReplaceAllStringFunc(string(text), func(escape string) string {
		switch escape {
		case `\u2028`:
			return "\u2028"
		case `\u2029`:
			return "\u2029"
		default:
			return escape
		}
	}))
}

// separators are the escape sequences of JSON, of which json.Marshal uses two for characters that YAML allows.
var separators = regexp.MustCompile(`\\(?:u202[89]|.)`)

// yamlOf converts JSON. For each character, it passes a number between two characters that the encoder always escapes, so that it encodes the text with
// quotation marks, and replaces the number by the escape sequence of the character.
func yamlOf(text string) ([]byte, error) {
	mark := 0
	for strings.Contains(text, "x01m"+strconv.Itoa(mark)) || strings.Contains(text, "0001m"+strconv.Itoa(mark)) {
		mark++
	}
	var marked strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r < ' ' {
			marked.WriteRune(r)
			continue
		}
		fmt.Fprintf(&marked, `\u0001m%dn%x\u0001`, mark, r)
	}
	out, err := yaml.JSONToYAML([]byte(marked.String()))
	if err != nil {
		return nil, err
	}
	passed := regexp.MustCompile(fmt.Sprintf(`\\x01m%dn([0-9a-f]+)\\x01`, mark))
	return passed.ReplaceAllFunc(out, func(found []byte) []byte {
		r, _ := strconv.ParseInt(string(passed.FindSubmatch(found)[1]), 16, 32) // never an error
		if r > 0xffff {
			return fmt.Appendf(nil, `\U%08x`, r)
		}
		return fmt.Appendf(nil, `\u%04x`, r)
	}), nil
}
