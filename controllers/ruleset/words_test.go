package ruleset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// dialed is how a connection fails, from a port of its own.
func dialed(cause error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}, Err: os.NewSyscallError("connect", cause)}
}

func cut(port int, cause error) error {
	from, to := &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: port}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}
	return &net.OpError{Op: "read", Net: "tcp", Source: from, Addr: to, Err: cause}
}

func TestTroubleIsToldAgainWhenItIsAnother(t *testing.T) {
	noHost := dialed(&net.DNSError{Err: "no such host", Name: "redis", Server: "10.96.0.10:53", IsNotFound: true})
	refused := fmt.Errorf("look at Redis: %w", dialed(syscall.ECONNREFUSED))
	wrongPassword, noRight := errors.New("WRONGPASS invalid username-password pair"), errors.New("NOPERM this user has no permissions")
	for name, test := range map[string]struct {
		attempts []error
		told     []int // which of the attempts
	}{
		"a password that is put right, of a user without rights": {[]error{wrongPassword, wrongPassword, noRight, noRight}, []int{0, 0, 2, 2}},
		"a name that is found, of a server that is not there":    {[]error{noHost, refused}, []int{0, 1}},
		"the same from another port":                             {[]error{cut(40001, errors.New("odd")), cut(40002, errors.New("odd"))}, []int{0, 0}},
		"a connection that breaks, and none after it":            {[]error{fmt.Errorf("list replicas: %w", io.EOF), cut(40001, syscall.ECONNRESET), refused}, []int{0, 0, 0}},
		"no answer, here and there": {
			[]error{fmt.Errorf("list replicas: %w", cut(40001, os.ErrDeadlineExceeded)), fmt.Errorf("look: %w", context.DeadlineExceeded)}, []int{0, 0},
		},
		"an expired certificate at another time of day": {
			[]error{errors.New("x509: current time 2026-11-21T10:00:00Z is after it"), errors.New("x509: current time 2026-11-21T10:00:05Z is after it")}, []int{0, 0},
		},
		"now in this way and now in that": {[]error{noHost, refused, noHost, refused, noHost, refused}, []int{0, 1, 1, 1, 1, 1}},
		"back to what it was, for good":   {[]error{noHost, refused, noHost, noHost, noHost, noHost, noHost}, []int{0, 1, 1, 1, 1, 5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			var o outage
			var told, want []string
			for i, err := range test.attempts {
				o.tell(NewStoreError(v1alpha1.ReasonStoreUnreachable, err))
				told, want = append(told, o.first.Error()), append(want, test.attempts[test.told[i]].Error())
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTroubleHalfMendedIsToldInTheStatusAndAtRestNothingIs(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	why := "secret weir-system/redis is not there"
	h.one().Open = func(*v1alpha1.Limiter) (Store, error) {
		return nil, NewStoreError(v1alpha1.ReasonSecretNotFound, errors.New(why))
	}
	h.reconcile()
	began := since(h.now)
	for _, why = range []string{"secret weir-system/redis is not there", "secret weir-system/redis has no key password"} {
		h.reconcile()
		if want := "Redis cannot be used" + began + ": spec.redis: " + why; h.degraded().Message != want {
			t.Errorf("Degraded says %q, want %q", h.degraded().Message, want)
		}
		h.says("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
		limiter, policies := h.limiter("default").ResourceVersion, h.versions()
		for range 10 {
			h.reconcile()
		}
		if h.limiter("default").ResourceVersion != limiter {
			t.Error("the Limiter's status was written again while the same was wrong")
		}
		if diff := cmp.Diff(policies, h.versions()); diff != "" {
			t.Errorf("the policies' statuses were written again while the same was wrong (-before +after):\n%s", diff)
		}
	}
}
