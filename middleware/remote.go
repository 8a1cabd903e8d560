package middleware

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

	"github.com/weir-dev/weir/limiter/engine"
)

// defaultTimeout of a decision: four times what a limiter gives its Redis, and little beside most handlers.
const defaultTimeout = 200 * time.Millisecond

// What a Remote's own connections bear. Limiters close connections that are idle for 2 minutes: we are first, for one that
// is closed just as it is used costs a decision.
const (
	dialTimeout = time.Second
	idleTimeout = 90 * time.Second
	maxIdle     = 256 // connections, so that a burst of requests does not open and close one each
)

// maxAnswer is more than an answer has, in bytes.
const maxAnswer = 1 << 20

// A limiter that could not be reached so often in a row is left alone for so long, but for one request: while it is away,
// requests must not each wait for the timeout.
const (
	failuresInARow = 5
	leftAlone      = time.Second
)

var errLeftAlone = fmt.Errorf("not asked: the limiter did not answer %d times in a row", failuresInARow)

// Remote asks a limiter with POST /v1/check. A check is sent once: one whose answer is lost may be counted, and sent twice
// it might be counted twice.
//
// Answers have no counter's key, and of a rule no more than the answer says: name, axis, algorithm, limit and window.
type Remote struct {
	url     string
	shown   string // the URL without a password
	timeout time.Duration
	client  *http.Client
	circuit *gobreaker.CircuitBreaker[engine.Answer]
}

// RemoteOption changes how a Remote asks.
type RemoteOption func(*Remote)

// Timeout bounds the whole of a decision, connecting included; 200 ms unless given.
func Timeout(d time.Duration) RemoteOption { return func(r *Remote) { r.timeout = d } }

// Transport is what carries the checks, for TLS or traces say. The default keeps up to 256 idle connections and uses no
// proxy.
func Transport(t http.RoundTripper) RemoteOption { return func(r *Remote) { r.client.Transport = t } }

// NewRemote returns the limiter at an URL: "http://weir.weir-system:8080". It does not ask it anything yet.
func NewRemote(limiterURL string, options ...RemoteOption) (*Remote, error) {
	u, err := url.Parse(limiterURL)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("limiter's URL: %w", parse.Err) // without the text, which may have a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("limiter's URL %q is not of the form http://host:port", u.Redacted())
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
				DisableCompression:  true, // answers fit a packet
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, option := range options {
		option(r)
	}
	r.circuit = gobreaker.NewCircuitBreaker[engine.Answer](gobreaker.Settings{
		Name:         u.Host,
		Timeout:      leftAlone,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresInARow },
		IsSuccessful: func(err error) bool { return !isUnreachable(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errCallerGone) },
	})
	return r, nil
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*UnreachableError](err)
	return ok
}

// errCallerGone says nothing about the limiter.
var errCallerGone = errors.New("the caller does not wait for the decision any more")

// Check implements [Decider]. It does not take an Override or NoDelay, for which the limiter's API has no words.
func (r *Remote) Check(ctx context.Context, c *engine.Check) (engine.Answer, error) {
	body, err := encode(c)
	if err != nil {
		return engine.Answer{}, err
	}
	answer, err := r.circuit.Execute(func() (engine.Answer, error) { return r.ask(ctx, body) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = &UnreachableError{fmt.Errorf("ask %s: %w", r.shown, errLeftAlone)}
	}
	return answer, err
}

// Close closes idle connections. Checks under way finish.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

func (r *Remote) ask(ctx context.Context, body []byte) (engine.Answer, error) {
	within, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(within, http.MethodPost, r.url, bytes.NewReader(body)) //nolint:gosec // the program's own URL
	if err != nil {
		return engine.Answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	received, err := r.exchange(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return engine.Answer{}, fmt.Errorf("%w: %w", errCallerGone, err)
	case err != nil:
		return engine.Answer{}, &UnreachableError{err}
	}
	answer, err := received.decode()
	if err != nil {
		return engine.Answer{}, fmt.Errorf("ask %s: %w", r.shown, err)
	}
	return answer, nil
}

// response is what came back.
type response struct {
	status string // "200 OK"
	code   int
	kind   string // media type
	text   []byte
}

// exchange sends the request and reads the whole of the answer, so that its connection can be used again.
func (r *Remote) exchange(request *http.Request) (response, error) {
	got, err := r.client.Do(request) //nolint:gosec // the program's own URL
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	if err != nil {
		return response{}, fmt.Errorf("read the answer of %s: %w", r.shown, err)
	}
	if len(text) > maxAnswer {
		return response{}, fmt.Errorf("the answer of %s is larger than %d bytes", r.shown, maxAnswer)
	}
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type")) // one that is wrong is none that we know
	return response{got.Status, got.StatusCode, kind, text}, nil
}
