package route

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// Tenants and a client together must not make a request expensive, however many namespaces have expensive expressions.
func TestRoutesOf_BoundsTheStepsOfAllNamespaces(t *testing.T) {
	const namespaces, expressions = 20, 100
	table := &rules.RouteTable{}
	host := rules.RouteHost{}
	for i := range namespaces * expressions {
		table.Routes = append(table.Routes, rules.Route{Namespace: fmt.Sprint("n", i%namespaces), Target: fmt.Sprintf("HTTPRoute/r%d", i)})
		path := rules.PathMatch{Type: rules.PathRegex, Value: fmt.Sprintf("/(%s)*[0-9]%d", strings.Repeat("[a-z/]|[a-z]?|", 30), i)}
		table.Matches, host.Matches = append(table.Matches, rules.RouteMatch{Route: i, Path: path}), append(host.Matches, i)
	}
	table.Listeners = []rules.RouteListener{{Hosts: []rules.RouteHost{host}}}
	compiled, err := Compile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{1, 30, 300, 8000, 60_000} {
		s := newRouteSearch(compiled)
		s.find(&Request{Method: "GET", Host: "h", Target: "/" + strings.Repeat("a", length)})
		total := 0
		for i, b := range s.budgets {
			total += b.spent
			if b.spent > maxRouteSteps+10 {
				t.Errorf("a path of %d bytes: namespace %d has spent %d steps", length, i, b.spent)
			}
		}
		if most := maxSharedSteps + maxReserves + 10*namespaces; total > most || length >= 30 && total < maxSharedSteps {
			t.Errorf("a path of %d bytes takes %d steps, want %d to %d", length, total, maxSharedSteps, most)
		}
	}
}
