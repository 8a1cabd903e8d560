package latency

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// AloneEnv is the environment variable with the path of a file on which make test-all holds a lock while it runs other packages.
const AloneEnv = "WEIR_TEST_ALONE"

// Alone waits until the tests of other packages have ended. A test that measures latency calls it first. Such tests come last in their
// package, so that the tests before them do not wait: the go command runs tests in the order of the names of their files.
func Alone(t testing.TB) {
	t.Helper()
	path := os.Getenv(AloneEnv)
	if path == "" {
		return
	}
	f, err := os.Open(path) //nolint:gosec // G304: the path is that of make test-all
	if err != nil {
		t.Fatalf("wait until other tests have ended: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() }) // unlocks
	err = syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatalf("wait until other tests have ended: lock %s: %v", path, err)
	}
}
