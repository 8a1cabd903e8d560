package route_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// byHeaders is a table with matches of headers.
func byHeaders(t *testing.T) *matching.Index {
	t.Helper()
	return indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {
		"exact: ^/ x-plan=free", "regex: ^/ x-team=~a.*", "both: ^/ x-both=a,b", "bang: ^/ x-bang=a!", "json: ^/ accept=~.*json.*", "latin: ^/ x-latin=~b.", "umlaut: ^/ x-umlaut=ä", "class: ^/ x-class=~[^!]",
		"c1: ^/ x-c1=~b[\\x{80}-\\x{8f}]", "empty: ^/ x-empty=~a*", "skip: ^/ x-skip=~a|a,b,c",
		"host: ^/ host=Shop.example:80", "rest: ^/",
	}}}))
}

// ext_authz joins the lines of a header with commas, which can also be part of a line. Envoy 1.39 takes a route that one line matches, and
// earlier releases one that the joined lines match. A request is counted for each route that it can belong to, and only for these.
func TestRoutesOf_ComparesJoinedLinesOfHeaders(t *testing.T) {
	x := byHeaders(t)
	for request, want := range map[string]string{
		"x-plan=free": "exact", "x-plan=paid": "rest", "x-plan=paid,free": "rest exact", "x-plan=free,paid": "rest exact", "x-plan=a,free,b": "rest exact",
		"x-plan=paid,other": "rest", "x-plan=afree,b": "rest", "x-plan=freedom,b": "rest", "x-plan=a,freedom": "rest", "x-plan=paid,+free": "rest",
		"x-plan=,": "rest", "x-plan=,free": "rest exact",
		"x-team=ab": "regex", "x-team=ba": "rest", "x-team=ab,cd": "regex", "x-team=cd,ab": "rest regex", "x-team=cd,ef": "rest", "x-team=ab,ac,ad": "regex",
		"x-team=cd,ef,ab": "rest regex", "x-team=cd,+ab": "rest",
		"x-both=a,b": "rest both", "x-both=a": "rest", "x-both=a,b,c": "rest both", "x-both=c,a,b": "rest both", "x-both=c,a,b,d": "rest both", "x-both=a,bc": "rest",
		"x-skip=a,b,c": "rest skip", "x-skip=a": "skip", "x-skip=a,b": "rest skip", "x-empty=": "empty", "x-both=ca,b": "rest", "x-both=b,a": "rest", "x-both=a,c,b": "rest",
		"accept=text/html,a/json;q=1,*/*": "json", "accept=text/json": "json", "accept=text/html,*/*": "rest",
		// Envoy sends ! for bytes that are no UTF-8.
		"x-bang=a!": "rest bang", "x-bang=b!": "rest", "x-team=a!": "rest regex", "x-class=!": "rest class", "x-plan=free!": "rest", "x-plan=free,!": "rest exact",
		// Its expressions match bytes.
		"x-latin=bä": "rest", "x-latin=bcä": "rest", "x-latin=bc": "latin", "x-umlaut=ä": "umlaut", "x-umlaut=a,ä": "rest umlaut", "x-umlaut=ö": "rest",
		// Its host header is the authority.
		"host=Shop.example:80": "rest", "authority=Shop.example:80": "host", "authority=shop.example:80": "rest",
		// Above 8 parts, a regular expression is not compared with all lines that a value can have.
		"x-team=b" + strings.Repeat(",b", 7): "rest", "x-team=b" + strings.Repeat(",b", 8): "rest regex",
		"x-plan=b" + strings.Repeat(",b", 99): "rest",
	} {
		if got := routesFor(x, "GET h/ "+request); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// With encode_raw_headers, only several lines can belong to two routes, because of the release of Envoy.
func TestRoutesOf_ComparesLinesOfHeadersAsTheyAre(t *testing.T) {
	x := byHeaders(t)
	for request, want := range map[string]string{
		">x-plan=free": "exact", ">x-plan=paid": "rest", ">x-plan=paid,free": "rest", ">x-both=a,b": "both", ">x-both=a,b,c": "rest", ">x-team=cd,ab": "rest",
		">x-team=ab,cd": "regex", ">x-bang=a!": "bang", ">x-team=a!": "regex", ">x-team=a\xff": "regex", ">x-latin=b\xff": "latin", ">x-c1=b\x80": "c1", ">x-c1=b\x90": "rest", ">x-empty=": "empty",
		">x-latin=bä": "rest",
		">x-umlaut=ä": "umlaut", ">x-class=\xff": "class", ">x-class=ä": "rest", ">x-class=!": "rest", ">x-class=a": "class", ">a=b authority=Shop.example:80": "host",
		">accept=text/html,json": "json", ">other=a": "rest",
		">x-team=b" + strings.Repeat(",b", 20): "rest",
		">x-plan=paid >x-plan=free":            "rest exact", ">x-plan=free >x-plan=free": "rest exact", ">x-plan=paid >x-plan=other": "rest",
		">x-both=a >x-both=b": "rest both", ">x-both=a,b >x-both=c": "rest both", ">x-both=a >x-both=c": "rest",
		">x-team=ab >x-team=cd": "regex", ">x-team=cd >x-team=ab": "rest regex", ">x-team=cd >x-team=ef": "rest",
		">x-plan=free >x-team=ab": "exact", "x-plan=free >x-team=ab": "regex",
	} {
		if got := routesFor(x, "GET h/ "+request); got != want {
			t.Errorf("%q: %q, want %q", request, got, want)
		}
	}
}

func TestRoutesOf_ReturnsABoundedNumberOfRoutes(t *testing.T) {
	var matches, values []string
	for i := range 10 {
		matches, values = append(matches, fmt.Sprintf("r%d: ^/ x=v%d", i, i)), append(values, fmt.Sprintf("v%d", i))
	}
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": append(matches, "rest: ^/")}}))
	for n, want := range map[int]string{1: "r0", 2: "rest r0 r1", 3: "rest r0 r1 r2", 4: "rest r0 r1 r2 r3", 10: "rest r0 r1 r2 r3"} {
		if got := routesFor(x, "GET h/ x="+strings.Join(values[:n], ",")); got != want {
			t.Errorf("%d values: %s, want %s", n, got, want)
		}
	}
}

// A condition that many matches have is compared once. Otherwise, later ones of an honest request would be unknown.
func TestRoutesOf_ComparesEachConditionOnce(t *testing.T) {
	var matches []string
	for i := range 100 {
		matches = append(matches, fmt.Sprintf("r%d: ^/ x-slow=~(a|b|ab|ba)*c x-n=%d", i, i))
	}
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": append(matches, "rest: ^/")}}))
	slow := "x-slow=" + strings.Repeat("ab", 200) + "c"
	for request, want := range map[string]string{slow + " x-n=99": "r99", slow + " x-n=0": "r0", slow: "rest", slow + "d x-n=99": "rest"} {
		if got := routesFor(x, "GET h/ "+request); got != want {
			t.Errorf("%.30s…: %q, want %q", request, got, want)
		}
	}
}

// expensive returns tables with routes of a tenant, and a request of a client, which are expensive to compare.
func expensive(t testing.TB) map[string]func() int {
	t.Helper()
	conditions := map[string]func(i int) []rules.HeaderMatch{
		"texts": func(i int) []rules.HeaderMatch {
			return []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x", Value: fmt.Sprint(strings.Repeat(",", 200), i)}}
		},
		"expressions": func(i int) []rules.HeaderMatch {
			return []rules.HeaderMatch{{Type: rules.HeaderRegex, Name: "x", Value: fmt.Sprintf("(,|,,|%d)*c", i)}}
		},
		"headers": func(i int) (all []rules.HeaderMatch) {
			for n := range 15 {
				all = append(all, rules.HeaderMatch{Type: rules.HeaderExact, Name: fmt.Sprint("y", n), Value: "a"})
			}
			return append(all, rules.HeaderMatch{Type: rules.HeaderExact, Name: "z", Value: strconv.Itoa(i)})
		},
	}
	query := map[string]bool{"parameters": true}
	conditions["parameters"] = func(i int) []rules.HeaderMatch {
		return []rules.HeaderMatch{{Type: rules.HeaderExact, Name: strconv.Itoa(i), Value: "1"}}
	}
	conditions["values"] = func(i int) []rules.HeaderMatch {
		return []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "q", Value: strconv.Itoa(i)}}
	}
	query["values"] = true
	conditions["lines"] = conditions["texts"]
	request := &route.Request{
		Method: "GET", Host: "h", Target: "/?" + strings.Repeat("&", 50_000), Headers: map[string]string{"x": strings.Repeat(",", 50_000), "z": "no"},
	}
	for n := range 15 {
		request.Headers[fmt.Sprint("y", n)] = "a"
	}
	calls := map[string]func() int{}
	for name, condition := range conditions {
		table := &rules.RouteTable{Routes: []rules.Route{}, Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{}}}}}
		host := &table.Listeners[0].Hosts[0]
		for i := range 2000 {
			table.Routes = append(table.Routes, rules.Route{Target: strconv.Itoa(i)})
			match := rules.RouteMatch{Route: i, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}}
			if query[name] {
				match.Query = condition(i)
			} else {
				match.Headers = condition(i)
			}
			table.Matches = append(table.Matches, match)
			host.Matches = append(host.Matches, i)
		}
		x, err := matching.NewIndex(rules.Set{RouteTable: table}, "", "weir:")
		if err != nil {
			t.Fatal(err)
		}
		of := *request
		if name == "lines" {
			of.Lines = func(string) []string { return make([]string, 1000) }
		}
		calls[name] = func() int { return len(x.RoutesOf(&of)) }
	}
	return calls
}

