package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/route"
)

// tenants returns a table for one host, in the order of its matches. A match is "namespace METHOD type path header=value", as in tableOf.
func tenants(t testing.TB, matches ...string) *matching.Index {
	t.Helper()
	table := &rules.RouteTable{}
	host := rules.RouteHost{}
	for i, text := range matches {
		namespace, text, _ := strings.Cut(text, " ")
		m := rules.RouteMatch{Route: i, Path: rules.PathMatch{Type: rules.PathRegex, Value: text[1:]}}
		switch {
		case strings.Contains(text, "="):
			name, value, _ := strings.Cut(text, "=~")
			m.Path = rules.PathMatch{Type: rules.PathPrefix, Value: "/"}
			m.Headers = []rules.HeaderMatch{{Type: rules.HeaderRegex, Name: name, Value: value}}
		case text[0] == '^':
			m.Path.Type = rules.PathPrefix
		}
		table.Routes = append(table.Routes, rules.Route{Namespace: namespace, Target: fmt.Sprintf("HTTPRoute/r%d", i)})
		table.Matches, host.Matches = append(table.Matches, m), append(host.Matches, i)
	}
	table.Listeners = []rules.RouteListener{{Hosts: []rules.RouteHost{host}}}
	x, err := matching.NewIndex(rules.Set{RouteTable: table}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// namespacesFor returns the namespaces of the routes of a request, each as often as it has routes.
func namespacesFor(x *matching.Index, path string, headers map[string]string) string {
	var all []string
	for _, r := range x.RoutesOf(&route.Request{Method: "GET", Host: "h", Target: path, Headers: headers}) {
		all = append(all, r.Namespace)
	}
	return strings.Join(all, " ")
}

// expensivePaths are regular expressions of a tenant, of which each takes many steps for the paths in these tests.
func expensivePaths(namespace string, count int) (matches []string) {
	for i := range count {
		matches = append(matches, fmt.Sprintf("%s ~/(%s)*[0-9]%d", namespace, strings.Repeat("[a-z/]|[a-z]?|", 30), i))
	}
	return matches
}

// usualPaths are regular expressions as tenants have them.
func usualPaths(namespace string, count int) (matches []string) {
	for i := range count {
		matches = append(matches, fmt.Sprintf("%s ~/%s/v[0-9]+/users/[^/]+/part-%d", namespace, namespace, i))
	}
	return matches
}

// A tenant with too many or too expensive expressions must not deny the requests of others, nor make their expressions unknown.
func TestRoutesOf_ExpensiveExpressionsHarmOnlyTheirNamespace(t *testing.T) {
	const path, late = "/shop/v1/users/some-user-name/part-7", "/shop/v1/users/some-user-name/part-39"
	for name, before := range map[string][]string{
		"none": nil, "one": expensivePaths("hog", 1), "five": expensivePaths("hog", 5), "many": expensivePaths("hog", 100),
		"several namespaces": append(expensivePaths("hog", 100), expensivePaths("pig", 100)...),
	} {
		x := tenants(t, append(append(before, usualPaths("shop", 40)...), "rest ^/")...)
		for request, want := range map[string]string{path: "shop", late: "shop", "/other/path/of/a/usual/length": "rest", "/": "rest"} {
			if got := namespacesFor(x, request, nil); got != want {
				t.Errorf("%s expensive before: %s: %s, want %s", name, request, got, want)
			}
		}
	}
}

// The requests of a namespace with too expensive expressions still belong to it if no route of another namespace can take them.
func TestRoutesOf_ExpensiveExpressionsKeepTheRequestsOfTheirNamespace(t *testing.T) {
	const path = "/some/path/of/a/usual/length"
	for name, rest := range map[string][]string{"no other route": nil, "a route of the namespace": {"hog ^/"}} {
		x := tenants(t, append(expensivePaths("hog", 100), rest...)...)
		if got, want := namespacesFor(x, path, nil), strings.TrimSpace(strings.Repeat("hog ", route.MaxRoutes+1)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A route of another namespace can take a request if a header can have the value, and also if no route certainly takes it.
func TestRoutesOf_ExpensiveExpressionsDoNotDenyRequestsOfUncertainRoutes(t *testing.T) {
	x := tenants(t, append(expensivePaths("hog", 100), "shop x=~de")...)
	if got := namespacesFor(x, "/some/path/of/a/usual/length", map[string]string{"x": "de,en"}); got != "shop" {
		t.Errorf("%s, want shop", got)
	}
}

// A client must not leave a route by a long text: it can be the cause, and not the tenant.
func TestRoutesOf_LongTextsAddRoutes(t *testing.T) {
	x := tenants(t, "shop ~/(a|b|ab|ba)*c", "rest ^/")
	h := tenants(t, "shop x=~(a|b|ab|ba)*c", "rest ^/")
	for n, want := range map[int]string{10: "rest", 100: "rest", 4000: "rest shop"} {
		text := strings.Repeat("ab", n)
		if got := namespacesFor(x, "/"+text, nil); got != want {
			t.Errorf("a path of %d bytes: %s, want %s", 2*n, got, want)
		}
		if got := namespacesFor(h, "/", map[string]string{"x": text}); got != want {
			t.Errorf("a header of %d bytes: %s, want %s", 2*n, got, want)
		}
	}
}

// A client chooses the commas of a header. Expressions are compared with all lines that it can have.
func TestRoutesOf_CommasAddRoutes(t *testing.T) {
	x := tenants(t, "shop x=~(a|b|ab|ba)*c1", "shop x=~(a|b|ab|ba)*c2", "shop x=~(a|b|ab|ba)*c3", "rest ^/")
	for value, want := range map[string]string{
		strings.Repeat("ab", 48): "rest", strings.TrimSuffix(strings.Repeat(strings.Repeat("ab", 6)+",", 8), ","): "rest shop",
	} {
		if got := namespacesFor(x, "/", map[string]string{"x": value}); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// Each of the expressions that many tenants have can be compared, as long as few of them are expensive.
func TestRoutesOf_EachNamespaceHasAReserve(t *testing.T) {
	var matches []string
	for i := range 12 {
		matches = append(matches, expensivePaths(fmt.Sprintf("hog%02d", i), 100)...)
	}
	for i := range 38 {
		matches = append(matches, usualPaths(fmt.Sprintf("shop%02d", i), 10)...)
	}
	x := tenants(t, append(matches, "rest ^/")...)
	for request, want := range map[string]string{"/shop37/v1/users/ab/part-9": "shop37", "/shop00/v1/users/ab/part-0": "shop00", "/other": "rest"} {
		if got := namespacesFor(x, request, nil); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// Namespaces can have the same condition. It is compared once, and by another one if the first has too few steps.
func TestRoutesOf_NamespacesShareResultsAndNotBudgets(t *testing.T) {
	text := map[string]string{"x": strings.Repeat("ab", 50) + "c", "y": "/some/text/of/a/usual/length"}
	var matches []string
	for _, path := range expensivePaths("hog", 100) {
		matches = append(matches, strings.Replace(path, " ~", " y=~", 1))
	}
	matches = append(matches, "hog x=~(a|b|ab|ba)*c", "shop x=~(a|b|ab|ba)*c", "rest ^/")
	if got := namespacesFor(tenants(t, matches...), "/", text); got != "shop" {
		t.Errorf("with too few steps of the first namespace: %s, want shop", got)
	}
}

// worstCase returns calls for requests that spend all steps of several namespaces.
func worstCase(t testing.TB) map[string]func() int {
	t.Helper()
	calls := map[string]func() int{}
	for _, n := range []int{1, 2, 8, 20} {
		var matches []string
		for i := range n {
			matches = append(matches, expensivePaths(fmt.Sprint("hog", i), 100)...)
		}
		x := tenants(t, append(matches, "rest ^/")...)
		for _, length := range []int{30, 8000} {
			path := "/" + strings.Repeat("a", length)
			calls[fmt.Sprintf("%d namespaces, path of %d bytes", n, length)] = func() int {
				return len(x.RoutesOf(&route.Request{Method: "GET", Host: "h", Target: path}))
			}
		}
	}
	return calls
}

func BenchmarkRoutesOf_NamespacesAtTheirBudget(b *testing.B) {
	for name, call := range worstCase(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
