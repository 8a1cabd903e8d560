package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
)

// memory is a Store in memory. Every method returns the error for its name, if there is one.
type memory struct {
	name     string
	calls    []string
	failing  map[string]error
	active   string
	sets     map[string][]byte
	replicas []Replica
	old      bool // the replicas read no shards
	redis    Redis
}

func (m *memory) call(name string) error {
	m.calls = append(m.calls, name)
	return m.failing[name]
}

func (m *memory) count(name string) (n int) {
	for _, call := range m.calls {
		if call == name {
			n++
		}
	}
	return n
}

func (m *memory) Inspect(context.Context) (Redis, error) { return m.redis, m.call("inspect") }

func (m *memory) LoadScripts(context.Context) ([]Script, error) {
	return []Script{{Name: "spend", LoadedOn: 1}}, m.call("scripts")
}

func (m *memory) Publish(_ context.Context, set rules.Encoded, rewrite bool) (changed bool, err error) {
	if err := m.call("publish"); err != nil {
		return false, err
	}
	if rewrite {
		m.calls = append(m.calls, "rewrite")
	}
	data, err := set.Archive()
	if err != nil {
		return false, err
	}
	changed = m.active != set.Revision
	m.active, m.sets[set.Revision] = set.Revision, data
	return changed, nil
}

func (m *memory) Active(context.Context) (revision string, sequence int64, err error) {
	sequence, _ = rules.Sequence(m.sets[m.active])
	return m.active, sequence, m.call("active")
}

func (m *memory) Archive(_ context.Context, revision string) (data []byte, found bool, err error) {
	data, found = m.sets[revision]
	return data, found, m.call("load")
}

func (m *memory) Replicas(context.Context) ([]Replica, error) {
	replicas := slices.Clone(m.replicas)
	for i := range replicas {
		if !m.old {
			replicas[i].Format = rules.Format
		}
	}
	return replicas, m.call("replicas")
}

func (m *memory) Leave(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Second {
		m.calls = append(m.calls, "leave without a timeout")
	}
	return m.call("leave")
}

func (m *memory) Clear(context.Context) error { return m.call("clear") }
func (m *memory) Close() error                { return m.call("close") }

// publishing is a Publisher with the stores that it opens, by the address of Redis.
type publishing struct {
	*testing.T
	*Publisher
	now     time.Time
	stores  map[string]*memory
	opening error // of Open
	limiter *v1alpha1.Limiter
	lines   []string // of the log
}

func newPublishing(t *testing.T) *publishing {
	p := &publishing{T: t, now: time.Unix(1_800_000_000, 0), stores: map[string]*memory{}, limiter: &v1alpha1.Limiter{}}
	for _, name := range []string{"a:6379", "b:6379"} {
		p.stores[name] = &memory{name: name, failing: map[string]error{}, sets: map[string][]byte{}, redis: Redis{Primaries: 1, Version: "7.2.4"}}
	}
	p.use("a:6379")
	p.Publisher = &Publisher{
		Open: func(l *v1alpha1.Limiter) (Store, error) {
			return p.stores[string(l.Spec.Redis.Addresses[0])], p.opening
		},
		Resync: time.Minute, Clock: func() time.Time { return p.now }, Sequence: &Sequence{Clock: func() time.Time { return p.now }},
	}
	return p
}

// use makes the Limiter name another Redis.
func (p *publishing) use(address string) {
	p.limiter.Spec.Redis.Addresses = []v1alpha1.RedisAddress{v1alpha1.RedisAddress(address)}
}

func (p *publishing) publish(set *selection.RuleSet) Delivery {
	logger := funcr.New(func(_, line string) { p.lines = append(p.lines, line) }, funcr.Options{})
	return p.Publish(log.IntoContext(p.Context(), logger), p.limiter, set)
}

func (p *publishing) logged(text string) int { return strings.Count(strings.Join(p.lines, "\n"), text) }