// The budget suffices for honest requests, also with many routes.
func TestRoutesOf_ComparesManyRoutesExactly(t *testing.T) {
	var matches []string
	for i := range 1000 {
		matches = append(matches, fmt.Sprintf("r%d: ^/ x=value-%d", i, i))
	}
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": append(matches, "rest: ^/")}}))
	list := strings.Repeat("a,", 20)
	for request, want := range map[string]string{"x=" + list + "b": "rest", "x=" + list + "value-999": "rest r999", "x=value-999": "r999"} {
		if got := routesFor(x, "GET h/ "+request); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// A client and a tenant together must not make a request expensive. What is not compared can match.
func TestRoutesOf_BoundsTheStepsOfARequest(t *testing.T) {
	calls := expensive(t)
	for name, want := range map[string]int{"texts": route.MaxRoutes + 1, "expressions": route.MaxRoutes + 1, "headers": 0, "parameters": route.MaxRoutes + 1, "values": route.MaxRoutes + 1, "lines": route.MaxRoutes + 1} {
		if got := calls[name](); got != want {
			t.Errorf("%s: %d routes, want %d", name, got, want)
		}
	}
}

func BenchmarkRoutesOf_Expensive(b *testing.B) {
	for name, call := range expensive(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// An honest request must not be unknown because of the names of others.
func TestRoutesOf_ParsesTheQueryOnce(t *testing.T) {
	var matches []string
	for i := range 2000 {
		matches = append(matches, fmt.Sprintf("r%d: ^/ ?q%d=1", i, i))
	}
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": append(matches, "rest: ^/")}}))
	query := strings.Repeat("name=value&", 200)
	for request, want := range map[string]string{"": "rest", "q7=1": "r7", "q7=2&q7=1": "rest", "q1999=1&": "r1999"} {
		if got := routesFor(x, "GET h/?"+query+request); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// A query with very many parameters can have each.
func TestRoutesOf_BoundsTheParametersOfAQuery(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {"q: ^/ ?q=1", "rest: ^/"}}}))
	for query, want := range map[string]string{
		strings.Repeat("a&", 1023) + "q=1": "q", strings.Repeat("a&", 1024) + "q=1": "rest q", strings.Repeat("a&", 1024) + "b": "rest q", "q=1&" + strings.Repeat("a&", 2000): "q",
		strings.Repeat("a&", 1023) + "b": "rest",
	} {
		if got := routesFor(x, "GET h/?"+query); got != want {
			t.Errorf("%d bytes of query: %s, want %s", len(query), got, want)
		}
	}
}

// Texts are looked up among the parts of a header, so that a long one with few commas costs no more.
func TestRoutesOf_SplitsAHeaderOnce(t *testing.T) {
	var matches []string
	for i := range 2000 {
		matches = append(matches, fmt.Sprintf("r%d: ^/ x=v%d", i, i))
	}
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": append(matches, "two: ^/ x=a,b", "rest: ^/")}}))
	list := strings.Repeat("part,", 1000)
	for value, want := range map[string]string{
		list + "b": "rest", list + "v3": "rest r3", "v3," + list: "rest r3", "v33," + list: "rest r33", list + "a,b": "rest two", list + "a,bc": "rest", list + "ba,b": "rest",
		"a,b," + list: "rest two",
	} {
		if got := routesFor(x, "GET h/ x="+value); got != want {
			t.Errorf("%.10s...%s: %s, want %s", value, value[len(value)-5:], got, want)
		}
	}
}

// A header with very many commas can have each text between two of them, also after it was compared once.
func TestRoutesOf_BoundsThePartsOfAHeader(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {"one: ^/ x=1", "two: ^/ x=2", "rest: ^/"}}}))
	for commas, want := range map[int]string{1023: "rest", 1024: "rest one two"} {
		if got := routesFor(x, "GET h/ x=a"+strings.Repeat(",a", commas)); got != want {
			t.Errorf("%d commas: %s, want %s", commas, got, want)
		}
	}
}

