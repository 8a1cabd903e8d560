package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// primaries starts a Redis Cluster of n nodes.
func primaries(t *testing.T, n int) *fixture.RedisClusterGroup {
	t.Helper()
	cluster, err := fixture.StartRedisPrimaries(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// identifierOn returns an identifier whose counters are on a node, in another slot than those of other numbers.
func identifierOn(t *testing.T, cluster *fixture.RedisClusterGroup, node *fixture.RedisProcess, number int) string {
	t.Helper()
	for i := 0; ; i++ {
		identifier := fmt.Sprintf("id-%d-%d", number, i)
		primary, err := cluster.PrimaryOf(t.Context(), "{"+identifier+"}")
		if err != nil {
			t.Fatal(err)
		}
		if primary == node {
			return identifier
		}
	}
}

// Two nodes that each take more than half of the timeout have the time of a call at the same time.
func TestSpendAcross_ASlowNodeTakesNoTimeFromAnother(t *testing.T) {
	t.Parallel()
	const timeout, pause = 2 * time.Second, 1200 * time.Millisecond
	cluster := primaries(t, 2)
	client, err := redisclient.Open(cluster.URL(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(client, timeout)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store.EnableBreaker(ctx, newOutageRecorder())
	var both []limiter.Charge
	for i, node := range cluster.Nodes() {
		both = append(both, unitsOf(t, "slow", identifierOn(t, cluster, node, i), 10)...)
	}
	awaitSpend(t, store, both)
	for _, node := range cluster.Nodes() {
		do(t, node, "CLIENT", "PAUSE", strconv.FormatInt(pause.Milliseconds(), 10), "ALL")
	}
	decisions, err := store.Spend(t.Context(), both)
	if err != nil || decisions[0].Remaining != 8 || decisions[1].Remaining != 8 {
		t.Errorf("%+v, %v, want 8 units to remain on both nodes", decisions, err)
	}
}

// TestSpendAcross tests requests with charges in several slots of a Redis Cluster: on one node, which decides them together, and on
// several nodes.
func TestSpendAcross(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			t.Parallel()
			testSpendAcross(t, primaries(t, nodes))
		})
	}
}

func testSpendAcross(t *testing.T, cluster *fixture.RedisClusterGroup) { //nolint:gocyclo // the subtests share the cluster
	t.Helper()
	nodes := cluster.Nodes()
	raw := rawClient(t, cluster.URL())
	failures := make(chan error, 100)
	store := redisstore.NewStore(open(t, cluster.URL()), longTimeout,
		redisstore.WithInvalidations(redisstore.InvalidationChannel("weir:")), redisstore.WithRefundFailures(func(err error) { failures <- err }))
	var identifiers []string
	for i := range 4 {
		identifiers = append(identifiers, identifierOn(t, cluster, nodes[i%len(nodes)], i))
	}
	everyNode := func(command ...string) {
		t.Helper()
		for _, node := range nodes {
			do(t, node, command...)
		}
	}

	charges := func(policy string, units ...int64) []limiter.Charge {
		var all []limiter.Charge
		for i, n := range units {
			all = append(all, unitsOf(t, policy, identifiers[i], n)...)
		}
		return all
	}
	left := func(t *testing.T, charges []limiter.Charge) []int64 {
		t.Helper()
		var units []int64
		for _, c := range charges {
			units = append(units, peekRemaining(t, store, []limiter.Charge{c}))
		}
		return units
	}
	wantLeft := func(t *testing.T, charges []limiter.Charge, want ...int64) {
		t.Helper()
		if got := left(t, charges); !slices.Equal(got, want) {
			t.Errorf("%v units remain, want %v", got, want)
		}
	}

	t.Run("CountsEveryCharge", func(t *testing.T) {
		all := charges("counts", 10, 20, 30)
		all[1].Cost = 2
		decisions, err := store.Spend(t.Context(), []limiter.Charge{all[2], all[0], all[1]})
		if err != nil || decisions[0].Remaining != 29 || decisions[1].Remaining != 9 || decisions[2].Remaining != 18 {
			t.Errorf("got %+v, %v; want 29, 9 and 18 remaining", decisions, err)
		}
		wantLeft(t, all, 9, 18, 29)
		decisions, err = store.Peek(t.Context(), []limiter.Charge{all[1], all[2], all[0]})
		if err != nil || decisions[0].Remaining != 18 || decisions[1].Remaining != 29 || decisions[2].Remaining != 9 {
			t.Errorf("peek: got %+v, %v; want 18, 29 and 9 remaining", decisions, err)
		}
	})
	t.Run("CountsLogsThatAreReadInPlace", func(t *testing.T) {
		all := charges("logs", 10, 1000, 2000)
		for spent := range int64(3) {
			decisions, err := store.Spend(t.Context(), all)
			if err != nil || decisions[0].Remaining != 9-spent || decisions[1].Remaining != 999-spent || decisions[2].Remaining != 1999-spent {
				t.Errorf("got %+v, %v; want the limits less %d", decisions, err, spent+1)
			}
		}
	})
	t.Run("RefundsWhatAnotherSlotDenied", func(t *testing.T) { // at first the nodes do not have the scripts
		for denied, want := range [][]int64{{0, 10, 10}, {10, 0, 10}, {10, 10, 0}} {
			all := charges(fmt.Sprintf("denies-%d", denied), 10, 10, 10)
			full := slices.Clone(all[denied : denied+1])
			full[0].Cost = 10
			remaining(t, store, full)
			decisions, err := store.Spend(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range decisions {
				if d.Allowed != (i != denied) || d.Remaining != want[i] {
					t.Errorf("slot %d is full: decision %d is %+v, want %d remaining", denied, i, d, want[i])
				}
			}
			wantLeft(t, all, want...)
		}
	})
	t.Run("StartsCorruptCountersOver", func(t *testing.T) {
		all := charges("corrupt", 10, 10)
		if err := raw.RPush(t.Context(), all[0].Key, "not a counter").Err(); err != nil {
			t.Fatal(err)
		}
		decisions, err := store.Spend(t.Context(), all)
		if err != nil || decisions[0].Remaining != 9 || decisions[1].Remaining != 9 {
			t.Errorf("got %+v, %v; want 9 and 9 remaining", decisions, err)
		}
		wantLeft(t, all, 9, 9)
	})
	t.Run("RefundsTheOtherSlotsOfOneThatFails", func(t *testing.T) {
		all := charges("fails", 10, 10, 10, 10)
		limit, err := limiter.NewLimit(limiter.FixedWindow, 10, limiter.MaxWindow)
		if err != nil {
			t.Fatal(err)
		}
		full := limiter.Charge{Key: "weir:{" + identifiers[0] + "}:full", Limit: limit, Cost: 10}
		remaining(t, store, []limiter.Charge{full})
		shadow := full
		shadow.Shadow, shadow.Cost = true, 1 // denied, so there is nothing to refund
		slots := []string{"ACL", "SETUSER", "default", "resetkeys"}
		for _, i := range []int{0, 1, 3} {
			slots = append(slots, "~*{"+identifiers[i]+"}*")
		}
		everyNode(slots...)
		if decisions, err := store.Spend(t.Context(), append([]limiter.Charge{shadow}, all...)); redisclient.Kind(err) != redisclient.KindDenied {
			t.Errorf("got %+v, %v; want the error of slot 2", decisions, err)
		}
		everyNode("ACL", "SETUSER", "default", "allkeys")
		others := []limiter.Charge{all[0], all[1], all[3]}
		fixture.Await(t, "the other slots have their units again", func() bool {
			return slices.Equal(left(t, others), []int64{10, 10, 10})
		})
		wantLeft(t, []limiter.Charge{full}, 0)
		for _, c := range others {
			if n := raw.Exists(t.Context(), c.Key).Val(); n != 0 {
				t.Errorf("%s exists", c.Key)
			}
		}
		if len(failures) > 0 {
			t.Errorf("a refund failed: %v", <-failures)
		}
	})
	if len(nodes) == 1 {
		return // a node that decides all slots together refunds nothing
	}
	t.Run("ReportsARefundThatFailed", func(t *testing.T) {
		all := charges("reports", 10, 10, 1)
		remaining(t, store, all[2:])
		everyNode("ACL", "SETUSER", "default", "-publish") // refund.lua publishes the keys
		defer everyNode("ACL", "SETUSER", "default", "+publish")
		if _, err := store.Spend(t.Context(), all); err != nil {
			t.Errorf("%v, want no error: the request is denied", err)
		}
		for range 2 {
			if err := <-failures; redisclient.Kind(err) != redisclient.KindDenied {
				t.Errorf("error %v, want a missing permission", err)
			}
		}
	})
}

// refusing is a proxy before a node that refuses scripts without keys: those that read other slots have them among their arguments.
type refusing struct {
	scripts []string // SHAs
	refused atomic.Int32
}

// refusal is an error reply.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func (r *refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" || !slices.Contains(r.scripts, fmt.Sprint(cmd.Args()[1])) {
			return next(ctx, cmd)
		}
		r.refused.Add(1)
		err := refusal("ERR invalid number of keys for 'evalsha' command")
		cmd.SetErr(err)
		return err
	}
}

