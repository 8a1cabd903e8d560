package gatewayapi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// A gateway accepts a ListenerSet if one of its listeners is valid. The others can be in conflict, and take no requests. They still exist for policies.
func TestConvert_ListenerThatDoesNotServeTakesNoRequests(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       bool // of a Gateway
	}{
		"no conditions": {nil, true},
		"programmed":    {[]metav1.Condition{{Type: "Accepted", Status: "True"}, {Type: "Programmed", Status: "True"}}, true},
		"unknown":       {[]metav1.Condition{{Type: "Accepted", Status: "Unknown"}, {Type: "Programmed", Status: "Unknown"}}, true},
		"rejected":      {[]metav1.Condition{{Type: "Accepted", Status: "False"}}, false},
		"invalid":       {[]metav1.Condition{{Type: "Accepted", Status: "True"}, {Type: "Programmed", Status: "False", Reason: "Invalid"}}, false},
		"pending":       {[]metav1.Condition{{Type: "Accepted", Status: "True"}, {Type: "Programmed", Status: "False", Reason: "Pending"}}, true},
	} {
		gateway, set := &gatewayv1.Gateway{}, &gatewayv1.ListenerSet{}
		gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "other", Protocol: "HTTP"}, {Name: "a", Protocol: "HTTP"}}
		gateway.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "a", Conditions: test.conditions}}
		set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "other", Protocol: "HTTP"}, {Name: "a", Protocol: "HTTP"}}
		accepted := []metav1.Condition{{Type: "Accepted", Status: "True"}}
		set.Status.Listeners = []gatewayv1.ListenerEntryStatus{{Name: "other", Conditions: accepted}, {Name: "a", Conditions: test.conditions}}
		set.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: "True"}}
		Trim(gateway)
		Trim(set)
		g := Convert(gateway, set)
		for kind, all := range map[string][]bool{
			"Gateway":     {g.Gateways[0].Listeners[0].HTTP, g.Gateways[0].Listeners[1].HTTP},
			"ListenerSet": {g.ListenerSets[0].Listeners[0].HTTP, g.ListenerSets[0].Listeners[1].HTTP},
		} {
			want := test.want && (kind == "Gateway" || name != "no conditions" && name != "unknown")
			if !all[0] || all[1] != want {
				t.Errorf("%s: %s takes requests: %v for the other listener, %v for this one, want %v", name, kind, all[0], all[1], want)
			}
		}
	}
}

// A tenant adds a listener with the host of another one to an accepted ListenerSet, or changes one. It is rejected later.
func TestConvert_ListenerThatTheGatewayHasNotSeenTakesNoRequests(t *testing.T) {
	accepted := func(generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: "Accepted", Status: "True", ObservedGeneration: generation}}
	}
	for name, test := range map[string]struct {
		status []gatewayv1.ListenerEntryStatus
		want   bool
	}{
		"no status":          {nil, false},
		"another listener":   {[]gatewayv1.ListenerEntryStatus{{Name: "b", Conditions: accepted(7)}}, false},
		"not accepted":       {[]gatewayv1.ListenerEntryStatus{{Name: "a"}}, false},
		"earlier generation": {[]gatewayv1.ListenerEntryStatus{{Name: "a", Conditions: accepted(6)}}, false},
		"this generation":    {[]gatewayv1.ListenerEntryStatus{{Name: "a", Conditions: accepted(7)}}, true},
		"no generation":      {[]gatewayv1.ListenerEntryStatus{{Name: "a", Conditions: accepted(0)}}, true},
	} {
		set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
		set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "a", Protocol: "HTTPS"}}
		set.Status.Listeners, set.Status.Conditions = test.status, accepted(6)
		if got := Convert(set).ListenerSets[0].Listeners[0].HTTP; got != test.want {
			t.Errorf("%s: takes requests: %v, want %v", name, got, test.want)
		}
	}
}
