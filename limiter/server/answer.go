package server

import (
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// answer is the body of a decision. The numbers at the top are those of the strictest enforced policy, empty and 0 if
// there is none. Durations are whole milliseconds, rounded up.
type answer struct {
	Allowed      bool          `json:"allowed"`
	Policy       string        `json:"policy"`
	Limit        int64         `json:"limit"`
	Remaining    int64         `json:"remaining"`
	ResetAfterMs int64         `json:"resetAfterMs"`
	RetryAfterMs *int64        `json:"retryAfterMs"` // null: no wait suffices
	DelayMs      int64         `json:"delayMs"`
	Source       engine.Source `json:"source"`
	Revision     string        `json:"revision"`
	Results      []result      `json:"results"`
}

// result is what one policy decided.
type result struct {
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
	RetryAfterMs *int64            `json:"retryAfterMs"`
	Shadow       bool              `json:"shadow"`
	Source       engine.Source     `json:"source,omitempty"` // where it is not the answer's
}

func newAnswer(a *engine.Answer) answer {
	out := answer{
		Allowed:      a.Allowed,
		RetryAfterMs: new(int64),
		DelayMs:      roundUp(a.Delay, time.Millisecond),
		Source:       a.Source,
		Revision:     a.Revision,
		Results:      make([]result, len(a.Results)),
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

func newResult(r *engine.Result) result {
	return result{
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

// roundUp is how many whole units cover d ≥ 0.
func roundUp(d, unit time.Duration) int64 {
	whole := int64(d / unit)
	if d%unit > 0 {
		whole++
	}
	return whole
}
