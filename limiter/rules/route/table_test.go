package route_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// tableOf returns a table with a listener for each key of hosts. A match is "name: METHOD type path suffix header=value ?parameter=value": a value
// that begins with ~ is a regular expression, and - stands for nothing.
func tableOf(t *testing.T, listeners map[string]map[string][]string) *rules.RouteTable {
	t.Helper()
	table := &rules.RouteTable{}
	for listener, hosts := range listeners {
		l := rules.RouteListener{Host: listener}
		for host, matches := range hosts {
			h := rules.RouteHost{Host: host}
			for _, text := range matches {
				name, text, _ := strings.Cut(text, ": ")
				m := rules.RouteMatch{Route: len(table.Routes)}
				for i, word := range strings.Fields(text) {
					switch {
					case word == "-":
					case i == 0:
						m.Path.Type = map[string]rules.PathMatchType{"=": rules.PathExact, "^": rules.PathPrefix, "~": rules.PathRegex}[word[:1]]
						m.Path.Value = word[1:]
					case strings.HasPrefix(word, "/"):
						m.Suffix = word
					case strings.Contains(word, "="):
						of := &m.Headers
						if word[0] == '?' {
							of, word = &m.Query, word[1:]
						}
						key, value, _ := strings.Cut(word, "=")
						match := rules.HeaderMatch{Type: rules.HeaderExact, Name: key, Value: value}
						if regex, is := strings.CutPrefix(value, "~"); is {
							match.Type, match.Value = rules.HeaderRegex, regex
						}
						*of = append(*of, match)
					default:
						m.Method = word
					}
				}
				h.Matches = append(h.Matches, len(table.Matches))
				table.Routes = append(table.Routes, rules.Route{Namespace: "ns-" + name, Target: "HTTPRoute/" + name})
				table.Matches = append(table.Matches, m)
			}
			l.Hosts = append(l.Hosts, h)
		}
		table.Listeners = append(table.Listeners, l)
	}
	return table
}

func indexOfTable(t *testing.T, table *rules.RouteTable) *matching.Index {
	t.Helper()
	data, revision := rules.Encode(rules.Set{RouteTable: table})
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		t.Fatal(err)
	}
	x, err := matching.NewIndex(set, revision, "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// routesFor returns the names of the routes of a request "METHOD host/path header=value @port", where + stands for a space. With >header=value, the
// gateway sends the lines of headers as they are, and authority=value is the host as the client sent it.
func routesFor(x *matching.Index, text string) string {
	words := strings.Fields(text)
	host, path, _ := strings.Cut(words[1], "/")
	r := route.Request{Method: words[0], Host: host, Target: "/" + path, Headers: map[string]string{}}
	lines := map[string][]string{}
	for _, word := range words[2:] {
		word = strings.ReplaceAll(word, "+", " ")
		name, value, _ := strings.Cut(word, "=")
		if raw, is := strings.CutPrefix(name, ">"); is {
			lines[raw] = append(lines[raw], value)
			r.Lines = func(name string) []string { return slices.Clone(lines[name]) }
			continue
		}
		if port, is := strings.CutPrefix(word, "@"); is {
			number, err := strconv.Atoi(port)
			if err != nil {
				panic(err)
			}
			r.Port = int32(number)
			continue
		}
		if name == "authority" {
			r.Host = value
			continue
		}
		r.Headers[name] = value
	}
	var names []string
	for _, route := range x.RoutesOf(&r) {
		names = append(names, strings.TrimPrefix(route.Target, "HTTPRoute/"))
		if route.Namespace != "ns-"+names[len(names)-1] {
			names = append(names, "in namespace "+route.Namespace)
		}
	}
	return strings.Join(names, " ")
}

func TestRoutesOf_ComparesEachPartOfARequest(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {
		"exact: =/a", "post: ^/a/b POST", "header: ^/a/b x-plan=free", "any: ^/a/b",
		"query: ^/q ?a=1", "regexquery: ^/q ?a=~[2-3]+", "encoded: ^/q ?a%20b=x%20y",
		"regex: ~/r/[0-9]+", "regexheader: ^/h x-plan=~f.*", "suffix: ^/ /Get POST", "slash: ^/s/",
	}}}))
	for request, want := range map[string]string{
		"GET h/a": "exact", "GET h/a?x=1": "exact", "GET h/a#x": "exact", "GET h/a/": "", "GET h/A": "", "GET h/%61": "", "GET h//a": "", "GET h/x/../a": "",
		"POST h/a/b": "post", "GET h/a/b": "any", "GET h/a/b/c": "any", "GET h/a/b/": "any", "GET h/a/bc": "", "GET h/a/b?x": "any", "GET h/a/b x-plan=free": "header",
		"POST h/a/b x-plan=free": "post", "GET h/a/b x-plan=fre": "any",
		"GET h/q?a=1": "query", "GET h/q?b=2&a=1": "query", "GET h/q?a=2": "regexquery", "GET h/q?a=4": "", "GET h/q?a": "", "GET h/q": "", "GET h/q?a=4&a=1": "",
		"GET h/q?A=1": "", "GET h/q?a=23": "regexquery", "GET h/q?a=23x": "", "GET h/q?a%20b=x%20y": "encoded", "GET h/q?a+b=x+y": "", "GET h/q#?a=1": "", "GET h/q?a=1#b": "query",
		"GET h/r/12": "regex", "GET h/r/12?x": "regex", "GET h/r/12/3": "", "GET h/x/r/12": "",
		"GET h/h x-plan=free": "regexheader", "GET h/h x-plan=paid": "", "GET h/h": "",
		"POST h/shop.Stock/Get": "suffix", "POST h/shop.Stock/GetAll": "", "GET h/shop.Stock/Get": "",
		"GET h/s": "slash", "GET h/s/": "slash", "GET h/s/t": "slash", "GET h/st": "",
	} {
		if got := routesFor(x, request); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// A client chooses how long a path is. Only prefixes of lengths that the table has are looked up, which are found at every length.
func TestRoutesOf_FindsPrefixesOfAllLengths(t *testing.T) {
	for length := 1; length < 140; length++ {
		prefix := "/" + strings.Repeat("p", length-1)
		x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {"short: ^/p", "long: ^" + prefix + "x"}}}))
		for path, want := range map[string]string{
			prefix + "x": "long", prefix + "x/": "long", prefix + "x/y": "long", prefix + "x" + strings.Repeat("/y", 100): "long", prefix + "xy": "",
			"/p/" + strings.Repeat("y", length): "short", "/p/y/" + strings.Repeat("y", 200): "short",
		} {
			if got := routesFor(x, "GET h"+path); got != want {
				t.Errorf("prefix of %d bytes, %s: %q, want %q", length+1, path, got, want)
			}
		}
	}
}

