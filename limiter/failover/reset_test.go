package failover_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
)

// Reset fails for unavailable counters, as that of Redis does.
func (r *remote) Reset(ctx context.Context, keys []string, id string) error {
	if slices.ContainsFunc(keys, r.Unavailable) {
		return errLost
	}
	if id == "" {
		return r.Store.Reset(ctx, keys, "")
	}
	for _, key := range keys {
		if err := r.resetOnce(ctx, key, id, true); err != nil {
			return err
		}
	}
	return nil
}

// ResetOnce is Reset unless the ID is known, as that of Redis.
func (r *remote) ResetOnce(ctx context.Context, key, id string) error {
	if r.Unavailable(key) {
		return errLost
	}
	return r.resetOnce(ctx, key, id, false)
}

func (r *remote) resetOnce(ctx context.Context, key, id string, drop bool) error {
	if _, known := r.resets.LoadOrStore(key+id, drop); known {
		return nil
	}
	return r.Store.Reset(ctx, []string{key}, "")
}

func (w *world) spendAll(t *testing.T, c limiter.Charge) (allowed int) {
	t.Helper()
	for w.spend(t, c)[0].Allowed {
		allowed++
	}
	return allowed
}

func TestReset_DuringAnOutageIsNotUndoneByTheReport(t *testing.T) {
	w, c := newWorld(), one(t, "a", 4)
	w.spendAll(t, c)
	w.remote.set(all, none)
	if w.spend(t, c)[0].Allowed {
		t.Fatal("local mode does not know what was spent before the outage")
	}
	for range 2 { // what is spent after the first reset is dropped by the second one
		if err := w.Reset(t.Context(), []string{"a"}, ""); err != nil {
			t.Fatal(err)
		}
		if got := w.spendAll(t, c); got != 4 {
			t.Errorf("%d units after a reset, want 4", got)
		}
	}
	if err := w.Reset(t.Context(), []string{"a"}, ""); err != nil || w.PendingResets() != 1 {
		t.Errorf("%d resets wait (%v), want 1", w.PendingResets(), err)
	}
	w.spend(t, c)
	w.remote.set(none, none)
	if err := w.Recovering(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if got := w.counted(t, c); got != 1 || w.PendingResets() != 0 {
		t.Errorf("the remote store counts %d units and %d resets wait, want only the unit after the last reset", got, w.PendingResets())
	}
}

func TestReset_WaitsForThePartThatIsStillUnavailable(t *testing.T) {
	w, a, b := newWorld(), one(t, "a", 2), one(t, "b", 2)
	w.spendAll(t, a)
	w.spendAll(t, b)
	w.remote.set(all, none)
	if err := w.Reset(t.Context(), []string{"a", "b"}, ""); err != nil {
		t.Fatal(err)
	}
	w.remote.set(keys("b"), none)
	for want := 1; want >= 0; want-- {
		if err := w.Recovering(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if w.counted(t, a) != 0 || w.PendingResets() != want {
			t.Errorf("a counts %d units, %d resets wait, want %d", w.counted(t, a), w.PendingResets(), want)
		}
		w.remote.set(none, none)
	}
	if got := w.counted(t, b); got != 0 {
		t.Errorf("b counts %d units", got)
	}
}

func TestReset_ForgetsWhatWasLearned(t *testing.T) {
	w, c := newWorld(), one(t, "a", 2)
	w.spendAll(t, c)
	if err := w.Reset(t.Context(), []string{"a"}, ""); err != nil || w.counted(t, c) != 0 || w.PendingResets() != 0 {
		t.Fatalf("the remote store counts %d units, %d resets wait (%v)", w.counted(t, c), w.PendingResets(), err)
	}
	w.remote.set(all, none)
	if !w.spend(t, c)[0].Allowed {
		t.Error("an outage after a reset denies")
	}
}

func TestReset_BoundsTheResetsThatWait(t *testing.T) {
	w := newWorld()
	w.remote.set(all, none)
	var list []string
	for i := range 10_001 {
		list = append(list, strconv.Itoa(i))
	}
	if err := w.Reset(t.Context(), list[:10_000], ""); err != nil {
		t.Fatal(err)
	}
	if err := w.Reset(t.Context(), list, ""); err == nil || w.PendingResets() != 10_000 {
		t.Errorf("%d resets wait (%v)", w.PendingResets(), err)
	}
}

// A replica that recovers later must not reset what the first one has reported.
func TestReset_ResetsOnceForAllReplicas(t *testing.T) {
	w, c := newWorld(), one(t, "a", 4)
	other := failover.New(w.remote, local.New(1<<20, w.clock), w.clock, slog.New(slog.DiscardHandler))
	w.spendAll(t, c)
	w.remote.set(all, none)
	for _, s := range []*failover.Store{w.Store, other} {
		if err := s.Reset(t.Context(), []string{"a"}, "id"); err != nil {
			t.Fatal(err)
		}
	}
	w.spend(t, c)
	w.remote.set(none, none)
	for _, s := range []*failover.Store{w.Store, other} {
		if err := s.Recovering(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.counted(t, c); got != 1 || other.PendingResets() != 0 {
		t.Errorf("the remote store counts %d units and %d resets wait, want the unit after the reset", got, other.PendingResets())
	}
}

// cutOff is the remote store of a replica that cannot reach it, although others can.
type cutOff struct {
	*remote

	cut bool
}

func (c *cutOff) Unavailable(string) bool { return c.cut }

// The replica that still reaches the remote store resets it immediately. The other one must not drop what was counted since.
func TestReset_IsNotRepeatedByAReplicaThatWasCutOff(t *testing.T) {
	w, c := newWorld(), one(t, "a", 4)
	remote := &cutOff{remote: w.remote, cut: true}
	other := failover.New(remote, local.New(1<<20, w.clock), w.clock, slog.New(slog.DiscardHandler))
	w.spendAll(t, c)
	for _, s := range []*failover.Store{w.Store, other} {
		if err := s.Reset(t.Context(), []string{"a"}, "id"); err != nil {
			t.Fatal(err)
		}
	}
	if dropped, known := w.remote.resets.Load("aid"); !known || dropped != true {
		t.Errorf("the other replicas drop what they have spent: %v, want true", dropped)
	}
	for range 3 {
		w.spend(t, c)
	}
	remote.cut = false
	if err := other.Recovering(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if got := w.counted(t, c); got != 3 || other.PendingResets() != 0 {
		t.Errorf("the remote store counts %d units and %d resets wait, want the 3 units after the reset", got, other.PendingResets())
	}
}

func TestReset_ReportsThatTheStoreDidNotReset(t *testing.T) {
	w := newWorld()
	failing := failover.New(&failingResets{w.remote}, local.New(1<<20, w.clock), w.clock, slog.New(slog.DiscardHandler))
	if err := failing.Reset(t.Context(), []string{"a", "b"}, "id"); !errors.Is(err, errLost) {
		t.Errorf("error %v", err)
	}
}

type failingResets struct{ *remote }

func (*failingResets) Reset(context.Context, []string, string) error { return errLost }
