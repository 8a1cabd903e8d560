package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitStatus_PrintsAnErrorOnce(t *testing.T) {
	cause := errors.New("cause")
	for name, tc := range map[string]struct {
		err    error
		status int
		stderr string
	}{
		"no error":                  {nil, 0, ""},
		"an error of the command":   {cause, 1, "weir lint: cause\n"},
		"a usage error":             {UsageError(cause), 2, "weir lint: cause\n"},
		"an error that was printed": {&ExitError{Code: 1}, 1, ""},
		"a wrapped error":           {errors.Join(UsageError(cause)), 2, "weir lint: cause\n"},
		"a joined error":            {errors.Join(errors.New("first"), &ExitError{Code: 2, Err: cause}), 2, "weir lint: first\n  cause\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if got := exitStatus("weir lint", tc.err, &stderr); got != tc.status || stderr.String() != tc.stderr {
				t.Errorf("status %d, %q; want %d, %q", got, stderr.String(), tc.status, tc.stderr)
			}
		})
	}
	if !errors.Is(UsageError(cause), cause) {
		t.Error("a usage error hides its cause")
	}
}

func TestInterruptible_EndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &cobra.Command{Use: "lint"}
	cmd.SetContext(ctx)
	forever := make(chan struct{})
	cancel()
	err := Interruptible(func(*cobra.Command, []string) error { <-forever; return nil })(cmd, nil)
	close(forever)
	var status *ExitError
	if !errors.As(err, &status) || status.Code != ExitInterrupted {
		t.Errorf("%v", err)
	}
	cmd.SetContext(t.Context())
	cause := errors.New("cause")
	if err := Interruptible(func(*cobra.Command, []string) error { return cause })(cmd, nil); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
