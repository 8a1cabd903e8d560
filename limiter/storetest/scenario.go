package storetest

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

//go:embed scenarios/*.scenario
var scenarios embed.FS

// Scenarios runs every scenario file. A file is a list of steps, one a line; "#" begins a comment:
//
//	limit NAME ALGORITHM UNITS WINDOW [BURST]   declares a limit, or edits it: what was spent stays
//	at OFFSET                           sets the clock, counted from the scenario's beginning
//	spend CHARGE…                       a charge is NAME, NAME*COST, NAME! (at once or not at all), NAME~ (shadow)
//	                                    or NAME@IDENTIFIER, or a mix in this order: NAME@IDENTIFIER*COST!~
//	peek CHARGE…
//	repeat N spend CHARGE…              every time must be allowed
//	  NAME: allowed, 2 left, full in 10s                    what the charge must get: lines under spend and peek, one
//	  NAME: denied, 0 left, full in 10s, retry in 5s        for each charge, in order; parts after the first may be
//	  NAME: denied, retry never                             left out; "after 1s" is the wait in a leaky bucket
//	refund NAME*COST at OFFSET          takes back what was spent then
//	reset NAME
//	expires NAME at OFFSET              the counter goes away by itself then, within a millisecond
//	absent NAME                         there is no counter
func Scenarios(t *testing.T, factory Factory) {
	files, err := fs.Glob(scenarios, "scenarios/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(path.Base(file), ".scenario"), func(t *testing.T) {
			text, err := scenarios.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runScenario(t, factory, file, string(text))
		})
	}
}

type scenario struct {
	t       testing.TB
	subject Subject
	clock   *Clock
	epoch   limiter.Instant
	limits  map[string]limiter.Limit

	charges   []limiter.Charge // of the last spend or peek
	names     []string
	decisions []limiter.Decision
	checked   int // how many of decisions have been checked
}

func runScenario(t testing.TB, factory Factory, file, text string) {
	clock := &Clock{}
	s := &scenario{t: t, clock: clock, epoch: Epoch(), limits: map[string]limiter.Limit{}}
	clock.Set(s.epoch)
	s.subject = factory(t, clock)
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.step(words, line); err != nil {
			t.Errorf("%s:%d: %s\n\t%v", file, n, strings.TrimSpace(line), err)
		}
	}
	if err := s.finished(); err != nil {
		t.Errorf("%s: at the end: %v", file, err)
	}
}

func (s *scenario) step(words []string, line string) error {
	if before, ok := strings.CutSuffix(words[0], ":"); ok {
		return s.expect(before, line)
	}
	if err := s.finished(); err != nil {
		return err
	}
	switch words[0] {
	case "limit":
		return s.limit(words[1:])
	case "at":
		return s.at(words[1:])
	case "spend":
		return s.ask(s.subject.Store.Spend, words[1:])
	case "peek":
		return s.ask(s.subject.Store.Peek, words[1:])
	case "repeat":
		return s.repeat(words[1:])
	case "refund":
		return s.refund(words[1:])
	case "reset":
		return s.reset(words[1:])
	case "expires":
		return s.expires(words[1:])
	case "absent":
		return s.absent(words[1:])
	default:
		return fmt.Errorf("unknown step %q", words[0])
	}
}

func (s *scenario) finished() error {
	if s.checked != len(s.decisions) {
		return fmt.Errorf("%d of the %d decisions before were not stated", len(s.decisions)-s.checked, len(s.decisions))
	}
	return nil
}

func (s *scenario) limit(words []string) error {
	if len(words) != 4 && len(words) != 5 {
		return fmt.Errorf("want NAME ALGORITHM UNITS WINDOW [BURST], got %d words", len(words))
	}
	units, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return err
	}
	window, err := time.ParseDuration(words[3])
	if err != nil {
		return err
	}
	limit, err := limiter.NewLimit(limiter.Algorithm(words[1]), units, window)
	if err == nil && len(words) == 5 {
		limit, err = withBurst(limit, words[4])
	}
	s.limits[words[0]] = limit
	return err
}

func withBurst(limit limiter.Limit, word string) (limiter.Limit, error) {
	burst, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return limiter.Limit{}, err
	}
	return limit.WithBurst(burst)
}

func (s *scenario) offset(word string) (limiter.Instant, error) {
	d, err := time.ParseDuration(word)
	return s.epoch.Add(d), err
}

func (s *scenario) at(words []string) error {
	now, err := s.offset(words[0])
	s.clock.Set(now)
	return err
}

var chargePattern = regexp.MustCompile(`^(\w+)(?:@([^*!~]+))?(?:\*(\d+))?(!?)(~?)$`)

