package routetable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// Routes whose matches do not fit keep their hosts, as long as these fit. Requests for other hosts belong to the oldest route without a place on
// the listener.
func TestRouteTable_RoutesWithoutTheirMatchesKeepTheirHosts(t *testing.T) {
	var routes []gateway.Route
	add := func(listener string, n int) {
		for range n {
			r := manyMatches("tenant", fmt.Sprintf("%s%d.%s", listener, len(routes), listener), 15, 134) // above the matches of a namespace
			r.Name, r.Created = fmt.Sprintf("%s%d", listener, len(routes)), time.Unix(int64(len(routes)), 0)
			routes = append(routes, r)
		}
	}
	add("a", 70) // 1000/15 have a place
	add("b", 10)
	listeners := []gateway.Listener{{Name: "a", Hostname: "*.a.example"}, {Name: "b", Hostname: "*.b.example"}}
	result := tablePolicies(listeners, routes...).CompileWithin(compile.DefaultIdentity(), budget.Default())
	for host, want := range map[string]string{
		"h0.a0.a.example": "a0", "h14.a1.a.example": "a1", "h7.a65.a.example": "a65", "h0.a66.a.example": "a66", "h0.a67.a.example": "a66", "h0.a69.a.example": "a66",
		"h0.b70.b.example": "b70", "h0.b79.b.example": "b70",
	} {
		if got := findRoute(t, result.Set, host, "/0"); got != "tenant HTTPRoute/"+want {
			t.Errorf("%s: route %s, want %s", host, got, want)
		}
	}
	if !strings.HasPrefix(result.LeftOut, "80 routes of spec.routeMatching are left out") {
		t.Errorf("left out: %s", result.LeftOut)
	}
}