func (r *refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestSpendAcross_DecidesWhereAProxyRefusesScriptsWithoutKeys(t *testing.T) {
	t.Parallel()
	cluster := primaries(t, 1)
	client := open(t, cluster.URL())
	node := &refusing{}
	for _, script := range redisstore.Scripts() {
		if strings.HasSuffix(script.Name, "_any_slot") {
			node.scripts = append(node.scripts, script.SHA)
		}
	}
	nodes, _ := client.Cluster()
	if err := nodes.ForEachMaster(t.Context(), func(_ context.Context, primary *redis.Client) error {
		primary.AddHook(node)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	store := redisstore.NewStore(client, longTimeout)
	var all []limiter.Charge
	for i := range 3 {
		all = append(all, unitsOf(t, "apart", identifierOn(t, cluster, cluster.Nodes()[0], i), 10)...)
	}
	for spent := range int64(3) {
		decisions, err := store.Spend(t.Context(), all)
		if err != nil || decisions[0].Remaining != 9-spent || decisions[1].Remaining != 9-spent || decisions[2].Remaining != 9-spent {
			t.Errorf("got %+v, %v; want %d remaining", decisions, err, 9-spent)
		}
	}
	if node.refused.Load() == 0 {
		t.Error("the node was not asked to decide all slots together")
	}
}

// barrier holds the commands to nodes until as many are under way as expected: they share a round trip.
type barrier struct {
	arrived chan chan struct{}
}

func (b *barrier) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *barrier) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			b.wait()
		}
		return next(ctx, cmd)
	}
}

