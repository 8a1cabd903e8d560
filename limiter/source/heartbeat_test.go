package source

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-dev/weir/test/fixture"
)

const never = time.Hour // an interval that does not end within a test

func TestHeartbeat_BeatsOnRequestAndDeregisters(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var beats, farewells atomic.Int32
	beat := func(context.Context) error { beats.Add(1); return nil }
	forget := func(ctx context.Context) error { farewells.Add(1); return ctx.Err() }
	var log logbook

	h := NewHeartbeat(never, beat, forget, log.logger())
	stop := running(t, h.Run)
	fixture.Await(t, "it beats at the start", func() bool { return beats.Load() == 1 })
	h.Now()
	fixture.Await(t, "it beats on request", func() bool { return beats.Load() == 2 })
	if n := farewells.Load(); n != 0 {
		t.Errorf("it deregistered %d times while running", n)
	}
	stop()
	if n := farewells.Load(); n != 1 {
		t.Errorf("it deregistered %d times, want once", n)
	}
	if n := log.count("level="); n != 0 {
		t.Errorf("%d log lines of a heartbeat without errors", n)
	}
}

func TestHeartbeat_BeatsEveryInterval(t *testing.T) {
	var beats atomic.Int32
	beat := func(context.Context) error { beats.Add(1); return nil }
	forget := func(context.Context) error { return nil }
	var log logbook
	running(t, NewHeartbeat(time.Millisecond, beat, forget, log.logger()).Run)
	fixture.Await(t, "it beats again and again", func() bool { return beats.Load() >= 5 })
}

func TestHeartbeat_LogsAnOutageOnce(t *testing.T) {
	var beats atomic.Int32
	var broken atomic.Bool
	broken.Store(true)
	beat := func(context.Context) error {
		beats.Add(1)
		if broken.Load() {
			return errors.New("no Redis")
		}
		return nil
	}
	forget := func(context.Context) error { return errors.New("no Redis either") }
	var log logbook
	stop := running(t, NewHeartbeat(time.Millisecond, beat, forget, log.logger()).Run)
	fixture.Await(t, "it keeps trying", func() bool { return beats.Load() >= 5 })
	if n := log.count("heartbeats fail"); n != 1 {
		t.Errorf("%d log lines of one outage, want 1", n)
	}
	broken.Store(false)
	fixture.Await(t, "the end of the outage is logged", func() bool { return log.count("heartbeats succeed again") == 1 })
	stop()
	if n := log.count("no Redis either"); n != 1 {
		t.Errorf("%d log lines of a failed deregistration, want 1", n)
	}
}
