package selection

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// attached returns a policy for the route checkout.
func attached(generation, limit int64) v1alpha1.RateLimitPolicy {
	p := policy("checkout", generation, limit)
	p.Spec.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: "checkout"}}
	return p
}

// withCheckout are objects that can be read.
func withCheckout() *gateway.Objects {
	return &gateway.Objects{Routes: []gateway.Route{{Kind: v1alpha1.TargetHTTPRoute, Namespace: "shop", Name: "checkout"}}}
}

// unreadable are objects that cannot be read, next to the rules of before.
func unreadable(t *testing.T, err error, before *RuleSet) *gateway.Objects {
	t.Helper()
	previous, decodeErr := rules.DecodeAs(archived(t, before), before.Revision)
	if decodeErr != nil {
		t.Fatal(decodeErr)
	}
	return &gateway.Objects{Unreadable: err, Previous: previous}
}

func TestCompile_KeepsTheTargetsThatCannotBeRead(t *testing.T) {
	daily, checkout, forbidden := policy("daily", 1, 10), Key{Name: "shop/checkout"}, errors.New("forbidden")
	compiled := func(p v1alpha1.RateLimitPolicy) *RuleSet {
		all := policies(daily, p)
		all.Gateways = withCheckout()
		return compiler.Compile(nil, limiterAt(1), all, Hashes{GatewaysHash: 1})
	}
	before, untargeted := compiled(attached(1, 10)), compiled(policy("checkout", 1, 10))
	another := *before
	another.Limiter.UID, another.Policies = "another", map[types.UID]int64{"daily": 7, "checkout": 7}
	newer := attached(1, 10)
	newer.Name, newer.UID, newer.Spec.Axis = "newer", "newer", v1alpha1.AxisIP
	newer.Spec.TargetRefs[0].Name = "missing"
	for name, test := range map[string]struct {
		before, previous *RuleSet
		err              error
		now              stored.Policies
		generation       int64 // of the policy with the target; 0 is an older one
		targets          bool  // whether the previous ones are known
		message          string
	}{
		"nothing changed":              {before, before, forbidden, policies(daily, attached(1, 10)), 1, true, "forbidden"},
		"the objects are being listed": {before, before, gateway.ErrGatewaysPending, policies(daily, attached(1, 10)), 1, true, ""},
		"another policy has targets":   {before, before, forbidden, policies(daily, attached(1, 10), newer), 1, true, "forbidden"},
		"the policy is edited":         {before, before, forbidden, policies(daily, attached(2, 99)), 0, true, "forbidden"},
		"an edit keeps the rule":       {before, before, forbidden, policies(daily, attached(2, 10)), 0, true, "forbidden"},
		"the operator restarts":        {nil, before, forbidden, policies(daily, attached(1, 10)), 1, false, "forbidden"},
		"edited before a restart":      {nil, before, forbidden, policies(daily, attached(2, 99)), 0, false, "forbidden"},
		"another Limiter of the name":  {&another, before, forbidden, policies(daily, attached(1, 10)), 1, false, "forbidden"},
		"the policy had no targets":    {untargeted, untargeted, forbidden, policies(daily, attached(2, 10)), 0, false, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			test.now.Gateways = unreadable(t, test.err, test.previous)
			set := compiler.Compile(test.before, limiterAt(1), test.now, Hashes{GatewaysHash: 2})
			if diff := cmp.Diff(map[Key]bool{checkout: true}, set.Kept); diff != "" || set.Unreadable != test.message {
				t.Errorf("unreadable: %q, want %q; kept (-want +got):\n%s", set.Unreadable, test.message, diff)
			}
			if daily, p := set.Policies["daily"], set.Policies["checkout"]; daily != 1 || p != test.generation {
				t.Errorf("generations %d and %d, want 1 and %d", daily, p, test.generation)
			}
			if targets, known := set.Targets[checkout]; known != test.targets || known && (len(targets) != 1 || targets[0].Reason != "Accepted") {
				t.Errorf("targets %+v, want the previous ones: %t", targets, test.targets)
			}
			if want := len(test.now.Namespaced) > 2; (len(set.Targets[Key{Name: "shop/newer"}]) == 1) != want {
				t.Errorf("targets %+v, want those of the newer policy: %t", set.Targets, want)
			}
			if diff := cmp.Diff(test.previous.Rules["shop/checkout"].Revision, set.Rules["shop/checkout"].Revision); diff != "" {
				t.Errorf("the revision of the rule (-previous +now):\n%s", diff)
			}
		})
	}
	readable := policies(daily, attached(1, 10))
	readable.Gateways = withCheckout()
	if set := compiler.Compile(before, limiterAt(2), readable, Hashes{GatewaysHash: 2}); set.Kept != nil || set.Unreadable != "" {
		t.Errorf("kept %v of objects that can be read: %q", set.Kept, set.Unreadable)
	}
}

func TestRestore_FindsThePoliciesWithTargets(t *testing.T) {
	all := policies(attached(1, 10))
	all.Gateways = withCheckout()
	before := compiler.Compile(nil, limiterAt(1), all, Hashes{})
	forbidden := &gateway.Objects{Unreadable: errors.New("forbidden")}
	for name, test := range map[string]struct {
		gateways   *gateway.Objects
		now        v1alpha1.RateLimitPolicy
		generation int64
	}{
		"readable":           {withCheckout(), attached(1, 10), 1},
		"readable, edited":   {withCheckout(), attached(2, 99), 0},
		"unreadable":         {forbidden, attached(1, 10), 1},
		"unreadable, edited": {forbidden, attached(2, 99), 0},
	} {
		in := Inputs{Policies: policies(test.now)}
		in.Gateways = test.gateways
		restored, err := compiler.Restore(limiterAt(1), in, archived(t, before), before.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[types.UID]int64{"checkout": test.generation}, restored.Policies); diff != "" {
			t.Errorf("%s: generations (-want +got):\n%s", name, diff)
		}
	}
}