// A text with commas is searched in the header. A client and a tenant together must not make that expensive.
func TestRoutesOf_BoundsTheSearchForTextsWithCommas(t *testing.T) {
	var matches []string
	for i := range 2000 {
		matches = append(matches, fmt.Sprintf("r%d: ^/ x=a,b%d", i, i))
	}
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": append(matches, "rest: ^/")}}))
	for value, unknown := range map[string]bool{strings.Repeat(strings.Repeat("a", 60)+",", 1000): true, "a,c": false} {
		got := x.RoutesOf(&route.Request{Method: "GET", Host: "h", Target: "/", Headers: map[string]string{"x": value}})
		if route.TooMany(got) != unknown || !unknown && len(got) != 1 {
			t.Errorf("%d bytes: %d routes", len(value), len(got))
		}
	}
}

// A gateway that sends the lines of headers sends them in a list that is searched and copied for each call.
func TestRoutesOf_ReadsTheLinesOfAHeaderOnce(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {"a: ^/ x=1", "b: ^/ x=2", "c: ^/ x=~3", "d: ^/ y=1"}}}))
	calls := map[string]int{}
	x.RoutesOf(&route.Request{Method: "GET", Host: "h", Target: "/", Lines: func(name string) []string {
		calls[name]++
		return []string{"4"}
	}})
	if calls["x"] != 1 || calls["y"] != 1 || len(calls) != 2 {
		t.Errorf("lines are read %v times", calls)
	}
}

