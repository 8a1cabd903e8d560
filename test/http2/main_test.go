// Package http2_test tests the gRPC port of a limiter as HTTP/2: what broken and hostile peers get and cost, and that others are still
// served.
package http2_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
