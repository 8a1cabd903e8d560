package gateway

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestStatusOf_IsWhatEnvoyGatewayReportsForThisGeneration(t *testing.T) {
	const pending = "Envoy Gateway has not processed it: check that Envoy Gateway runs, and that the class of the Gateway is its class"
	for name, c := range map[string]struct{ conditions, state, message string }{
		"no status":                    {"[]", "Pending", pending},
		"another generation":           {"[{type: Accepted, status: 'True', observedGeneration: 2}]", "Pending", pending},
		"another condition":            {"[{type: Warning, status: 'True', observedGeneration: 3, message: old field}]", "Pending", pending},
		"accepted":                     {"[{type: Accepted, status: 'True', observedGeneration: 3, message: fine}]", "Accepted", ""},
		"rejected":                     {"[{type: Accepted, status: 'False', observedGeneration: 3, reason: Invalid, message: no grant}]", "Invalid", "no grant"},
		"overridden":                   {"[{type: Accepted, status: 'True', observedGeneration: 3}, {type: Overridden, status: 'True', observedGeneration: 3, message: x}]", "Overridden", "x"},
		"overridden, in another order": {"[{type: Overridden, status: 'True', observedGeneration: 3, message: x}, {type: Accepted, status: 'True', observedGeneration: 3}]", "Overridden", "x"},
		"not overridden":               {"[{type: Accepted, status: 'True', observedGeneration: 3}, {type: Overridden, status: 'False', observedGeneration: 3}]", "Accepted", ""},
		"rejected by one of two controllers": {
			"[{type: Accepted, status: 'False', reason: Invalid, message: bad, observedGeneration: 3}, {type: Accepted, status: 'True', observedGeneration: 3}]", "Invalid", "bad",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := Attachment{Gateway: types.NamespacedName{Namespace: "infra", Name: "public"}, Limiter: types.NamespacedName{Namespace: "limits", Name: "a"}}
			policy := a.Objects()[1]
			policy.SetGeneration(3)
			var conditions []any
			if err := yaml.Unmarshal([]byte(c.conditions), &conditions); err != nil {
				t.Fatal(err)
			}
			policy.Object["status"] = map[string]any{"ancestors": []any{"invalid", map[string]any{"conditions": conditions}}}
			want := Status{Gateway: "infra/public", Limiter: "limits/a", SecurityPolicy: "infra/weir-public", State: c.state, Message: c.message}
			if got := statusOf(policy); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if got := statusOf(policy); got.Healthy() != (c.state == "Accepted" || c.state == "Overridden") {
				t.Errorf("%s is healthy: %t", c.state, got.Healthy())
			}
		})
	}
}

func TestObjects_NeedAGrantOnlyForAnotherNamespace(t *testing.T) {
	same := Attachment{Gateway: types.NamespacedName{Namespace: "a", Name: "b.c"}, Limiter: types.NamespacedName{Namespace: "a", Name: "d"}}
	if got := same.Objects(); len(got) != 1 || got[0].GetKind() != "SecurityPolicy" {
		t.Errorf("in the same namespace: %v", got)
	}
	// The names of the grants of two Gateways differ, although both texts are the same without separators.
	if one, other := grantKey(types.NamespacedName{Namespace: "a", Name: "b.c"}, "x"), grantKey(types.NamespacedName{Namespace: "a-b", Name: "c"}, "x"); one == other {
		t.Errorf("two Gateways have the grant %s", one)
	}
}
