package accesslog_test

import (
	"context"
	"testing"
	"time"
)

// contextWithTimeout returns a context that ends soon.
func contextWithTimeout(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 300*time.Millisecond)
}
