package redisclient_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// waiting is the number of parallel tests at the same time. They wait for clusters and Sentinels, and need no CPU each.
const waiting = "4"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", waiting); err != nil { // the command line can replace it
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
