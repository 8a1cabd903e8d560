package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/weir-dev/weir/limiter"
)

// kinded is an error that describes itself.
type kinded struct{ error }

func (kinded) Kind() string { return "loading" }

func (k kinded) Unwrap() error { return k.error }

// endless is an error with a method Timeout, which is not that of a timeout.
type endless struct{ error }

func (endless) Timeout() bool { return false }

func TestErrorKind_ClassifiesErrors(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"an error that describes itself":          {fmt.Errorf("spend: %w", kinded{context.Canceled}), "loading"},
		"a call that was canceled":                {fmt.Errorf("spend: %w", context.Canceled), "canceled"},
		"a call that took too long":               {fmt.Errorf("spend: %w", context.DeadlineExceeded), "timeout"},
		"a connection that took too long":         {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout"},
		"a connection that failed":                {&net.OpError{Op: "read", Err: refused}, "other"},
		"an error that could be a timeout":        {endless{refused}, "other"},
		"any other error":                         {refused, "other"},
		"several errors, one of them of any kind": {errors.Join(refused, kinded{refused}), "loading"},
	} {
		if got := limiter.ErrorKind(test.err); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