// A search is reused, and clears only what the request before it has set.
func TestRoutesOf_ForgetsEarlierRequests(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {"x: ^/ x=1", "q: ^/ ?q=1", "rest: ^/"}}}))
	for range 10 {
		for _, request := range [][2]string{{"GET h/ x=1", "x"}, {"GET h/", "rest"}, {"GET h/?q=1", "q"}, {"GET h/", "rest"}, {"GET h/?q=2 x=2", "rest"}} {
			if got := routesFor(x, request[0]); got != request[1] {
				t.Fatalf("%s: %s, want %s", request[0], got, request[1])
			}
		}
	}
}

// Envoy compares the bytes of the query. It sends those that are no UTF-8 as !.
func TestRoutesOf_ComparesTheBytesOfTheQuery(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {"": {
		"one: ^/ ?q=~x.y", "two: ^/ ?q=~x..y", "exact: ^/ ?q=é", "mark: ^/ ?q=a!", "rest: ^/",
	}}}))
	for query, want := range map[string]string{"q=xéy": "two", "q=x-y": "one", "q=é": "exact", "q=x!y": "rest one two", "q=a!": "rest one two mark", "q=a": "rest"} {
		if got := routesFor(x, "GET h/?"+query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// A list of languages can meet an expression of each rule. The gateway has joined them, so that each rule can be the one that it chose.
func TestTooManyRoutes_CountsTheRulesOfARouteOnce(t *testing.T) {
	for _, test := range []struct {
		routes, rules int
		tooMany       bool
	}{{1, 5, false}, {1, 16, false}, {1, 17, true}, {4, 1, false}, {5, 1, true}, {4, 4, false}, {3, 6, true}, {4, 0, false}, {5, 0, true}} {
		table, languages := &rules.RouteTable{}, []string{}
		host := rules.RouteHost{Host: "shop.example"}
		for route := range test.routes {
			for rule := range max(1, test.rules) {
				language := fmt.Sprintf("l%d-%d", route, rule)
				languages = append(languages, language)
				host.Matches = append(host.Matches, len(table.Matches))
				table.Matches = append(table.Matches, rules.RouteMatch{
					Route: len(table.Routes), Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"},
					Headers: []rules.HeaderMatch{{Type: rules.HeaderRegex, Name: "accept-language", Value: language}},
				})
				target := rules.RouteTarget("HTTPRoute", fmt.Sprint("r", route), language)
				if test.rules == 0 { // without names of rules
					target = rules.RouteTarget("HTTPRoute", fmt.Sprint("r", route), "")
				}
				table.Routes = append(table.Routes, rules.Route{Namespace: "shop", Target: target})
			}
		}
		table.Listeners = []rules.RouteListener{{Host: "shop.example", Hosts: []rules.RouteHost{host}}}
		found := indexOfTable(t, table).RoutesOf(&route.Request{
			Method: "GET", Host: "shop.example", Target: "/", Headers: map[string]string{"accept-language": strings.Join(languages, ",")},
		})
		if got := route.TooMany(found); got != test.tooMany || !got && len(found) != test.routes*max(1, test.rules) {
			t.Errorf("%d routes of %d rules: %d found, too many: %t", test.routes, test.rules, len(found), got)
		}
	}
}