// The order of the matches is that of the compiler. Types of paths have no order of their own.
func TestRoutesOf_TakesTheFirstMatch(t *testing.T) {
	for order, want := range map[string]string{
		"=/a/b ^/a ~/a/.* ^/": "0", "~/a/.* ^/a =/a/b ^/": "0", "^/a ~/a/.* =/a/b ^/": "0", "^/ ^/a ~/a/.*": "0", "=/x ^/x ~/x ^/ =/a/b": "3",
	} {
		var matches []string
		for i, path := range strings.Fields(order) {
			matches = append(matches, string(rune('0'+i))+": "+path)
		}
		x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": matches}}))
		if got := routesFor(x, "GET h/a/b"); got != want {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
	}
}

// A request belongs to the most specific listener and there to the most specific host, also if no route of it matches.
func TestRoutesOf_FindsTheHost(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{
		"":                {"": {"default: ^/"}, "other.org": {"other: ^/only"}, "*.org": {"org: ^/"}},
		"*.example":       {"*.example": {"example: ^/"}, "a.example": {"a: ^/"}, "*.b.example": {"b: ^/"}},
		"api.c.example":   {"api.c.example": {"c: ^/v1"}},
		"empty.example":   {},
		"*.empty.example": {},
	}))
	for host, want := range map[string]string{
		"x": "default", "x.example": "example", "a.example": "a", "x.y.example": "example", "x.b.example": "b", "b.example": "example", "example": "default",
		"api.c.example": "", "x.api.c.example": "example", "empty.example": "", "x.empty.example": "", "other.org": "", "x.org": "org", "org": "default",
		strings.Repeat("x", 300): "default", "": "default", strings.Repeat("x", 300) + ".example": "example", strings.Repeat("x", 300) + ".b.example": "b",
		"other.org.": "default", "a.example.": "default", ".example": "default",
	} {
		if got := routesFor(x, "GET "+host+"/"); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

// A client must not leave a route by a header that takes too long to compare.
func TestRoutesOf_AddsRoutesThatCannotBeCompared(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {
		"first: =/a x-a=b", "slow: ^/a x-slow=~(a|b|ab|ba)*c", "rest: ^/a", "path: ~/p(a|b|ab|ba)*c", "after: ^/ x-slow=~(a|b|ab|ba)*c", "p: ^/",
	}}}))
	long := strings.Repeat("ab", 4000)
	for request, want := range map[string]string{
		"GET h/a x-slow=abc":               "slow",
		"GET h/a x-slow=aba":               "rest",
		"GET h/a x-slow=" + long:           "rest slow",
		"GET h/a x-a=b x-slow=" + long:     "first",
		"GET h/other x-slow=" + long:       "p after",
		"GET h/other x-slow=" + long + "c": "p after",
		"GET h/p" + long:                   "p path",
		"GET h/pabc":                       "path",
	} {
		if got := routesFor(x, request); got != want {
			t.Errorf("%.40s: %q, want %q", request, got, want)
		}
	}
}

