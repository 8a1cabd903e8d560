package weir_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// longTimeout bounds every wait of the tests.
const longTimeout = 30 * time.Second

// TestMain fails if goroutines still run when the tests have closed everything. A connection pool that could not connect checks only once a second
// whether it is closed.
func TestMain(m *testing.M) {
	status := m.Run()
	err := goleak.Find()
	for deadline := time.Now().Add(longTimeout); err != nil && time.Now().Before(deadline); {
		err = goleak.Find()
	}
	if err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}
