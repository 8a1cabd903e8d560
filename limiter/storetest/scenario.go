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

// Scenarios runs all scenario files. A file has one step per line; "#" begins a comment:
//
//	limit NAME ALGORITHM UNITS WINDOW [BURST]   declares or edits a limit; an edit keeps the spent units
//	at OFFSET                           sets the clock to OFFSET after the start of the scenario
//	spend CHARGE…                       a charge is NAME, NAME*COST, NAME! (without delay), NAME+ (debt),
//	                                    NAME++ (debt of which all units must remain), NAME~ (shadow) or NAME@IDENTIFIER, or combined in this order:
//	                                    NAME@IDENTIFIER*COST!+~
//	peek CHARGE…
//	repeat N spend CHARGE…              all N spends must be allowed
//	  NAME: allowed, remaining 2, reset after 10s
//	  NAME: denied, remaining 0, reset after 10s, retry after 5s
//	  NAME: denied, retry never
//	                                    the expected decisions: one line per charge of the spend or peek above, in
//	                                    order; every part after the first is optional; "delay 1s" is for a leaky bucket
//	refund NAME*COST at OFFSET          refunds units that were spent at that time
//	reset NAME
//	expires NAME at OFFSET              the counter expires at that time, to the millisecond
//	absent NAME                         the counter does not exist
func Scenarios(t *testing.T, factory Factory) {
	files, err := fs.Glob(scenarios, "scenarios/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(path.Base(file), ".scenario"), func(t *testing.T) {
			text, err := scenarios.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { logCommand(t) })
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
	checked   int // number of decisions that have been checked
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
	if err := s.allChecked(); err != nil {
		t.Errorf("%s: at the end: %v", file, err)
	}
}

