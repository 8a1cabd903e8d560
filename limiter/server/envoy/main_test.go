package envoy

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// transportOfTests serves the limiters of the tests that do not choose one. All tests run with each transport.
var transportOfTests = FastTransport

// transports runs the tests once for each transport.
type transports struct{ *testing.M }

func (t transports) Run() int {
	flag.Parse()
	for _, transportOfTests = range []Transport{StandardTransport, FastTransport} {
		if code := t.M.Run(); code != 0 {
			fmt.Fprintf(os.Stderr, "the tests failed with the transport %q\n", transportOfTests)
			return code
		}
		if isSet("test.fuzz") || isSet("test.bench") {
			break
		}
	}
	return 0
}

func isSet(name string) bool { return flag.Lookup(name).Value.String() != "" }

func TestMain(m *testing.M) { goleak.VerifyTestMain(transports{m}) }