func (s *scenario) charge(word string) (limiter.Charge, string, error) {
	m := chargePattern.FindStringSubmatch(word)
	if m == nil {
		return limiter.Charge{}, "", fmt.Errorf("%q is not a charge", word)
	}
	limit, ok := s.limits[m[1]]
	if !ok {
		return limiter.Charge{}, "", fmt.Errorf("no limit %q", m[1])
	}
	identifier := m[2]
	if identifier == "" && s.subject.Spread {
		identifier = m[1]
	}
	c := limiter.Charge{Key: key(m[1], identifier, limit), Limit: limit, Cost: 1, Shadow: m[5] != ""}
	if m[4] != "" {
		c.Limit = limit.NoDelay()
	}
	if m[3] != "" {
		var err error
		if c.Cost, err = strconv.ParseInt(m[3], 10, 64); err != nil {
			return limiter.Charge{}, "", err
		}
	}
	return c, m[1], nil
}

// key is the counter of a limit in a scenario or a history.
func key(name, identifier string, limit limiter.Limit) string {
	return limiter.NewKeySpace("weir:", "Tenant", "test/"+name, limit).Key(identifier, "")
}

type ask = func(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error)

func (s *scenario) ask(ask ask, words []string) error {
	s.charges, s.names, s.decisions, s.checked = nil, nil, nil, 0
	for _, word := range words {
		c, name, err := s.charge(word)
		if err != nil {
			return err
		}
		s.charges, s.names = append(s.charges, c), append(s.names, name)
	}
	var err error
	s.decisions, err = ask(s.t.Context(), s.charges)
	return err
}

func (s *scenario) repeat(words []string) error {
	n, err := strconv.Atoi(words[0])
	if err != nil || len(words) < 3 || words[1] != "spend" {
		return fmt.Errorf("want repeat N spend CHARGE… (%w)", err)
	}
	for i := range n {
		if err := s.ask(s.subject.Store.Spend, words[2:]); err != nil {
			return err
		}
		for j, d := range s.decisions {
			if !d.Allowed {
				return fmt.Errorf("time %d of %d: %s: %+v", i+1, n, s.names[j], d)
			}
		}
	}
	s.checked = len(s.decisions)
	return nil
}

// expect checks the next decision against "NAME: allowed, 2 left, full in 10s".
func (s *scenario) expect(name, line string) error {
	if s.checked == len(s.decisions) {
		return errors.New("there is no decision left to compare with")
	}
	got := s.decisions[s.checked]
	want := s.names[s.checked]
	limit := s.charges[s.checked].Limit
	s.checked++
	if name != want {
		return fmt.Errorf("the next decision is that of %s", want)
	}
	if got.Limit != limit.Units() {
		return fmt.Errorf("decided against limit %d", got.Limit)
	}
	_, text, _ := strings.Cut(line, ":")
	for part := range strings.SplitSeq(text, ",") {
		ok, err := holds(got, strings.TrimSpace(part))
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("got allowed=%v, %d left, full in %v, retry in %v, after %v",
				got.Allowed, got.Remaining, got.ResetAfter, got.RetryAfter, got.Delay)
		}
	}
	return nil
}

func holds(d limiter.Decision, part string) (bool, error) {
	if n, ok := strings.CutSuffix(part, " left"); ok {
		want, err := strconv.ParseInt(n, 10, 64)
		return d.Remaining == want, err
	}
	if in, ok := strings.CutPrefix(part, "full in "); ok {
		want, err := time.ParseDuration(in)
		return d.ResetAfter == want, err
	}
	if in, ok := strings.CutPrefix(part, "after "); ok {
		want, err := time.ParseDuration(in)
		return d.Delay == want, err
	}
	if in, ok := strings.CutPrefix(part, "retry in "); ok {
		want, err := time.ParseDuration(in)
		return d.RetryAfter == want, err
	}
	switch part {
	case "allowed":
		return d.Allowed && d.RetryAfter == 0, nil
	case "denied":
		return !d.Allowed && d.RetryAfter > 0, nil
	case "retry never":
		return d.RetryAfter == limiter.Never, nil
	default:
		return false, fmt.Errorf("unknown expectation %q", part)
	}
}

func (s *scenario) refund(words []string) error {
	if len(words) != 3 || words[1] != "at" {
		return errors.New("want refund NAME*COST at OFFSET")
	}
	at, err := s.offset(words[2])
	if err != nil {
		return err
	}
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	return s.subject.Store.Refund(s.t.Context(), []limiter.Refund{{Key: c.Key, Limit: c.Limit, Cost: c.Cost, At: at}})
}

func (s *scenario) reset(words []string) error {
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	return s.subject.Store.Reset(s.t.Context(), []string{c.Key})
}

func (s *scenario) expires(words []string) error {
	if len(words) != 3 || words[1] != "at" {
		return errors.New("want expires NAME at OFFSET")
	}
	want, err := s.offset(words[2])
	if err != nil {
		return err
	}
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	earliest, latest, ok := s.subject.Expires(c.Key)
	if !ok || want < earliest || want > latest {
		return fmt.Errorf("expires between %v and %v (exists: %v)", earliest.Sub(s.epoch), latest.Sub(s.epoch), ok)
	}
	return nil
}

func (s *scenario) absent(words []string) error {
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	if earliest, _, ok := s.subject.Expires(c.Key); ok {
		return fmt.Errorf("there is one, until %v", earliest.Sub(s.epoch))
	}
	return nil
}
