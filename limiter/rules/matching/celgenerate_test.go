package matching_test

import (
	"fmt"
	"strings"
)

// generator writes expressions of CEL from random bytes. It uses every function that expressions can call, and those that they must not
// call, each with arguments of the types that it takes.
type generator struct {
	data      []byte
	fields    map[string][]string // by type
	variables map[string][]string // of the loops around the expression
	left      int                 // of the nodes
}

// next returns a number below n.
func (g *generator) next(n int) int {
	if len(g.data) == 0 || n == 0 {
		return 0
	}
	b := int(g.data[0])
	g.data = g.data[1:]
	return b % n
}

// The forms of expressions by type. A type between # is replaced by an expression of the type. T is any type, and "x:" declares a variable
// of a loop over what follows.
func forms() map[string][]string {
	return map[string][]string{
		"bool": {
			"#string# == #string#", "#string# < #string#", "#bool# && #bool#", "#bool# || #bool#", "!#bool#", "#string#.contains(#string#)",
			"#string#.startsWith(#string#)", "#string#.endsWith(#string#)", `#string#.matches("^(a|b|ab)*[a-z]{0,20}c$")`, `#string#.matches("a.*b.*c")`,
			"#list#.exists(#x:string#, #bool#)", "#list#.all(#x:string#, #bool#)", "#list#.exists_one(#x:string#, #bool#)",
			"#map#.exists(#x:string#, #bool#)", "#map#.all(#x:string#, #bool#)", "#lists#.exists(#x:list#, #bool#)", "#dyn#.exists(#x:dyn#, #bool#)",
			"#string# in #list#", "#string# in #map#", "#dyn# in #dyn#", "#list# in #lists#", "#dyn# == #dyn#", "#list# == #list#", "#lists# == #lists#",
			"#map# == #map#", "#dyn# != #list#", "sets.contains(#list#, #list#)", "sets.equivalent(#list#, #list#)", "sets.intersects(#list#, #list#)",
			"isIP(#string#)", "isCIDR(#string#)", `cidr("10.0.0.0/8").containsIP(#string#)`, "#optional#.hasValue()", "#int# < #int#", "#int# in [1, 2, 3]",
			"bool(#string#)", "#bool# ? #bool# : #bool#", "has(#map#.a)", "has(#dyn#.a)", "#dyn#", "#optional# == #optional#", "#bytes# == #bytes#",
			`timestamp(#string#) < timestamp("2030-01-01T00:00:00Z")`, "duration(#string#) > duration('1h')", "#lists#.map(#x:list#, #list#) == #lists#",
			"#string# in #list#.map(#x:string#, #string#)",
		},
		"string": {
			"#string# + #string#", "#string#.lowerAscii()", "#string#.upperAscii()", "#string#.reverse()", "#string#.trim()",
			`#string#.replace("a", "bcdefgh")`, `#string#.replace("", "bcdefgh")`, "#string#.replace(#string#, #string#)", "#string#.replace(#string#, #string#, #int#)",
			"#string#.substring(1)", "#string#.substring(#int#, #int#)", "#string#.charAt(#int#)", "#list#.join()", "#list#.join(#string#)",
			"base64.encode(#bytes#)", "string(#bytes#)", "string(#int#)", "#map#[#string#]", "#list#[#int#]", "#list#[0]", "#dyn#", "string(#dyn#)",
			"#optional#.orValue(#string#)", "#bool# ? #string# : #string#", `"%s".format([#T#])`, "json.encode(#T#)", "strings.quote(#string#)",
			"#optional#.value()", "string(timestamp(#int#))",
		},
		"int": {
			"size(#string#)", "size(#list#)", "size(#map#)", "#string#.indexOf(#string#)", "#string#.lastIndexOf(#string#)", "int(#string#)",
			"#int# + #int#", "#int# * #int#", "#int# % #int#", "math.greatest([#int#, #int#])", "math.least(#int#, #int#)", "size(#dyn#)",
			"timestamp(#string#).getHours()", "timestamp(#string#).getFullYear('Europe/Berlin')", "duration(#string#).getSeconds()", "0", "1", "7",
			"math.abs(#int#)", "math.bitAnd(#int#, #int#)", "int(#dyn#)", "size(#bytes#)", "#bool# ? #int# : #int#",
		},
		"list": {
			"#string#.split(#string#)", `#string#.split("")`, `#string#.split("/", 5)`, "[#string#, #string#]", `["a", "b", "c", "d", "e"]`,
			"#list#.map(#x:string#, #string#)", "#list#.filter(#x:string#, #bool#)", "#map#.map(#x:string#, #string#)", "#map#.filter(#x:string#, #bool#)",
			"#list#.map(#x:string#, #bool#, #string#)", "#lists#[#int#]", "#list# + #list#", "#dyn#", "#bool# ? #list# : #list#",
			"optional.unwrap([#optional#, #optional#])", "[#string#, #string#, #string#, #string#, #string#, #string#, #string#, #string#]",
		},
		"lists": {
			"[#list#, #list#]", "#lists#.map(#x:list#, #list#)", "#list#.map(#x:string#, #list#)", "#map#.map(#x:string#, #list#)", "#lists#.filter(#x:list#, #bool#)",
		},
		"map":   {`{"a": #string#}`, `{"a": #string#, "b": #string#}`, "#bool# ? #map# : #map#"},
		"bytes": {"bytes(#string#)", "base64.decode(#string#)", "#bytes# + #bytes#"},
		"optional": {
			"optional.of(#string#)", "#map#[?#string#]", "#list#[?#int#]", "#optional#.or(#optional#)", "optional.ofNonZeroValue(#string#)", "#list#.first()",
			"#list#.last()", "#optional#.optMap(#x:string#, #string#)",
		},
		"dyn": {
			"dyn(#T#)", "#dyn#[#T#]", "#dyn#.a", "#dyn# + #dyn#", "#dyn#.map(#x:dyn#, #dyn#)", "#dyn#.filter(#x:dyn#, #bool#)", "[#dyn#, #dyn#]", `{"a": #dyn#}`,
			"#dyn#.?a.orValue(#dyn#)", "#dyn#.map(#x:dyn#, [#dyn#, #dyn#])", "[#dyn#, #dyn#, #dyn#, #dyn#]",
		},
	}
}

