package latency

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAlone_WaitsUntilOtherTestsHaveEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	others, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(others.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	t.Setenv(AloneEnv, path)
	var ended atomic.Bool
	time.AfterFunc(100*time.Millisecond, func() {
		ended.Store(true)
		_ = others.Close()
	})
	Alone(t)
	if !ended.Load() {
		t.Error("the test does not wait")
	}
}

func TestAlone_DoesNotWaitWithoutOtherTests(t *testing.T) {
	t.Setenv(AloneEnv, "")
	Alone(t)
}
