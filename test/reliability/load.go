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
	patience    = time.Second // of a client
	loadBeat    = time.Millisecond
	coolTenants = 400 // each asks far below its limit
	hotShare    = 0.6 // of the requests; the others are the cool tenants'
	keptAlive   = 64  // connections to each limiter
)

// load asks limiters at a steady rate, whether they answer or not: a request that waits holds up no other.
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
		web: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: keptAlive}},
	}
}

// run asks until ctx is done and the last answer is there.
func (l *load) run(ctx context.Context) {
	defer l.web.CloseIdleConnections()
	var asking sync.WaitGroup
	defer asking.Wait()
	began := time.Now()
	tick := time.NewTicker(loadBeat)
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
			asking.Go(func() { l.ask(a, tenant) })
		}
	}
}

// due is when the request after so many is to be sent.
func (l *load) due(began time.Time, sent int) time.Time {
	return began.Add(time.Duration(sent) * time.Second / time.Duration(l.rate))
}

// draw chooses what to ask next.
func (l *load) draw() (a Answer, tenant string) {
	a = Answer{Limiter: l.random.IntN(len(l.urls)), Policy: l.random.IntN(len(l.policies)), Hot: l.random.Float64() < hotShare}
	if a.Hot {
		return a, hotTenant
	}
	return a, "cool-" + strconv.Itoa(l.random.IntN(coolTenants))
}

// hotPerSecond is how often each policy's hot tenant asks.
func hotPerSecond(rate, policies int) float64 { return float64(rate) * hotShare / float64(policies) }

// ask does not end with the load: what is on its way is to be answered.
func (l *load) ask(a Answer, tenant string) {
	body := fmt.Sprintf(`{"domain":%q,"method":"GET","path":%q,"headers":{"x-tenant-id":%q}}`, domain, l.policies[a.Policy].path(), tenant)
	question, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.urls[a.Limiter]+"/v1/check", bytes.NewReader([]byte(body)))
	a.Sent = micros(time.Now())
	if err == nil {
		err = l.send(question, &a)
	}
	a.Done = micros(time.Now())
	if err != nil {
		a.Failure = failure(err)
	}
	l.journal.write(a)
}

func (l *load) send(question *http.Request, a *Answer) error {
	question.Header.Set("Content-Type", "application/json")
	reply, err := l.web.Do(question)
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

// statusError is an HTTP status that is no decision.
type statusError int

func (s statusError) Error() string { return "HTTP " + strconv.Itoa(int(s)) }

// failure names an error shortly, so that equal ones can be counted.
func failure(err error) string {
	var status statusError
	var late interface{ Timeout() bool }
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &late) && late.Timeout():
		return "no answer within " + patience.String()
	default:
		return "broken connection or answer"
	}
}
