package publish

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestOutageTracker_ReportsTheMostSpecificReason(t *testing.T) {
	const unreachable, denied, untrusted = v1alpha1.ReasonStoreUnreachable, v1alpha1.ReasonStoreDenied, v1alpha1.ReasonStoreUntrusted
	for name, test := range map[string]struct{ attempts, reported []string }{
		"the same reason all the time": {[]string{unreachable, unreachable}, []string{unreachable, unreachable}},
		"some connections break":       {[]string{untrusted, unreachable, untrusted, unreachable}, []string{untrusted, untrusted, untrusted, untrusted}},
		"Redis becomes unreachable":    {[]string{denied, unreachable, unreachable, denied}, []string{denied, denied, unreachable, denied}},
		"Redis answers with an error":  {[]string{unreachable, denied}, []string{unreachable, denied}},
		"another reason":               {[]string{denied, untrusted}, []string{denied, untrusted}},
	} {
		t.Run(name, func(t *testing.T) {
			var o outageTracker
			var reported []string
			for _, reason := range test.attempts {
				o.record(NewStoreError(reason, errors.New("why")), time.Now())
				reported = append(reported, o.reported.Reason)
			}
			if diff := cmp.Diff(test.reported, reported); diff != "" {
				t.Errorf("reported reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// dialed returns the error of a connection that cannot be opened.
func dialed(cause error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}, Err: os.NewSyscallError("connect", cause)}
}

// cut returns the error of a connection that breaks. Each connection has a port of its own.
func cut(port int, cause error) error {
	from, to := &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: port}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}
	return &net.OpError{Op: "read", Net: "tcp", Source: from, Addr: to, Err: cause}
}

// expired returns the error of an expired certificate, which contains the time of the check.
func expired(now string) error {
	return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time " + now + " is after 2026-11-20T00:00:00Z"}}
}

// noNode returns the error of a node that DNS does not know.
func noNode(n int) error {
	return dialed(&net.DNSError{Err: "no such host", Name: fmt.Sprintf("redis-%d.redis", n), Server: "10.96.0.10:53", IsNotFound: true})
}

// wrongName returns the error of a certificate that is not valid for the name of a node.
func wrongName(n int) error {
	certificate := &x509.Certificate{DNSNames: []string{"redis.example"}}
	return &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: certificate, Host: fmt.Sprintf("redis-%d.redis", n)}}
}

func TestOutageTracker_ReportsAnErrorWithAnotherCause(t *testing.T) {
	noHost := dialed(&net.DNSError{Err: "no such host", Name: "redis", Server: "10.96.0.10:53", IsNotFound: true})
	refused := fmt.Errorf("inspect Redis: %w", dialed(syscall.ECONNREFUSED))
	wrongPassword, noPermission := errors.New("WRONGPASS invalid username-password pair"), errors.New("NOPERM this user has no permissions")
	for name, test := range map[string]struct {
		attempts []error
		reported []int // index of the attempt whose error is reported after each attempt
	}{
		"a corrected password of a user without permissions":         {[]error{wrongPassword, wrongPassword, noPermission, noPermission}, []int{0, 0, 2, 2}},
		"a name that resolves now, of a server that does not listen": {[]error{noHost, refused}, []int{0, 1}},
		"the same cause from another port":                           {[]error{cut(40001, errors.New("odd")), cut(40002, errors.New("odd"))}, []int{0, 0}},
		"a connection that breaks, and the next that is refused":     {[]error{fmt.Errorf("list replicas: %w", io.EOF), cut(40001, syscall.ECONNRESET), refused}, []int{0, 0, 0}},
		"a timeout in several operations": {
			[]error{fmt.Errorf("list replicas: %w", cut(40001, os.ErrDeadlineExceeded)), fmt.Errorf("inspect: %w", context.DeadlineExceeded)}, []int{0, 0},
		},
		"an expired certificate at another time of day": {
			[]error{expired("2026-11-21T10:00:00Z"), expired("2026-11-21T10:00:05Z")}, []int{0, 0},
		},
		"the same errors of two Sentinels in another order": {
			[]error{errors.Join(noHost, wrongPassword), errors.Join(wrongPassword, noHost)}, []int{0, 0},
		},
		"another name server that does not know the host": {
			[]error{noHost, dialed(&net.DNSError{Err: "no such host", Name: "redis", Server: "10.96.0.11:53", IsNotFound: true})}, []int{0, 0},
		},
		"nodes of a cluster in a random order, unknown to DNS": {
			[]error{noNode(0), noNode(1), noNode(2), noNode(0), noNode(2), noNode(1)}, []int{0, 0, 0, 0, 0, 0},
		},
		"a certificate without the names of the nodes, in a random order": {
			[]error{wrongName(0), wrongName(1), wrongName(2), wrongName(0), wrongName(2), wrongName(1)}, []int{0, 0, 0, 0, 0, 0},
		},
		"a text with a time": {
			[]error{errors.New("expired at 10:00:00: current time 2026-11-21T10:00:00Z"), errors.New("expired at 10:00:00: current time 2026-11-21T10:00:05Z")}, []int{0, 0},
		},
		"two causes that alternate":           {[]error{noHost, refused, noHost, refused, noHost, refused}, []int{0, 1, 1, 1, 1, 1}},
		"back to the first cause permanently": {[]error{noHost, refused, noHost, noHost, noHost, noHost, noHost}, []int{0, 1, 1, 1, 1, 5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			var o outageTracker
			var reported, want []string
			for i, err := range test.attempts {
				o.record(NewStoreError(v1alpha1.ReasonStoreUnreachable, err), time.Now())
				reported, want = append(reported, o.reported.Error()), append(want, test.attempts[test.reported[i]].Error())
			}
			if diff := cmp.Diff(want, reported); diff != "" {
				t.Errorf("reported errors (-want +got):\n%s", diff)
			}
		})
	}
}