var allForms = forms()

var anyType = []string{"string", "int", "list", "lists", "map", "dyn", "bool", "bytes"}

// literals of each type, for the leaves.
var literals = map[string][]string{
	"bool": {"true", "false"}, "string": {`"a"`, `""`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaab"`, `"10.0.0.1"`}, "int": {"0", "1", "3"}, "list": {`["a", "b"]`, "[]"},
	"lists": {`[["a"]]`}, "map": {`{"a": "b"}`}, "bytes": {`b"a"`}, "optional": {"optional.none()"}, "dyn": {"dyn(1)", `dyn("a")`},
}

func httpFields() map[string][]string {
	return map[string][]string{
		"bool":   {"request == request"},
		"string": {"request.path", "request.host", `request.headers["x"]`, `request.headers.b`, "request.clientIP", `request.query.q[0]`, "request.descriptors[0][0].value"},
		"list":   {"request.query.q", "request.descriptors[0].map(e, e.value)"},
		"map":    {"request.headers"},
		"dyn":    {"request.claims", "request.claims.a", "request.query", "request.descriptors", "request"},
	}
}

// expression writes an expression of a type.
func (g *generator) expression(kind string, depth int) string {
	if kind == "T" {
		kind = anyType[g.next(len(anyType))]
	}
	g.left--
	if depth <= 0 || g.left <= 0 || g.next(4) == 0 {
		all := append(append(append([]string(nil), g.variables[kind]...), g.fields[kind]...), literals[kind]...)
		return all[g.next(len(all))]
	}
	return "(" + g.fill(allForms[kind][g.next(len(allForms[kind]))], depth) + ")"
}

// fill replaces the types of a form from left to right.
func (g *generator) fill(form string, depth int) string {
	parts := strings.Split(form, "#") // texts and types in turn
	var declared []string
	for i := 1; i < len(parts); i += 2 {
		if of, is := strings.CutPrefix(parts[i], "x:"); is {
			parts[i] = fmt.Sprintf("v%d", depth)
			g.variables[of] = append(g.variables[of], parts[i])
			declared = append(declared, of)
			continue
		}
		parts[i] = g.expression(parts[i], depth-1)
	}
	for _, of := range declared {
		g.variables[of] = g.variables[of][:len(g.variables[of])-1]
	}
	return strings.Join(parts, "")
}
