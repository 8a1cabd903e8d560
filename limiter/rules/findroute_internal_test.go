package rules

import (
	"fmt"
	"testing"
)

// A search is reused. Without that, each request takes memory for all conditions of the table. It keeps nothing of a request: neither its memory,
// nor indexes that each later request would have to clear.
func TestFind_ReusesASearchAndKeepsNothing(t *testing.T) {
	prefix := PathMatch{Type: PathPrefix, Value: "/"}
	table, err := compileRouteTable(&RouteTable{
		Routes: []Route{{Target: "a"}},
		Matches: []RouteMatch{
			{Path: prefix, Headers: []HeaderMatch{{Type: HeaderExact, Name: "x", Value: "1"}}, Query: []HeaderMatch{{Type: HeaderExact, Name: "q", Value: "1"}}},
		},
		Listeners: []RouteListener{{Hosts: []RouteHost{{Matches: []int{0}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	reused := 0
	for range 100 { // the race detector makes pools lose some
		table.find(&RouteRequest{Method: "GET", Host: "h", Target: "/?q=1", Headers: map[string]string{"x": "1"}})
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