// setOf returns a rule set with the policies daily, with a limit, and hourly.
func setOf(limit int64) *selection.RuleSet {
	policy := func(name string, limit int64) v1alpha1.RateLimitPolicy {
		return v1alpha1.RateLimitPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1},
			Spec:       v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(limit), Window: "1m", Algorithm: v1alpha1.FixedWindow},
		}
	}
	of := stored.Policies{Namespaced: stored.Pointers([]v1alpha1.RateLimitPolicy{policy("daily", limit), policy("hourly", 10)})}
	return selection.Compiler{KeyPrefix: "weir:"}.Compile(nil, &v1alpha1.Limiter{}, of, selection.Hashes{})
}

func TestPublish_ReturnsTheRulesOfEachReplicaThatServes(t *testing.T) {
	p, set, previous := newPublishing(t), setOf(1), setOf(2)
	store := p.stores["a:6379"]
	p.publish(previous)
	began := p.now.Add(-time.Hour)
	store.replicas = []Replica{
		{ID: "starting", Rejected: "rule shop/x: bad"},
		{ID: "a", Revision: set.Revision},
		{ID: "b", Revision: previous.Revision, Mode: ModeLocal, Since: began, Rejected: "another"},
	}
	d := p.publish(set)
	want := []ServingReplica{{set.Revision, set.RuleRevisions()}, {previous.Revision, previous.RuleRevisions()}}
	if diff := cmp.Diff(want, d.Replicas); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if want := "replica starting rejects the rules: rule shop/x: bad"; d.Rejected != want {
		t.Errorf("rejected: %q, want %q", d.Rejected, want)
	}
	if d.Local != (LocalMode{1, began}) || d.Serving() != 2 || d.Unavailable() || d.Redis.Version != "7.2.4" || len(d.Scripts) != 1 {
		t.Errorf("%+v", d)
	}
	if store.active != set.Revision || store.count("load") != 0 || p.logged("published the rule set") != 2 {
		t.Errorf("active %s, %q", store.active, store.calls)
	}
	p.publish(set)
	if n := p.logged("published the rule set"); n != 2 {
		t.Errorf("%d log lines about two rule sets", n)
	}
}

// Another operator published the rule set, or it was published before a restart: its rules are read from Redis once.
func TestPublish_ReadsTheRulesOfUnknownRevisions(t *testing.T) {
	p, set, other := newPublishing(t), setOf(1), setOf(2)
	store := p.stores["a:6379"]
	store.sets[other.Revision], store.sets["sha256:damaged"] = archive(t, other), other.Data[:9]
	store.replicas = []Replica{{ID: "a", Revision: other.Revision}, {ID: "b", Revision: "sha256:missing"}, {ID: "c", Revision: "sha256:damaged"}}
	for range 2 {
		d := p.publish(set)
		if len(d.Replicas) != 3 || !cmp.Equal(d.Replicas[0].Rules, other.RuleRevisions()) || len(d.Replicas[1].Rules)+len(d.Replicas[2].Rules) != 0 {
			t.Errorf("replicas %+v", d.Replicas)
		}
	}
	if n := store.count("load"); n != 4 { // the missing one is looked for again
		t.Errorf("%d reads of three rule sets in two rounds, want 4", n)
	}
	if n := p.logged("cannot decode"); n != 1 {
		t.Errorf("%d log lines about a rule set that is damaged, want 1", n)
	}
}

