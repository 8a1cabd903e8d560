package route

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// A search is reused. Without that, each request takes memory for all conditions of the table. It keeps nothing of a request: neither its memory,
// nor indexes that each later request would have to clear.
func TestFind_ReusesASearchAndKeepsNothing(t *testing.T) {
	prefix := rules.PathMatch{Type: rules.PathPrefix, Value: "/"}
	table, err := Compile(&rules.RouteTable{
		Routes: []rules.Route{{Target: "a"}},
		Matches: []rules.RouteMatch{
			{Path: prefix, Headers: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x", Value: "1"}}, Query: []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "q", Value: "1"}}},
		},
		Listeners: []rules.RouteListener{{Hosts: []rules.RouteHost{{Matches: []int{0}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reused := 0
	for range 100 { // the race detector makes pools lose some
		table.Find(&Request{Method: "GET", Host: "h", Target: "/?q=1", Headers: map[string]string{"x": "1"}})
		s, _ := table.searches.Get().(*routeSearch)
		if s == nil {
			continue
		}
		reused++
		if s.request != nil || s.path != "" || s.query != "" || s.paths != nil || len(s.compared) > 0 || len(s.looked) > 0 {
			t.Fatalf("it keeps %+v, %q, %q, %d results and %d headers", s.request, s.path, s.query, len(s.compared), len(s.looked))
		}
		for i := range s.headers {
			if got := fmt.Sprintf("%+v", s.headers[i]); got != fmt.Sprintf("%+v", routeHeader{}) {
				t.Fatalf("it keeps the header %s", got)
			}
		}
		table.searches.Put(s)
	}
	if reused == 0 {
		t.Error("a search is not reused")
	}
}
