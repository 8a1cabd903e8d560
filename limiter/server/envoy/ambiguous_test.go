package envoy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// A client must not choose the namespace that a request counts for, nor push out the policy of its route, by a header that routes match.
func TestExtAuthz_RejectsARequestOfSeveralRoutes(t *testing.T) {
	table := &rules.RouteTable{Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Host: "shop.example"}}}}}
	for i := range 40 {
		table.Routes = append(table.Routes, rules.Route{Namespace: fmt.Sprintf("n%d", i%2), Target: fmt.Sprintf("HTTPRoute/v%02d", i)})
		table.Matches = append(table.Matches, rules.RouteMatch{
			Route: i, Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"},
			Headers: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-version", Value: fmt.Sprintf("v%02d", i)}},
		})
		table.Listeners[0].Hosts[0].Matches = append(table.Listeners[0].Hosts[0].Matches, i)
	}
	index, err := rules.NewIndex(rules.Set{RouteTable: table}, "", "weir:")
	if err != nil {
		t.Fatal(err)
	}
	w := limiterOf(t)
	w.engine.Swap(index)
	for version, want := range map[string]int32{"v39": 0, "x": 0, "x,y": 0, "v38,v39": 400, "v39" + strings.Repeat(",x", 17): 400} {
		a := attributes("GET", "/any")
		a.ContextExtensions = nil
		a.Request.Http.Host, a.Request.Http.Headers = "shop.example", map[string]string{"x-version": version}
		got := w.check(t, a)
		if status := int32(got.GetDeniedResponse().GetStatus().GetCode()); status != want {
			t.Errorf("%.20s: status %d, want %d", version, status, want)
		}
	}
}