func TestPublish_ReportsAnOutageAndKeepsTheLastKnownReplicas(t *testing.T) {
	for _, failing := range []string{"inspect", "scripts", "publish", "replicas", "load"} {
		t.Run(failing, func(t *testing.T) {
			p, set := newPublishing(t), setOf(1)
			store := p.stores["a:6379"]
			store.replicas = []Replica{{ID: "a", Revision: set.Revision}, {ID: "b", Revision: set.Revision}}
			if d := p.publish(set); d.Unavailable() || !d.EnforcedAll(set) {
				t.Fatalf("before: %+v", d)
			}
			p.now = p.now.Add(time.Minute) // inspects Redis again
			began := p.now
			store.failing[failing] = NewStoreError(v1alpha1.ReasonStoreDenied, errors.New("NOPERM"))
			store.replicas = []Replica{{ID: "a", Revision: "sha256:unknown"}}
			if p.logged("Redis can") != 0 {
				t.Errorf("log before the outage: %q", p.lines)
			}
			for range 3 {
				d := p.publish(set)
				if d.Outage != (Outage{v1alpha1.ReasonStoreDenied, "NOPERM", began}) || len(d.Replicas) != 2 || d.AtLeast != 2 || d.Redis.Version != "7.2.4" || d.EnforcedAll(set) {
					t.Errorf("in the outage: %+v", d)
				}
				p.now = p.now.Add(time.Second)
			}
			store.failing = map[string]error{}
			if d := p.publish(set); d.Unavailable() || len(d.Replicas) != 1 || d.Serving() != 2 {
				t.Errorf("after the outage: %+v, want that one replica is expected to connect again", d)
			}
			if p.logged("Redis cannot be used") != 1 || p.logged("Redis can be used again") != 1 {
				t.Errorf("log: %q", p.lines)
			}
		})
	}
}

func TestPublish_InspectsRedisOnceInAResync(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	store := p.stores["a:6379"]
	inspected := func(when string, want int) {
		t.Helper()
		p.publish(set)
		if n := store.count("inspect"); n != want {
			t.Errorf("%s: %d inspections, want %d", when, n, want)
		}
	}
	inspected("at first", 1)
	p.now = p.now.Add(time.Minute - 1)
	inspected("before the resync", 1)
	p.now = p.now.Add(1)
	inspected("at the resync", 2)
	store.failing["publish"] = errors.New("refused")
	inspected("when an outage begins", 2)
	inspected("in an outage", 3)
	store.failing = map[string]error{}
	inspected("at its end", 4)
	inspected("after it", 4)
}

func TestPublish_MovesToAnotherRedis(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	a, b := p.stores["a:6379"], p.stores["b:6379"]
	a.replicas = []Replica{{ID: "a", Revision: set.Revision}}
	p.publish(set)
	p.publish(set)
	a.failing["leave"] = errors.New("refused")
	p.use("b:6379")
	d := p.publish(set)
	if got := a.calls[len(a.calls)-2:]; !slices.Equal(got, []string{"leave", "close"}) || b.active != set.Revision {
		t.Errorf("the last calls of the previous Redis are %q; active in the next: %s", got, b.active)
	}
	if len(d.Replicas) != 0 || d.AtLeast != 0 || b.count("inspect") != 1 || p.logged("the rules stay in the previous Redis") != 1 {
		t.Errorf("%+v, %q", d, p.lines)
	}
	p.publish(set)
	if b.count("close")+b.count("leave") != 0 {
		t.Errorf("calls of the open Redis: %q", b.calls)
	}
	p.Close()
	p.Close()
	if b.count("close") != 1 || b.count("leave") != 0 {
		t.Errorf("after Close: %q", b.calls)
	}
}

func TestPublish_ReportsThatRedisCannotBeOpened(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	p.opening = NewStoreError(v1alpha1.ReasonInvalid, errors.New("no such Secret"))
	if d := p.publish(set); d.Outage.Reason != v1alpha1.ReasonInvalid || d.Outage.Message != "spec.redis: no such Secret" {
		t.Errorf("%+v", d.Outage)
	}
	if _, err := p.Load(t.Context(), p.limiter, set.Revision); err == nil {
		t.Error("Load returns no error")
	}
	if err := p.Clear(t.Context(), p.limiter); err == nil {
		t.Error("Clear returns no error")
	}
	p.opening = nil
	if d := p.publish(set); d.Unavailable() {
		t.Errorf("after it was resolved: %+v", d.Outage)
	}
	data, err := p.Load(t.Context(), p.limiter, set.Revision)
	if err != nil || !bytes.HasPrefix(data, rules.WithSequence(set.Data, p.now.UnixMilli())) {
		t.Errorf("Load: %d bytes, %v", len(data), err)
	}
	if err := p.Clear(t.Context(), p.limiter); err != nil || p.stores["a:6379"].count("clear") != 1 {
		t.Errorf("Clear: %v", err)
	}
}

