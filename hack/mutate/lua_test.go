package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// changesOf returns the lines of a script with each mutation, as "rule: line".
func changesOf(t *testing.T, source string) []string {
	t.Helper()
	mutants, err := mutateLua(source)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range mutants {
		m.show([]byte(source))
		lines = append(lines, m.Rule+": "+m.After)
	}
	slices.Sort(lines)
	return lines
}

func TestMutateLua_ChangesOneTokenOrStatement(t *testing.T) {
	for source, want := range map[string][]string{
		"local x = a + b":          {"arithmetic: local x = a - b"},
		"local x = a % b":          {"arithmetic: local x = a * b"},
		"local x = -a":             {"drop minus: local x = a"},
		"local x = f(a) - a":       {"arithmetic: local x = f(a) + a"},
		"local x = a < b":          {"boundary: local x = a <= b", "comparison: local x = a >= b"},
		"local x = a >= b":         {"boundary: local x = a > b", "comparison: local x = a < b"},
		"local x = a ~= b":         {"comparison: local x = a == b"},
		"local x = a and not b":    {"logic: local x = a and b", "logic: local x = a or not b"},
		"local x = 10":             {"constant: local x = 11", "constant: local x = 9"},
		"local x = 0":              {"constant: local x = 1"},
		"local x = KEYS[1]":        {"constant: local x = KEYS[2]"},
		"local x = 0.5":            nil,
		"local x = max(a, b)":      {"function: local x = min(a, b)"},
		"local x = math.floor(a)":  {"function: local x = math.ceil(a)"},
		"local x = entry.min(a)":   nil,
		"local x = true":           {"constant: local x = false"},
		"local x = 'a - b < 1'":    nil,
		`local x = "it's \" 1"`:    nil,
		"local x = a -- b + 1":     nil,
		"local x = a .. 'b'":       nil,
		"x = a":                    {"drop statement: (dropped)"},
		"call('DEL', key)":         {"drop statement: (dropped)"},
		"return a":                 {"drop statement: (dropped)"},
		"local function f()\nend":  nil,
		"if a then b() end":        {"drop statement: (dropped)", "negate condition: if not (a) then b() end"},
		"if a then\n  b()\nend":    {"drop statement: (dropped)", "negate condition: if not (a) then"},
		"f(a,\n  b)\ng()":          {"drop statement: (dropped)", "drop statement: (dropped)"},
		"x = a\n  .. b\ny = c":     {"drop statement: (dropped)", "drop statement: (dropped)"},
		"for i = a, b do f(i) end": {"drop statement: (dropped)"},
	} {
		if diff := cmp.Diff(want, changesOf(t, source)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", source, diff)
		}
	}
}

func TestMutateLua_NamesTheFunctionAround(t *testing.T) {
	mutants, err := mutateLua("local function first()\n  if a then\n    b()\n  end\nend\nc()\nlocal function second()\n  d()\nend\n") //nolint:dupword // Lua
	if err != nil {
		t.Fatal(err)
	}
	var in []string
	for _, m := range mutants {
		in = append(in, m.In)
	}
	if want := []string{"first", "first", "", "second"}; !slices.Equal(in, want) {
		t.Errorf("functions %q, want %q", in, want)
	}
}

func TestLuaTokens_RejectsWhatItCannotRead(t *testing.T) {
	for source, want := range map[string]string{
		"a = 1\n--[[ long ]]": "line 2: long comments",
		"a = [[long]]":        "line 1: long strings",
		"a = 'open\n":         "line 1: the string does not end",
	} {
		if _, err := luaTokens(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", source, err, want)
		}
	}
}

// Every mutant differs from the script, and no two of them are equal.
func TestLuaMutants_ChangeTheScriptsOfWeir(t *testing.T) {
	for _, folder := range []string{"limiter/redisstore/lua", "limiter/controlplane"} {
		mutants, err := luaMutants("../..", folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(mutants) < 40 {
			t.Errorf("%s: only %d mutants", folder, len(mutants))
		}
		seen := map[string]bool{}
		for _, m := range mutants {
			key := m.File + string(m.apply([]byte(readFile(t, "../../"+m.File))))
			if seen[key] || m.Before == m.After {
				t.Errorf("%s is no new mutant", describe(m))
			}
			seen[key] = true
		}
	}
}