func (b *barrier) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // not the first commands of a connection
			b.wait()
		}
		return next(ctx, cmds)
	}
}

func (b *barrier) wait() {
	released := make(chan struct{})
	b.arrived <- released
	<-released
}

// roundTrip releases the commands of a round trip to that many nodes.
func (b *barrier) roundTrip(t *testing.T, nodes int) {
	t.Helper()
	var held []chan struct{}
	for range nodes {
		select {
		case released := <-b.arrived:
			held = append(held, released)
		case <-time.After(longTimeout / 2):
			t.Errorf("%d commands are under way, want %d", len(held), nodes)
		}
	}
	for _, released := range held {
		close(released)
	}
}

func TestSpendAcross_TakesOneRoundTripAndASecondIfDenied(t *testing.T) {
	t.Parallel()
	cluster := primaries(t, 3)
	client := open(t, cluster.URL())
	if _, err := client.LoadScripts(t.Context(), redisstore.Scripts()); err != nil {
		t.Fatal(err)
	}
	trips := &barrier{arrived: make(chan chan struct{})}
	nodes, _ := client.Cluster()
	if err := nodes.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
		node.AddHook(trips)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	store := redisstore.NewStore(client, longTimeout)
	var all []limiter.Charge
	for i, node := range cluster.Nodes() {
		all = append(all, unitsOf(t, "trips", identifierOn(t, cluster, node, i), int64(2+i))...)
	}
	// Two slots on the first node, which decides them together.
	all = append(all, unitsOf(t, "trips", identifierOn(t, cluster, cluster.Nodes()[0], 3), 9)...)
	spend := func(roundTrips ...int) []limiter.Decision {
		t.Helper()
		outcome := make(chan []limiter.Decision)
		go func() {
			decisions, err := store.Spend(t.Context(), all)
			if err != nil {
				t.Error(err)
				decisions = make([]limiter.Decision, len(all))
			}
			outcome <- decisions
		}()
		for _, nodes := range roundTrips {
			trips.roundTrip(t, nodes)
		}
		select {
		case decisions := <-outcome:
			return decisions
		case <-trips.arrived:
			t.Fatalf("more than %d round trips", len(roundTrips))
			return nil
		}
	}
	for spent := range int64(2) {
		for i, d := range spend(3) {
			if want := []int64{2, 3, 4, 9}[i] - spent - 1; !d.Allowed || d.Remaining != want {
				t.Errorf("counter %d: %+v, want it allowed and %d units to remain", i, d, want)
			}
		}
	}
	for i, d := range spend(3, 2) { // the first node denies, the others refund
		if want := []int64{0, 1, 2, 7}[i]; d.Allowed != (i != 0) || d.Remaining != want {
			t.Errorf("counter %d after a denial: %+v, want %d units to remain", i, d, want)
		}
	}
}

