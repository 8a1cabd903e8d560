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
		want       bool
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
		set.Status.Listeners = []gatewayv1.ListenerEntryStatus{{Name: "a", Conditions: test.conditions}}
		set.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: "True"}}
		Trim(gateway)
		Trim(set)
		g := Convert(gateway, set)
		for kind, all := range map[string][]bool{
			"Gateway":     {g.Gateways[0].Listeners[0].HTTP, g.Gateways[0].Listeners[1].HTTP},
			"ListenerSet": {g.ListenerSets[0].Listeners[0].HTTP, g.ListenerSets[0].Listeners[1].HTTP},
		} {
			if !all[0] || all[1] != test.want {
				t.Errorf("%s: %s takes requests: %v for the other listener, %v for this one, want %v", name, kind, all[0], all[1], test.want)
			}
		}
	}
}
