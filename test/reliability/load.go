package reliability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	timeout     = time.Second // of a client
	loadTick    = time.Millisecond
	coolTenants = 400 // each sends far fewer requests than its limit
	hotShare    = 0.6 // of the requests; the cool tenants send the rest
	maxIdle     = 64  // connections to each limiter
)

// load sends requests to limiters at a steady rate. It does not wait for answers, so a slow answer delays no other request.
type load struct {
	rate     int // requests per second
	urls     []string
	policies []Policy
	random   *rand.Rand
	web      *http.Client
	journal  *journal
}

func newLoad(rate int, urls []string, all []Policy, seed uint64) *load {
	return &load{
		rate: rate, urls: urls, policies: all, random: rand.New(rand.NewPCG(seed, seed)), journal: &journal{},
		web: &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: maxIdle}},
	}
}

// run sends requests until ctx is done, and returns when the last answer has arrived.
func (l *load) run(ctx context.Context) {
	defer l.web.CloseIdleConnections()
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	began := time.Now()
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := l.due(began, sent); !due.After(time.Now()); due = l.due(began, sent) {
			sent++
			a, tenant := l.draw()
			a.Due = micros(due)
			inFlight.Go(func() { l.send(a, tenant) })
		}
	}
}

// due is the planned time of the request that follows sent requests.
func (l *load) due(began time.Time, sent int) time.Time {
	return began.Add(time.Duration(sent) * time.Second / time.Duration(l.rate))
}

// draw chooses the next request.
func (l *load) draw() (a Answer, tenant string) {
	a = Answer{Limiter: l.random.IntN(len(l.urls)), Policy: l.random.IntN(len(l.policies)), Hot: l.random.Float64() < hotShare}
	if a.Hot {
		return a, hotTenant
	}
	return a, "cool-" + strconv.Itoa(l.random.IntN(coolTenants))
}

// hotPerSecond is the number of requests per second of each policy's hot tenant.
func hotPerSecond(rate, policies int) float64 { return float64(rate) * hotShare / float64(policies) }

// send sends one request and records the answer. It does not end with the load, so that requests in flight are answered.
func (l *load) send(a Answer, tenant string) {
	body := fmt.Sprintf(`{"domain":%q,"method":"GET","path":%q,"headers":{"x-tenant-id":%q}}`, domain, l.policies[a.Policy].path(), tenant)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.urls[a.Limiter]+"/v1/check", bytes.NewReader([]byte(body)))
	a.Sent = micros(time.Now())
	if err == nil {
		err = l.receive(request, &a)
	}
	a.Done = micros(time.Now())
	if err != nil {
		a.Failure = failure(err)
	}
	l.journal.write(a)
}

func (l *load) receive(request *http.Request, a *Answer) error {
	request.Header.Set("Content-Type", "application/json")
	reply, err := l.web.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK && reply.StatusCode != http.StatusTooManyRequests {
		return statusError(reply.StatusCode)
	}
	var decision struct {
		Allowed bool   `json:"allowed"`
		Source  string `json:"source"`
	}
	if err := json.Unmarshal(text, &decision); err != nil {
		return fmt.Errorf("%w in %s", err, text)
	}
	a.Allowed, a.Source = decision.Allowed, decision.Source
	return nil
}

// statusError is an HTTP status that is not a decision.
type statusError int

func (s statusError) Error() string { return "HTTP " + strconv.Itoa(int(s)) }

// failure returns a short name of an error, so that equal failures can be counted.
func failure(err error) string {
	var status statusError
	var late interface{ Timeout() bool }
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &late) && late.Timeout():
		return "no answer within " + timeout.String()
	default:
		return "broken connection or answer"
	}
}