// While a slot moves, its keys are on two nodes, and the other keys of a request on one.
func TestSpendAcross_CountsEachRequestOnceWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := primaries(t, 2)
	store := redisstore.NewStore(open(t, cluster.URL()), longTimeout)
	var common []limiter.Charge
	for i, node := range cluster.Nodes() {
		common = append(common, unitsOf(t, "common", identifierOn(t, cluster, node, i), shared)...)
	}
	common = append(common, unitsOf(t, "common", identifierOn(t, cluster, cluster.Nodes()[0], 2), shared)...)
	l := newLoad(t, store, longTimeout)
	for i := range l.calls {
		l.wg.Go(func() {
			for l.next() {
				if l.call(t.Context(), common) {
					l.admitted.Add(1)
				}
				l.calls[i].Add(1)
			}
		})
	}
	l.awaitRounds(t, 20)
	m, err := cluster.BeginMigration(t.Context(), common[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	l.awaitRounds(t, 20)
	if err := m.MoveKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.awaitRounds(t, 20)
	if err := m.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.awaitRounds(t, 20)
	l.halt()
	if n := l.failures.Load(); n > 0 {
		t.Errorf("%d calls failed, want 0", n)
	}
	for _, c := range common {
		if got := shared - peekRemaining(t, store, []limiter.Charge{c}); got != l.admitted.Load() {
			t.Errorf("%s: counted %d, want the %d admitted", c.Key, got, l.admitted.Load())
		}
	}
}

// A request that is denied on one node counts nowhere, whatever else is denied at the same time.
func TestSpendAcross_NeverExceedsALimitUnderContention(t *testing.T) {
	t.Parallel()
	cluster := primaries(t, 3)
	store := redisstore.NewStore(open(t, cluster.URL()), longTimeout)
	const limit, callers = 40, 16
	var all []limiter.Charge
	for i, node := range cluster.Nodes() {
		all = append(all, unitsOf(t, "contention", identifierOn(t, cluster, node, i), limit)...)
	}
	admitted := make(chan int, callers)
	for range callers {
		go func() {
			n := 0
			defer func() { admitted <- n }()
			for range limit {
				decisions, err := store.Spend(t.Context(), all)
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.ContainsFunc(decisions, func(d limiter.Decision) bool { return !d.Allowed }) {
					n++
				}
			}
		}()
	}
	total := 0
	for range callers {
		total += <-admitted
	}
	if total > limit || total < limit/2 {
		t.Errorf("%d of %d units admitted", total, limit)
	}
	for _, c := range all {
		if left := peekRemaining(t, store, []limiter.Charge{c}); left != int64(limit-total) {
			t.Errorf("%s: %d units remain, want %d", c.Key, left, limit-total)
		}
	}
}