// HTTP does not allow such a target. Gateways compare an empty path, so that only expressions can match it.
func TestRoutesOf_ATargetWithoutAPath(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {"prefix: ^/", "query: ~[^?]* ?q=1", "regex: ~[^?]*"}}}))
	for target, want := range map[string]string{"?q=1": "query", "?q=2": "regex", "#?q=1": "regex", "": "regex", "*": "regex"} {
		got := x.RoutesOf(&route.Request{Method: "GET", Host: "h", Target: target})
		if len(got) != 1 || got[0].Target != "HTTPRoute/"+want {
			t.Errorf("%q: %v, want %s", target, got, want)
		}
	}
}

func TestRoutesOf_WithoutATable(t *testing.T) {
	x, err := matching.NewIndex(rules.Set{}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*matching.Index{x, nil} {
		if got := x.RoutesOf(&route.Request{Method: "GET", Host: "h", Target: "/"}); len(got) > 0 {
			t.Errorf("%v", got)
		}
	}
}

// The compiler asks before it adds a match to a table of which it does not know the routes yet.
func TestValidate_AMatchThatLimitersCompare(t *testing.T) {
	for _, test := range []struct {
		match rules.RouteMatch
		want  string
	}{
		{rules.RouteMatch{Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}}, ""},
		{rules.RouteMatch{Route: 7, Path: rules.PathMatch{Type: rules.PathRegex, Value: "/a|b"}}, ""},
		{rules.RouteMatch{Path: rules.PathMatch{Type: rules.PathRegex, Value: "("}}, "missing closing"},
		{rules.RouteMatch{}, "unknown path match type"},
	} {
		err := route.ValidateMatch(test.match)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.match, err, test.want)
		}
	}
}

func TestNewIndex_RejectsAnInvalidTable(t *testing.T) {
	prefix := rules.PathMatch{Type: rules.PathPrefix, Value: "/"}
	for want, table := range map[string]rules.RouteTable{
		"route 1 of 1":              {Routes: []rules.Route{{}}, Matches: []rules.RouteMatch{{Route: 1, Path: prefix}}},
		"route -1 of 1":             {Routes: []rules.Route{{}}, Matches: []rules.RouteMatch{{Route: -1, Path: prefix}}},
		"unknown path match type":   {Routes: []rules.Route{{}}, Matches: []rules.RouteMatch{{}}},
		"missing closing":           {Routes: []rules.Route{{}}, Matches: []rules.RouteMatch{{Path: rules.PathMatch{Type: rules.PathRegex, Value: "("}}}},
		"must have a name":          {Routes: []rules.Route{{}}, Matches: []rules.RouteMatch{{Path: prefix, Headers: []rules.HeaderMatch{{}}}}},
		"unknown header match type": {Routes: []rules.Route{{}}, Matches: []rules.RouteMatch{{Path: prefix, Query: []rules.HeaderMatch{{Name: "a"}}}}},
		"match 1 of 0":              {Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Matches: []int{1}}}}}},
		"match 0 of 0":              {Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Matches: []int{0}}}}}},
		"match -1 of 0":             {Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Matches: []int{-1}}}}}},
		"group 1 of 1":              {Listeners: []rules.RouteListener{{Groups: []int{1}}}},
		"group 2 of 2":              {Groups: make([]rules.RouteGroup, 2), Listeners: []rules.RouteListener{{Groups: []int{0, 2}}}},
		"group -1 of 1":             {Listeners: []rules.RouteListener{{Groups: []int{-1}}}},
		"longer than":               {Listeners: []rules.RouteListener{{Host: "*" + strings.Repeat("x", 300)}}},
		"is longer than":            {Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Host: "*" + strings.Repeat("x", 300)}}}}},
	} {
		if _, err := matching.NewIndex(rules.Set{RouteTable: &table}, "", "weir:"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if diff := cmp.Diff("", routesFor(indexOfTable(t, &rules.RouteTable{}), "GET h/")); diff != "" {
		t.Errorf("an empty table: %s", diff)
	}
}