// A pod that is ready serves, also if its heartbeat is missing.
func TestPublish_ExpectsAtLeastTheReadyPods(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	p.stores["a:6379"].replicas = []Replica{{ID: "a", Revision: set.Revision}}
	p.limiter.Status.ReadyReplicas = 3
	if d := p.publish(set); d.AtLeast != 3 || d.EnforcedAll(set) || d.Enforcing(set) != 1 {
		t.Errorf("%+v, want three replicas, of which one enforces the rules", d)
	}
	p.limiter.Status.ReadyReplicas = 0
	if d := p.publish(set); d.AtLeast != 1 || !d.EnforcedAll(set) {
		t.Errorf("%+v, want one replica", d)
	}
}

// Replicas report the rules under which they have decided a request. The operator keeps what it knows of the rule sets that are in use.
func TestPublish_KnowsUnderWhichRulesReplicasHaveDecided(t *testing.T) {
	p, set, previous := newPublishing(t), setOf(1), setOf(2) // the rule of hourly is in both
	store := p.stores["a:6379"]
	revision := func(set *selection.RuleSet, policy string) string { return set.Rules[policy].Revision }
	latest := p.publish(previous)
	const daily, hourly = 1, 2 // bits, in the order of the policies
	for i, round := range []struct {
		replicas                       []Replica
		daily, dailyPrevious, hourly   bool
		notReporting, changed, failing bool
	}{
		{replicas: nil},
		{replicas: []Replica{{ID: "a", Revision: set.Revision, Decided: []byte{}}}, changed: true},
		{replicas: []Replica{{ID: "a", Revision: set.Revision, Decided: []byte{daily}}}, daily: true, changed: true},
		{replicas: []Replica{{ID: "a", Revision: set.Revision, Decided: []byte{daily}}}, daily: true},
		{replicas: []Replica{{ID: "b", Revision: set.Revision, Decided: []byte{}}}, daily: true}, // another replica, after a restart
		{replicas: []Replica{{ID: "b", Revision: set.Revision, Decided: []byte{0, 0xff, 0xff}}}, daily: true},
		{failing: true, changed: true}, // the status remembers it
		{replicas: []Replica{{ID: "b", Revision: set.Revision}}, daily: true, notReporting: true, changed: true},
		{
			replicas: []Replica{{ID: "b", Revision: set.Revision, Decided: []byte{}}, {ID: "c", Revision: previous.Revision, Decided: []byte{daily | hourly}}},
			daily:    true, dailyPrevious: true, hourly: true, changed: true,
		},
		{replicas: []Replica{{ID: "c", Revision: previous.Revision, Decided: []byte{}}, {ID: "d", Revision: "sha256:missing", Decided: []byte{1}}}, dailyPrevious: true, hourly: true, changed: true},
		{replicas: []Replica{{ID: "b", Revision: set.Revision, Decided: []byte{}}}, changed: true}, // no replica had the set
		{replicas: []Replica{{ID: "starting"}}, changed: true},
	} {
		before := latest
		store.replicas, store.failing["replicas"] = round.replicas, nil
		if round.failing {
			store.failing["replicas"] = errors.New("refused")
		}
		hadDecided := before.HasDecided("shop/daily", revision(set, "shop/daily"))
		d := p.publish(set)
		latest = d
		if before.HasDecided("shop/daily", revision(set, "shop/daily")) != hadDecided {
			t.Errorf("round %d has changed the delivery of the previous one", i)
		}
		got := []bool{
			d.HasDecided("shop/daily", revision(set, "shop/daily")), d.HasDecided("shop/daily", revision(previous, "shop/daily")),
			d.HasDecided("shop/hourly", revision(set, "shop/hourly")), d.NotReporting, !d.Equal(before),
		}
		if diff := cmp.Diff([]bool{round.daily, round.dailyPrevious, round.hourly, round.notReporting, round.changed}, got); diff != "" {
			t.Errorf("round %d: daily, daily before, hourly, not reporting, changed (-want +got):\n%s", i, diff)
		}
	}
	if latest.HasDecided("shop/unknown", "") {
		t.Error("a policy without a rule has decided")
	}
}