func (s *scenario) step(words []string, line string) error {
	if name, ok := strings.CutSuffix(words[0], ":"); ok {
		return s.expect(name, line)
	}
	if err := s.allChecked(); err != nil {
		return err
	}
	switch words[0] {
	case "limit":
		return s.limit(words[1:])
	case "at":
		return s.setClock(words[1:])
	case "spend":
		return s.decide(s.subject.Store.Spend, words[1:])
	case "peek":
		return s.decide(s.subject.Store.Peek, words[1:])
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

// allChecked returns an error if decisions have no expectation.
func (s *scenario) allChecked() error {
	if s.checked != len(s.decisions) {
		return fmt.Errorf("%d of the last %d decisions have no expectation", len(s.decisions)-s.checked, len(s.decisions))
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

func (s *scenario) setClock(words []string) error {
	now, err := s.offset(words[0])
	s.clock.Set(now)
	return err
}

var chargePattern = regexp.MustCompile(`^(\w+)(?:@([^*!+~]+))?(?:\*(\d+))?(!(?:\d\w*)?)?(\+{0,2})(~?)$`)

func (s *scenario) charge(word string) (limiter.Charge, string, error) {
	m := chargePattern.FindStringSubmatch(word)
	if m == nil {
		return limiter.Charge{}, "", fmt.Errorf("invalid charge %q", word)
	}
	limit, ok := s.limits[m[1]]
	if !ok {
		return limiter.Charge{}, "", fmt.Errorf("no limit %q", m[1])
	}
	identifier := m[2]
	if identifier == "" && s.subject.Spread {
		identifier = m[1]
	}
	c := limiter.Charge{Key: s.subject.key(m[1], identifier, limit), Limit: limit, Cost: 1, Debt: m[5] != "", Whole: m[5] == "++", Shadow: m[6] != ""}
	switch m[4] {
	case "":
	case "!":
		c.Limit = limit.NoDelay()
	default:
		most, err := time.ParseDuration(m[4][1:])
		if err != nil {
			return limiter.Charge{}, "", err
		}
		c.Limit = limit.WithMaxDelay(most)
	}
	if m[3] != "" {
		var err error
		if c.Cost, err = strconv.ParseInt(m[3], 10, 64); err != nil {
			return limiter.Charge{}, "", err
		}
	}
	return c, m[1], nil
}

// key returns the key of the counter of a limit in a scenario or history.
func (s *Subject) key(name, identifier string, limit limiter.Limit) string {
	keys := limiter.NewKeySpace("weir:", "Tenant", "test/"+name, limit)
	if s.Compact && limit.Algorithm().HasCompact() {
		keys = keys.Compact(new(limiter.HashKey))
	}
	return keys.Key(identifier, "")
}

// decideFunc is Spend or Peek.
type decideFunc = func(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error)

func (s *scenario) decide(decide decideFunc, words []string) error {
	s.charges, s.names, s.decisions, s.checked = nil, nil, nil, 0
	for _, word := range words {
		c, name, err := s.charge(word)
		if err != nil {
			return err
		}
		s.charges, s.names = append(s.charges, c), append(s.names, name)
	}
	var err error
	s.decisions, err = decide(s.t.Context(), s.charges)
	return err
}

func (s *scenario) repeat(words []string) error {
	n, err := strconv.Atoi(words[0])
	if err != nil || len(words) < 3 || words[1] != "spend" {
		return fmt.Errorf("want repeat N spend CHARGE… (%w)", err)
	}
	for i := range n {
		if err := s.decide(s.subject.Store.Spend, words[2:]); err != nil {
			return err
		}
		for j, d := range s.decisions {
			if !d.Allowed {
				return fmt.Errorf("spend %d of %d: %s: %+v", i+1, n, s.names[j], d)
			}
		}
	}
	s.checked = len(s.decisions)
	return nil
}

// expect checks the next decision against "NAME: allowed, remaining 2, reset after 10s".
func (s *scenario) expect(name, line string) error {
	if s.checked == len(s.decisions) {
		return errors.New("there is no decision for this expectation")
	}
	got := s.decisions[s.checked]
	want := s.names[s.checked]
	limit := s.charges[s.checked].Limit
	s.checked++
	if name != want {
		return fmt.Errorf("the next decision is for %s", want)
	}
	if got.Limit != limit.Units() {
		return fmt.Errorf("the decision has limit %d", got.Limit)
	}
	_, text, _ := strings.Cut(line, ":")
	for part := range strings.SplitSeq(text, ",") {
		ok, err := matches(got, strings.TrimSpace(part))
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("got allowed %v, remaining %d, reset after %v, retry after %v, delay %v",
				got.Allowed, got.Remaining, got.ResetAfter, got.RetryAfter, got.Delay)
		}
	}
	return nil
}

// matches reports whether a decision has one expected part.
func matches(d limiter.Decision, part string) (bool, error) {
	if n, ok := strings.CutPrefix(part, "remaining "); ok {
		want, err := strconv.ParseInt(n, 10, 64)
		return d.Remaining == want, err
	}
	if text, ok := strings.CutPrefix(part, "reset after "); ok {
		want, err := time.ParseDuration(text)
		return d.ResetAfter == want, err
	}
	if text, ok := strings.CutPrefix(part, "delay "); ok {
		want, err := time.ParseDuration(text)
		return d.Delay == want, err
	}
	if text, ok := strings.CutPrefix(part, "retry after "); ok {
		want, err := time.ParseDuration(text)
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
	spentAt, err := s.offset(words[2])
	if err != nil {
		return err
	}
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	return s.subject.Store.Refund(s.t.Context(), []limiter.Refund{{Key: c.Key, Limit: c.Limit, Cost: c.Cost, At: spentAt}})
}

func (s *scenario) reset(words []string) error {
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	return s.subject.Store.Reset(s.t.Context(), []string{c.Key}, "")
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
		return fmt.Errorf("the counter expires between %v and %v (exists: %v)", earliest.Sub(s.epoch), latest.Sub(s.epoch), ok)
	}
	return nil
}

func (s *scenario) absent(words []string) error {
	c, _, err := s.charge(words[0])
	if err != nil {
		return err
	}
	if earliest, _, ok := s.subject.Expires(c.Key); ok {
		return fmt.Errorf("the counter exists until %v", earliest.Sub(s.epoch))
	}
	return nil
}
