package reply

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// Answer is a decision as the JSON of POST /v1/check has it. The numbers at the top are those of the strictest enforced
// policy, empty and 0 if there is none. Durations are whole milliseconds, rounded up.
type Answer struct {
	Allowed      bool          `json:"allowed"`
	Policy       string        `json:"policy"`
	Limit        int64         `json:"limit"`
	Remaining    int64         `json:"remaining"`
	ResetAfterMs int64         `json:"resetAfterMs"`
	RetryAfterMs *int64        `json:"retryAfterMs"` // null: no wait suffices
	DelayMs      int64         `json:"delayMs"`
	Source       engine.Source `json:"source"`
	Revision     string        `json:"revision"`
	Results      []Result      `json:"results"`
}

// Result is what one policy decided.
type Result struct {
	Policy       string            `json:"policy"`
	Axis         string            `json:"axis"`
	Identifier   string            `json:"identifier"`
	Algorithm    limiter.Algorithm `json:"algorithm"`
	Window       string            `json:"window"`
	Tier         string            `json:"tier"`
	Allowed      bool              `json:"allowed"`
	Limit        int64             `json:"limit"`
	Remaining    int64             `json:"remaining"`
	ResetAfterMs int64             `json:"resetAfterMs"`
	RetryAfterMs *int64            `json:"retryAfterMs"` // null: no wait suffices
	Shadow       bool              `json:"shadow"`
	Source       engine.Source     `json:"source,omitempty"` // empty: the answer's
}

// NewAnswer returns a, to be written.
func NewAnswer(a *engine.Answer) Answer {
	out := Answer{
		Allowed:      a.Allowed,
		RetryAfterMs: new(int64),
		DelayMs:      roundUp(a.Delay, time.Millisecond),
		Source:       a.Source,
		Revision:     a.Revision,
		Results:      make([]Result, len(a.Results)),
	}
	for i := range a.Results {
		out.Results[i] = newResult(&a.Results[i])
		if from := a.Results[i].Source; from != a.Source {
			out.Results[i].Source = from
		}
	}
	if a.Strictest() != nil {
		top := &out.Results[0] // the engine's order
		out.Policy, out.Limit, out.Remaining = top.Policy, top.Limit, top.Remaining
		out.ResetAfterMs, out.RetryAfterMs = top.ResetAfterMs, top.RetryAfterMs
	}
	return out
}

func newResult(r *engine.Result) Result {
	return Result{
		Policy:       r.Rule.Policy,
		Axis:         r.Rule.Axis,
		Identifier:   r.Identifier,
		Algorithm:    r.Rule.Algorithm,
		Window:       r.Window.String(),
		Tier:         r.Tier,
		Allowed:      r.Allowed,
		Limit:        r.Decision.Limit,
		Remaining:    r.Remaining,
		ResetAfterMs: roundUp(r.ResetAfter, time.Millisecond),
		RetryAfterMs: retryAfterMs(r.RetryAfter),
		Shadow:       r.Rule.Shadow,
	}
}

func retryAfterMs(d time.Duration) *int64 {
	if d == limiter.Never {
		return nil
	}
	ms := roundUp(d, time.Millisecond)
	return &ms
}

// ReadAnswer reads the JSON of an [Answer]: what it does not tell, as the rest of a rule, is absent from the decision. The
// error is that of a text that no limiter writes.
func ReadAnswer(text []byte) (engine.Answer, error) {
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return engine.Answer{}, err
	}
	out := engine.Answer{
		Allowed: a.Allowed, Delay: milliseconds(a.DelayMs), Source: a.Source, Revision: a.Revision,
		Results: make([]engine.Result, len(a.Results)),
	}
	for i := range a.Results {
		r, err := a.Results[i].decision()
		if err != nil {
			return engine.Answer{}, fmt.Errorf("results[%d]: %w", i, err)
		}
		if r.Source == "" {
			r.Source = a.Source
		}
		if r.Allowed && r.Rule.Algorithm == limiter.LeakyBucket { // answers tell the longest alone
			r.Delay = out.Delay
		}
		out.Results[i] = r
	}
	return out, nil
}

func (r *Result) decision() (engine.Result, error) {
	window, err := time.ParseDuration(r.Window)
	if err != nil {
		return engine.Result{}, err
	}
	limit, err := limiter.NewLimit(r.Algorithm, r.Limit, window)
	if err != nil {
		return engine.Result{}, err
	}
	retry := limiter.Never
	if r.RetryAfterMs != nil {
		retry = milliseconds(*r.RetryAfterMs)
	}
	return engine.Result{
		Rule: &rules.Compiled{
			Rule: rules.Rule{
				Policy: r.Policy, Axis: r.Axis, Algorithm: r.Algorithm, Shadow: r.Shadow,
				Units: r.Limit, WindowSeconds: int64(window / time.Second),
			},
			Limit: limit,
		},
		Identifier: r.Identifier, Tier: r.Tier, Window: window, Source: r.Source,
		Decision: limiter.Decision{
			Allowed: r.Allowed, Limit: r.Limit, Remaining: r.Remaining,
			ResetAfter: milliseconds(r.ResetAfterMs), RetryAfter: retry,
		},
	}, nil
}

// milliseconds is so many, short of overflow.
func milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64/int64(time.Millisecond) - 1
	return time.Duration(min(max(ms, 0), most)) * time.Millisecond
}

// roundUp is how many whole units cover d ≥ 0.
func roundUp(d, unit time.Duration) int64 {
	whole := int64(d / unit)
	if d%unit > 0 {
		whole++
	}
	return whole
}