func archive(t *testing.T, set *selection.RuleSet) []byte {
	t.Helper()
	data, err := set.Archive()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A replica without rules waits for the write.
func TestPublish_RepeatsAWriteThatFails(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	p.publish(set)
	store := p.stores["a:6379"]
	store.replicas = []Replica{{ID: "a", Rejected: "shard 3 is damaged"}}
	p.publish(set) // finds the replica
	store.failing["publish"] = errors.New("refused")
	p.publish(set)
	store.failing = map[string]error{}
	if p.publish(set); store.count("rewrite") != 1 {
		t.Errorf("written again %d times after a failure, want once", store.count("rewrite"))
	}
}

func TestPublish_WritesAgainWhatAReplicaRejects(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	p.publish(set)
	store := p.stores["a:6379"]
	store.replicas = []Replica{{ID: "a", Revision: set.Revision, Rejected: "shard 3 is damaged"}}
	for i, want := range []int{0, 1, 1, 1} {
		if p.publish(set); store.count("rewrite") != want {
			t.Errorf("call %d: written again %d times, want %d", i, store.count("rewrite"), want)
		}
		p.now = p.now.Add(10 * time.Second)
	}
	p.now = p.now.Add(time.Minute)
	if p.publish(set); store.count("rewrite") != 2 {
		t.Errorf("written again %d times after a minute, want 2", store.count("rewrite"))
	}
}

// A process with the credentials of limiters sends heartbeats with other reasons all the time.
func TestPublish_WritesAgainAtMostEveryTenSeconds(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	p.publish(set)
	store := p.stores["a:6379"]
	for i := range 60 {
		store.replicas = []Replica{{ID: "a", Revision: set.Revision, Rejected: fmt.Sprintf("reason %d", i)}}
		p.publish(set)
		p.now = p.now.Add(time.Second)
	}
	if n := store.count("rewrite"); n != 3+5 {
		t.Errorf("written again %d times in a minute, want three times without a wait, and then every ten seconds", n)
	}
}

// A process with the credentials of limiters sends heartbeats of replicas that enforce all rule sets in Redis, or missing ones.
func TestPublish_ReadsFewRuleSetsOfReplicas(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	store := p.stores["a:6379"]
	for i := range int64(100) {
		other := setOf(2 + i)
		store.sets[other.Revision] = archive(t, other)
		store.replicas = append(store.replicas, Replica{ID: fmt.Sprintf("a%d", i), Revision: other.Revision}, Replica{ID: fmt.Sprintf("b%d", i), Revision: "sha256:missing"})
	}
	store.replicas = append(store.replicas, Replica{ID: "real", Revision: set.Revision})
	for range 3 {
		store.calls = nil
		d := p.publish(set)
		if n := store.count("load"); n > 4 {
			t.Errorf("it reads %d rule sets, want at most 4", n)
		}
		if last := d.Replicas[len(d.Replicas)-1]; len(last.Rules) != 2 || len(d.Replicas) != 201 {
			t.Errorf("%d replicas, and the rules of the last one are %v", len(d.Replicas), last.Rules)
		}
	}
}

// A replica of the version before must not find a rule set that it cannot read.
func TestPublish_WaitsForAWholeRuleSetIfAReplicaReadsNoShards(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	store := p.stores["a:6379"]
	store.old, store.replicas = true, []Replica{{ID: "a", Revision: "sha256:before"}}
	if d := p.publish(set); !d.WantsWhole || store.count("publish") != 0 || d.Unavailable() || len(d.Replicas) != 1 {
		t.Errorf("%+v, published %d times", d, store.count("publish"))
	}
	whole, err := selection.Compiler{KeyPrefix: "weir:", Whole: true}.Encode(set)
	if err != nil || !whole.Whole || whole.Revision == set.Revision {
		t.Fatalf("%v, %v", whole, err)
	}
	if d := p.publish(whole); !d.WantsWhole || store.active != whole.Revision {
		t.Errorf("active %s, want %s", store.active, whole.Revision)
	}
	store.failing["publish"] = errors.New("refused")
	if d := p.publish(whole); !d.WantsWhole || !d.Unavailable() { // what replicas read does not change in an outage
		t.Errorf("in an outage: %+v", d)
	}
	delete(store.failing, "publish")
	store.old = false
	if d := p.publish(whole); d.WantsWhole {
		t.Errorf("after the replica was replaced: %+v", d)
	}
	if again, err := (selection.Compiler{KeyPrefix: "weir:"}).Encode(whole); err != nil || again.Revision != set.Revision {
		t.Errorf("encoded in shards again: revision %s, want %s; %v", again.Revision, set.Revision, err)
	}
}

func TestIsEnforced_IfAllReplicasHaveTheRuleSet(t *testing.T) {
	p, set := newPublishing(t), setOf(1)
	if p.IsEnforced(t.Context(), set) {
		t.Error("before Redis is open")
	}
	p.publish(set)
	store := p.stores["a:6379"]
	for name, test := range map[string]struct {
		replicas []Replica
		failing  error
		want     bool
	}{
		"without replicas":      {},
		"all have it":           {[]Replica{{ID: "a", Revision: set.Revision}, {ID: "b", Revision: set.Revision}}, nil, true},
		"one has another":       {[]Replica{{ID: "a", Revision: set.Revision}, {ID: "b", Revision: "sha256:before"}}, nil, false},
		"one has no rules":      {[]Replica{{ID: "a", Revision: set.Revision}, {ID: "b"}}, nil, false},
		"they are not readable": {[]Replica{{ID: "a", Revision: set.Revision}}, errors.New("refused"), false},
	} {
		store.replicas, store.failing["replicas"] = test.replicas, test.failing
		if got := p.IsEnforced(t.Context(), set); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A replica that rejects each rule set, for example because it is misconfigured, must not make each edit as expensive as all policies. Another reason of
// another replica can be damage.
func TestPublish_AnEditDoesNotRepeatWhatDoesNotHelp(t *testing.T) {
	p := newPublishing(t)
	p.publish(setOf(1))
	store := p.stores["a:6379"]
	misconfigured := Replica{ID: "a", Rejected: "rule shop/a: another hash key"}
	store.replicas = []Replica{misconfigured}
	for i := range int64(10) {
		p.publish(setOf(2 + i))
		p.now = p.now.Add(time.Second)
	}
	if got := store.count("rewrite"); got != 1 {
		t.Errorf("10 edits write everything again %d times, want once", got)
	}
	for i, replicas := range [][]Replica{
		{misconfigured, {ID: "b", Rejected: "shard 3 is damaged"}},
		{misconfigured, {ID: "b"}},                                 // repaired
		{misconfigured, {ID: "b", Rejected: "shard 3 is damaged"}}, // again
	} {
		store.replicas = replicas
		for range 3 {
			p.publish(setOf(20))
		}
		if got, want := store.count("rewrite"), []int{2, 2, 3}[i]; got != want {
			t.Errorf("step %d: written again %d times, want %d", i, got, want)
		}
	}
}
