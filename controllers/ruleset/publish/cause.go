package publish

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
)

// causeOf identifies the cause of an error. It is the same for every error with that cause: whichever operation failed, from
// whichever port, at whichever time.
func causeOf(err error) string {
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED} {
		if errors.Is(err, broken) {
			return "connection" // one that breaks, and then the next one, which Redis does not accept
		}
	}
	if network, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && network.Timeout() {
		return "timeout"
	}
	if joined, ok := errors.AsType[joinedErrors](err); ok { // one for each Sentinel, in any order
		var causes []string
		for _, one := range joined.Unwrap() {
			causes = append(causes, causeOf(one))
		}
		slices.Sort(causes)
		return strings.Join(slices.Compact(causes), "; ")
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok { // its text names the DNS server
		return withoutNumbers(fmt.Sprintf("lookup %s : %s", lookup.Name, lookup.Err))
	}
	if certificate, ok := errors.AsType[x509.CertificateInvalidError](err); ok { // its text contains the time
		return fmt.Sprintf("certificate: reason %d", certificate.Reason)
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return withoutNumbers(err.Error())
}

// withoutNumbers replaces the words of a text that contain a digit: ports, durations, and the names and addresses of the nodes
// of a Redis Cluster, of which go-redis calls a random one.
func withoutNumbers(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsAny(word, "0123456789") {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}

type joinedErrors interface {
	error
	Unwrap() []error
}
