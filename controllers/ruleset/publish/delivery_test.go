package publish

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestLocalMode_CountsReplicasAndKeepsTheFirstTime(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 21, 10, minute, 0, 0, time.UTC) }
	for name, test := range map[string]struct {
		replicas []Replica
		want     LocalMode
	}{
		"with Redis":              {[]Replica{{Mode: "redis", Since: at(1)}, {Since: at(1)}}, LocalMode{}},
		"one without a time":      {[]Replica{{Mode: ModeLocal}}, LocalMode{Replicas: 1}},
		"the first is the oldest": {[]Replica{{Mode: ModeLocal, Since: at(1)}, {Mode: ModeLocal, Since: at(2)}, {Mode: ModeLocal}}, LocalMode{3, at(1)}},
		"the last is the oldest":  {[]Replica{{Mode: ModeLocal}, {Mode: ModeLocal, Since: at(2)}, {Mode: ModeLocal, Since: at(1)}}, LocalMode{3, at(1)}},
	} {
		var l LocalMode
		for _, r := range test.replicas {
			l.Add(r)
		}
		if l != test.want {
			t.Errorf("%s: %+v, want %+v", name, l, test.want)
		}
	}
}

func TestDelivery_EqualComparesWhatPoliciesReport(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	full := func() Delivery {
		return Delivery{
			Replicas: []ServingReplica{{"r1", map[string]string{"shop/daily": "1"}}, {"r2", nil}}, AtLeast: 3,
			Local: LocalMode{1, at}, Outage: Outage{"StoreDenied", "NOPERM", at},
		}
	}
	for name, test := range map[string]struct {
		change func(*Delivery)
		equal  bool
	}{
		"nothing":                          {func(*Delivery) {}, true},
		"a copy of the time":               {func(d *Delivery) { d.Outage.Since = at.In(time.FixedZone("CET", 3600)) }, true},
		"what only Limiters report":        {func(d *Delivery) { d.Redis.Version, d.Scripts = "8.0.1", []Script{{}} }, true},
		"a lower bound that is not needed": {func(d *Delivery) { d.Replicas, d.AtLeast = append(d.Replicas, ServingReplica{"r3", nil}), 3 }, false},
		"a replica that rejects its rules": {func(d *Delivery) { d.Rejected = "replica a rejects the rules: bad" }, false},
		"a policy with many identifiers":   {func(d *Delivery) { d.Crowded = map[string]limiter.Crowding{"shop/daily": limiter.NearMemory} }, false},
		"a policy that has decided":        {func(d *Delivery) { d.Decided = map[string]*DecidedRules{"r1": {}} }, false},
		"a replica that does not report":   {func(d *Delivery) { d.NotReporting = true }, false},
		"connecting":                       {func(d *Delivery) { d.Connecting = true }, false},
		"the message of the outage":        {func(d *Delivery) { d.Outage.Message = "NOAUTH" }, false},
		"the reason of the outage":         {func(d *Delivery) { d.Outage.Reason = "StoreUntrusted" }, false},
		"the begin of the outage":          {func(d *Delivery) { d.Outage.Since = at.Add(1) }, false},
		"the replicas that decide locally": {func(d *Delivery) { d.Local.Replicas = 2 }, false},
		"the number of replicas":           {func(d *Delivery) { d.AtLeast = 4 }, false},
		"the revision of a replica":        {func(d *Delivery) { d.Replicas[1].Revision = "r1" }, false},
		"the rules of a replica":           {func(d *Delivery) { d.Replicas[0].Rules = nil }, false},
	} {
		other := full()
		test.change(&other)
		if full().Equal(other) != test.equal || other.Equal(full()) != test.equal {
			t.Errorf("after a change of %s: equal is %v, want %v", name, !test.equal, test.equal)
		}
	}
}

func TestDelivery_CountsTheReplicasThatEnforceARule(t *testing.T) {
	set := &selection.RuleSet{Encoded: rules.Encoded{Revision: "new"}, Rules: map[string]selection.Rule{"shop/daily": {Revision: "1"}, "shop/hourly": {Revision: "2"}}}
	all := ServingReplica{"new", map[string]string{"shop/daily": "1", "shop/hourly": "2"}}
	equal := ServingReplica{"old", map[string]string{"shop/daily": "1", "shop/hourly": "2", "shop/gone": "3"}}
	unknown := ServingReplica{"new", nil} // its rule set was not read, but has the revision
	part := ServingReplica{"other", map[string]string{"shop/daily": "1", "shop/hourly": "1"}}
	outage := Outage{Message: "refused"}
	for name, test := range map[string]struct {
		d                    Delivery
		acknowledged         int32 // shop/hourly
		enforced             bool
		enforcing            int32
		enforcedAll, serving bool
	}{
		"no replica":                   {Delivery{}, 0, false, 0, false, false},
		"all":                          {Delivery{Replicas: []ServingReplica{all, equal}}, 2, true, 2, true, true},
		"one has another rule":         {Delivery{Replicas: []ServingReplica{all, part}}, 1, false, 1, false, true},
		"one has no heartbeat":         {Delivery{Replicas: []ServingReplica{all}, AtLeast: 2}, 1, false, 1, false, true},
		"only ready pods":              {Delivery{AtLeast: 1}, 0, false, 0, false, true},
		"more than the ready pods":     {Delivery{Replicas: []ServingReplica{all, equal}, AtLeast: 1}, 2, true, 2, true, true},
		"an outage":                    {Delivery{Replicas: []ServingReplica{all}, Outage: outage}, 1, false, 1, false, true},
		"the revision without content": {Delivery{Replicas: []ServingReplica{unknown}}, 0, false, 1, true, true},
	} {
		d := test.d
		if got := d.Acknowledged("shop/hourly", "2"); got != test.acknowledged {
			t.Errorf("%s: %d replicas enforce the rule, want %d", name, got, test.acknowledged)
		}
		if d.Enforced("shop/hourly", "2") != test.enforced || d.Enforcing(set) != test.enforcing || d.EnforcedAll(set) != test.enforcedAll || (d.Serving() > 0) != test.serving {
			t.Errorf("%s: enforced %v, %d enforce all, all %v, %d serve; want %+v", name, d.Enforced("shop/hourly", "2"), d.Enforcing(set), d.EnforcedAll(set), d.Serving(), test)
		}
	}
}
