package httplimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sony/gobreaker/v2"
)

// defaultTimeout of a decision is four times a limiter's default timeout for Redis, and short compared with most handlers.
const defaultTimeout = 200 * time.Millisecond

// Defaults of a Remote's own connections. Limiters close connections that are idle for 2 minutes. A Remote closes them earlier, because
// a connection that is closed while a check is being sent costs a decision.
const (
	dialTimeout = time.Second
	idleTimeout = 90 * time.Second
	maxIdle     = 256 // connections, so that a burst of requests does not open and close a connection each
)

// maxAnswer is larger than any answer of a limiter, in bytes.
const maxAnswer = 1 << 20

// After maxFailures consecutive failures, a Remote sends a limiter at most one check per openTimeout, so that not every request waits for
// the timeout while the limiter is unavailable.
const (
	maxFailures = 5
	openTimeout = time.Second
)

var errCircuitOpen = fmt.Errorf("not called, because the last %d calls failed", maxFailures)

// Remote decides requests by calling POST /v1/check of a limiter. A check is sent once and never retried: if its answer is lost, it may
// have been counted already.
//
// The results of its answers have no key, and only those fields of a rule that the API returns: name, axis, algorithm, limit and window.
// Identifiers over 256 bytes are shortened.
type Remote struct {
	url     string
	shown   string // the URL without a password, for messages
	timeout time.Duration
	client  *http.Client
	circuit *gobreaker.CircuitBreaker[Answer]
}

// RemoteOption changes how a Remote calls its limiter. Nil changes nothing.
type RemoteOption func(*Remote)

// Timeout sets the time limit of a decision, including connecting, of at least 1 ms; the default is 200 ms.
func Timeout(d time.Duration) RemoteOption { return func(r *Remote) { r.timeout = d } }

// Transport sets the transport of the checks, for example for TLS or tracing. The default keeps up to 256 idle connections and uses no
// proxy.
func Transport(t http.RoundTripper) RemoteOption {
	return func(r *Remote) {
		if t != nil {
			r.client.Transport = t
		}
	}
}

// NewRemote returns a Remote for the limiter at a URL such as "http://weir.weir-system:8080". It does not connect.
func NewRemote(limiterURL string, options ...RemoteOption) (*Remote, error) {
	u, err := url.Parse(limiterURL)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("invalid limiter URL: %w", parse.Err) // without the URL, which may contain a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("invalid limiter URL %q: must have the form http://host:port", u.Redacted())
	}
	check := u.JoinPath("v1/check")
	r := &Remote{
		url:     check.String(),
		shown:   check.Redacted(),
		timeout: defaultTimeout,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
				MaxIdleConns:        maxIdle,
				MaxIdleConnsPerHost: maxIdle,
				IdleConnTimeout:     idleTimeout,
				DisableCompression:  true, // answers fit into one packet
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, option := range options {
		if option != nil {
			option(r)
		}
	}
	if r.timeout < time.Millisecond {
		return nil, fmt.Errorf("the option Timeout is %v and must be at least 1ms", r.timeout)
	}
	r.circuit = gobreaker.NewCircuitBreaker[Answer](gobreaker.Settings{
		Name:         u.Host,
		Timeout:      openTimeout,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= maxFailures },
		IsSuccessful: func(err error) bool { return !isUnreachable(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errCallerLeft) },
	})
	return r, nil
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*UnreachableError](err)
	return ok
}

// errCallerLeft does not count as a failure of the limiter.
var errCallerLeft = errors.New("the caller no longer waits for the decision")

// Check implements [Decider]. It rejects a check with NoDelay, because the limiter's API does not support it.
func (r *Remote) Check(ctx context.Context, c *Check) (Answer, error) {
	switch {
	case r == nil || r.circuit == nil:
		return Answer{}, errNoRemote
	case c == nil:
		return Answer{}, errNoCheck
	case ctx == nil:
		return Answer{}, errNoContext
	}
	body, err := encode(c)
	if err != nil {
		return Answer{}, err
	}
	answer, err := r.circuit.Execute(func() (Answer, error) { return r.call(ctx, body) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = &UnreachableError{fmt.Errorf("POST %s: %w", r.shown, errCircuitOpen)}
	}
	return answer, err
}

// Close closes idle connections. Checks in flight finish.
func (r *Remote) Close() {
	if r != nil && r.client != nil {
		r.client.CloseIdleConnections()
	}
}

func (r *Remote) call(ctx context.Context, body []byte) (Answer, error) {
	within, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(within, http.MethodPost, r.url, bytes.NewReader(body)) //nolint:gosec // the program's own URL
	if err != nil {
		return Answer{}, err
	}
	request.Header.Set("Content-Type", jsonType)
	received, err := r.exchange(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return Answer{}, fmt.Errorf("%w: %w", errCallerLeft, err)
	case err != nil:
		return Answer{}, &UnreachableError{err}
	}
	answer, err := received.decode()
	if err != nil {
		return Answer{}, fmt.Errorf("POST %s: %w", r.shown, err)
	}
	return answer, nil
}

// response is a limiter's HTTP response.
type response struct {
	status string // "200 OK"
	code   int
	kind   string // media type
	text   []byte // longer than maxAnswer if it is too large
}

// exchange sends the request and reads the whole response, so that the connection can be reused. Of a response that is too large, it reads
// one byte more than maxAnswer.
func (r *Remote) exchange(request *http.Request) (response, error) {
	got, err := r.client.Do(request) //nolint:gosec // the program's own URL
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	if err != nil {
		return response{}, fmt.Errorf("read the response of %s: %w", r.shown, err)
	}
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type")) // decode rejects an invalid one
	return response{got.Status, got.StatusCode, kind, text}, nil
}
