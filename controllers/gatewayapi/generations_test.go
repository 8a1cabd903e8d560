package gatewayapi

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// version is a version of a ListenerSet whose listeners have a host for each letter of hosts, and the status that the gateway has written for the
// observed generation: it has accepted all listeners but those of rejected.
func version(generation, observed int64, hosts, rejected string) *gatewayv1.ListenerSet {
	o := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: generation, Namespace: "shop", Name: "s"}}
	for _, letter := range hosts {
		hostname := gatewayv1.Hostname(string(letter) + ".example")
		o.Spec.Listeners = append(o.Spec.Listeners, gatewayv1.ListenerEntry{Name: gatewayv1.SectionName("l" + string(letter)), Hostname: &hostname, Protocol: "HTTP", Port: 80})
	}
	if observed == 0 {
		return o
	}
	o.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: "True", ObservedGeneration: observed}}
	for letter := 'a'; letter <= 'z'; letter++ {
		status := metav1.ConditionTrue
		if strings.ContainsRune(rejected, letter) {
			status = metav1.ConditionFalse
		}
		o.Status.Listeners = append(o.Status.Listeners, gatewayv1.ListenerEntryStatus{
			Name: gatewayv1.SectionName("l" + string(letter)), Conditions: []metav1.Condition{{Type: "Accepted", Status: status, ObservedGeneration: observed}},
		})
	}
	return o
}

// hostsOf returns the letters of the hosts that take requests.
func hostsOf(o *gatewayv1.ListenerSet) string {
	var hosts strings.Builder
	for _, set := range Convert(o).ListenerSets {
		for _, l := range set.Listeners {
			if l.HTTP {
				hosts.WriteString(l.Hostname[:1])
			}
		}
	}
	return hosts.String()
}

// A tenant must not leave the limits of the Gateway by edits that are faster than the gateway, nor keep a host that the gateway has taken away.
func TestGenerations_ServeTheSpecThatTheGatewayHasObserved(t *testing.T) {
	type step struct {
		generation, observed  int64
		hosts, rejected, want string
	}
	for name, steps := range map[string][]step{
		"new":              {{1, 0, "a", "", ""}, {1, 1, "a", "", "a"}},
		"constant edits":   {{1, 1, "a", "", "a"}, {2, 1, "b", "", "a"}, {3, 1, "c", "", "a"}, {3, 2, "c", "", "b"}, {4, 2, "d", "", "b"}, {4, 4, "d", "", "d"}},
		"rejected":         {{1, 1, "ab", "", "ab"}, {2, 1, "abc", "", "ab"}, {3, 2, "xyz", "bc", "a"}},
		"removed":          {{1, 1, "ab", "", "ab"}, {2, 1, "b", "", "ab"}, {2, 2, "b", "", "b"}},
		"older version":    {{2, 2, "b", "", "b"}, {1, 1, "a", "", "b"}, {3, 2, "c", "", "b"}},
		"unknown":          {{5, 3, "e", "", ""}, {6, 3, "f", "", ""}, {6, 5, "f", "", "e"}},
		"later unknown":    {{1, 1, "a", "", "a"}, {9, 5, "i", "", "a"}, {9, 9, "i", "", "i"}},
		"status is lost":   {{1, 1, "a", "", "a"}, {2, 0, "b", "", "a"}},
		"spec without one": {{1, 1, "a", "", "a"}, {2, 1, "", "", "a"}, {2, 2, "", "", ""}},
	} {
		g := &generations{}
		for i, s := range steps {
			if got := hostsOf(g.serve(version(s.generation, s.observed, s.hosts, s.rejected))); got != s.want {
				t.Errorf("%s, step %d: hosts %q, want %q", name, i, got, s.want)
			}
		}
	}
}

func TestGenerations_WithoutObservedGenerationServesTheSpec(t *testing.T) {
	g := &generations{}
	g.serve(version(1, 1, "a", ""))
	o := version(2, 1, "b", "")
	o.Status.Conditions[0].ObservedGeneration = 0
	for i := range o.Status.Listeners {
		o.Status.Listeners[i].Conditions[0].ObservedGeneration = 0
	}
	if got := hostsOf(g.serve(o)); got != "b" {
		t.Errorf("hosts %q, want b", got)
	}
}

func TestGenerations_AreBounded(t *testing.T) {
	g := &generations{}
	g.serve(version(1, 1, "a", ""))
	for i := range int64(1000) {
		if got := hostsOf(g.serve(version(2+i, 1, "b", ""))); got != "a" {
			t.Fatalf("generation %d: hosts %q, want a", 2+i, got)
		}
	}
	if n := len(g.sets["u"].specs); n != maxGenerations {
		t.Errorf("%d specs, want %d", n, maxGenerations)
	}
	if got := hostsOf(g.serve(version(1002, 1002, "c", ""))); got != "c" || len(g.sets["u"].specs) != 1 {
		t.Errorf("hosts %q and %d specs, want c and 1", got, len(g.sets["u"].specs))
	}
}

func TestGenerations_FollowTheCache(t *testing.T) {
	g := &generations{}
	g.add(version(1, 1, "a", ""))
	for i, s := range []struct {
		generation, observed int64
		want                 string // hosts before and after
	}{{2, 1, "a a"}, {3, 1, "a a"}, {3, 2, "a b"}, {3, 3, "b b"}} {
		before, after := g.replace(version(s.generation, 1, "x", ""), version(s.generation, s.observed, "b", ""))
		got := ""
		if b, is := before.(*gatewayv1.ListenerSet); is {
			got = hostsOf(b)
		}
		if a, is := after.(*gatewayv1.ListenerSet); is {
			got = fmt.Sprint(got, " ", hostsOf(a))
		}
		if got != s.want {
			t.Errorf("step %d: %s, want %s", i, got, s.want)
		}
	}
	other := version(1, 1, "o", "")
	other.UID = types.UID("other")
	g.add(other)
	g.remove(toolscache.DeletedFinalStateUnknown{Obj: version(3, 3, "b", "")})
	if g.sets["u"] != nil || g.sets["other"] == nil {
		t.Errorf("after a deletion: %v", g.sets)
	}
	g.remove(other)
	route := &gatewayv1.HTTPRoute{}
	g.add(route)
	g.remove(route)
	if before, after := g.replace(route, route); before != any(route) || after != any(route) || g.servedBy(route) != route || len(g.sets) > 0 {
		t.Errorf("an HTTPRoute: %v, %v, %v", before, after, g.sets)
	}
}
