package identity_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// waiting is the number of parallel tests at the same time. They wait, and need little of a CPU.
const waiting = "4"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", waiting); err != nil { // the command line can replace it
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
