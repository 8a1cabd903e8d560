package redisstore_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// waiting is the number of parallel tests at the same time. They mostly wait for clusters, Sentinels and failovers, so they
// need no CPU each.
const waiting = "6"

// TestMain fails if goroutines still run when the tests have stopped everything. It waits for them, because a connection
// pool that could not connect checks only once a second whether it is closed.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", waiting); err != nil { // the command line can replace it
		panic(err)
	}
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
