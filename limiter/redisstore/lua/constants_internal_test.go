package lua

import "testing"

func TestInlineConstants(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"a number":                           {"local MOST = 7 -- units\nreturn MOST", "return 7"},
		"several":                            {"local ONE, IS_ONE = 1, true\nif IS_ONE then return ONE end", "if true then return 1 end"},
		"a negative number":                  {"local NEVER = -9\nreturn 1 -NEVER", "return 1 -(-9)"},
		"an expression of other constants":   {"local WIDTH = 7\nlocal HEAD = 1 + 4 * WIDTH\nreturn 2 * HEAD", "return 2 * (1 + 4 * 7)"},
		"a string, with a sign in it":        {"local FORMAT = '>I7-'\npack(FORMAT)", "pack('>I7-')"},
		"the same declaration twice":         {"local MOST = 7\nreturn MOST\nlocal MOST = 8\nreturn MOST", "return 7\nreturn 8"},
		"names in strings and comments":      {"local MOST = 7\nreturn 'MOST' -- MOST", "return 'MOST' -- MOST"},
		"a part of a name":                   {"local MOST = 7\nreturn MOST_UNITS, the_MOST", "return MOST_UNITS, the_MOST"},
		"not a constant: a call":             {"local MOST = size()\nreturn MOST", "local MOST = size()\nreturn MOST"},
		"not a constant: one of two":         {"local MOST, KEYS = 7, {}\nreturn MOST", "local MOST, KEYS = 7, {}\nreturn MOST"},
		"not a constant: fewer values":       {"local MOST, LEAST = 7\nreturn MOST", "local MOST, LEAST = 7\nreturn MOST"},
		"not a constant: small letters":      {"local most = 7\nreturn most", "local most = 7\nreturn most"},
		"not a constant: within a function":  {"  local MOST = 7\n  return MOST", "  local MOST = 7\n  return MOST"},
		"not a constant: an unknown operand": {"local MOST = 2 * size\nreturn MOST", "local MOST = 2 * size\nreturn MOST"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inlineConstants(c.script); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func BenchmarkInlineConstants(b *testing.B) {
	for b.Loop() {
		newSpendScript("spend", declaredKeys)
	}
}
