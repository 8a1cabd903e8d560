package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/decision"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Answer is a decision in the JSON of POST /v1/check. Its own policy and numbers are those of the strictest enforced policy; they
// are empty and 0 if no enforced policy matched. Durations are whole milliseconds, rounded up.
type Answer struct {
	Allowed      bool            `json:"allowed"`
	Policy       string          `json:"policy"`
	Limit        int64           `json:"limit"`
	Remaining    int64           `json:"remaining"`
	ResetAfterMs int64           `json:"resetAfterMs"`
	RetryAfterMs *int64          `json:"retryAfterMs"` // null: no retry can succeed
	DelayMs      int64           `json:"delayMs"`
	Source       decision.Source `json:"source"`
	Revision     string          `json:"revision"`
	Results      []Result        `json:"results"`
	// Denial is the response to the client that the policy sets. It is nil if the request is allowed, or the policy sets nothing.
	Denial *rules.Denial `json:"denial,omitempty"`
	// Defects name what of the request could not be used as it is. The rest was decided.
	Defects []string `json:"defects,omitempty"`
}

// Result is the decision of one policy.
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
	RetryAfterMs *int64            `json:"retryAfterMs"` // null: no retry can succeed
	Shadow       bool              `json:"shadow"`
	Source       decision.Source   `json:"source,omitempty"` // empty: that of the answer
	// Missing names the sources of the identifier, if the policy denies the request because the request has no identifier.
	Missing string `json:"missing,omitempty"`
}

// NewAnswer converts a to JSON's Answer.
func NewAnswer(a *decision.Answer) Answer {
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
		if source := a.Results[i].Source; source != a.Source {
			out.Results[i].Source = source
		}
	}
	if a.Strictest() != nil {
		top := &out.Results[0] // the engine orders the strictest first
		out.Policy, out.Limit, out.Remaining = top.Policy, top.Limit, top.Remaining
		out.ResetAfterMs, out.RetryAfterMs = top.ResetAfterMs, top.RetryAfterMs
	}
	out.Denial = explicitDenial(a.Denial())
	return out
}

// explicitDenial returns a copy with the defaults, nil for nil.
func explicitDenial(d *rules.Denial) *rules.Denial {
	if d == nil {
		return nil
	}
	explicit := &rules.Denial{Status: d.StatusCode(), Message: d.Message, Headers: d.Headers}
	if d.Message != "" {
		explicit.ContentType = d.MediaType()
	}
	return explicit
}

func newResult(r *decision.Result) Result {
	return Result{
		Policy:       r.Rule.Policy,
		Axis:         r.Rule.Axis,
		Identifier:   ClipIdentifier(r.Identifier),
		Algorithm:    r.Rule.Algorithm,
		Window:       r.Window.String(),
		Tier:         r.Tier,
		Allowed:      r.Allowed,
		Limit:        r.Decision.Limit,
		Remaining:    r.Remaining,
		ResetAfterMs: roundUp(r.ResetAfter, time.Millisecond),
		RetryAfterMs: retryAfterMs(r.RetryAfter),
		Shadow:       r.Rule.Shadow,
		Missing:      r.Missing,
	}
}

// maxIdentifier is the maximum length of an identifier in an answer, in bytes. Clients choose identifiers, and each policy that a request
// matches has one: without a bound, an answer could be too large for its reader.
const maxIdentifier = 256

// ClipIdentifier shortens an identifier to 256 bytes, with "…" at the end.
func ClipIdentifier(identifier string) string {
	const more = "…"
	if len(identifier) <= maxIdentifier {
		return identifier
	}
	return strings.ToValidUTF8(identifier[:maxIdentifier-len(more)], "") + more
}

func retryAfterMs(d time.Duration) *int64 {
	if d == limiter.Never {
		return nil
	}
	ms := roundUp(d, time.Millisecond)
	return &ms
}

// ReadAnswer reads the JSON of an [Answer]. What the JSON does not contain, such as the other fields of a rule, is zero, and so is what
// only a newer limiter writes: another algorithm, a limit beyond the known bounds, a field of another type. An error would let callers
// ignore the denial of a newer limiter. It returns an error for JSON that no limiter writes.
func ReadAnswer(text []byte) (decision.Answer, error) {
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		unknown, ok := errors.AsType[*json.UnmarshalTypeError](err) // Unmarshal has read all other fields
		if !ok || unknown.Field == "" || unknown.Field == "allowed" {
			return decision.Answer{}, err
		}
	}
	out := decision.Answer{
		Allowed: a.Allowed, Delay: milliseconds(a.DelayMs), Source: a.Source, Revision: a.Revision,
		Results: make([]decision.Result, len(a.Results)),
	}
	for i := range a.Results {
		if a.Results[i].Policy == "" {
			return decision.Answer{}, fmt.Errorf("results[%d]: has no policy", i)
		}
		r := a.Results[i].decision()
		if r.Source == "" {
			r.Source = a.Source
		}
		if r.Allowed && r.Rule.Algorithm.Traits().Queues { // the JSON has only the longest delay
			r.Delay = out.Delay
		}
		out.Results[i] = r
	}
	if denies := out.Strictest(); denies != nil && !out.Allowed && a.Denial != nil && a.Denial.Validate() == nil { // a newer limiter has other bounds
		denies.Rule.Denial = a.Denial
	}
	return out, nil
}

func (r *Result) decision() decision.Result {
	window, _ := time.ParseDuration(r.Window)                  // 0 if it is unknown
	limit, _ := limiter.NewLimit(r.Algorithm, r.Limit, window) // zero if it is unknown
	retry := limiter.Never
	if r.RetryAfterMs != nil {
		retry = milliseconds(*r.RetryAfterMs)
	}
	return decision.Result{
		Rule: &matching.Compiled{
			Rule: rules.Rule{
				Policy: r.Policy, Axis: r.Axis, Algorithm: r.Algorithm, Shadow: r.Shadow,
				Units: r.Limit, WindowSeconds: int64(window / time.Second),
			},
			Limit: limit,
		},
		Identifier: r.Identifier, Missing: r.Missing, Tier: r.Tier, Window: window, Source: r.Source,
		Decision: limiter.Decision{
			Allowed: r.Allowed, Limit: r.Limit, Remaining: r.Remaining,
			ResetAfter: milliseconds(r.ResetAfterMs), RetryAfter: retry,
		},
	}
}

// milliseconds converts to a duration, bounded so that it does not overflow.
func milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64/int64(time.Millisecond) - 1
	return time.Duration(min(max(ms, 0), most)) * time.Millisecond
}

// roundUp is d ≥ 0 in whole units, rounded up.
func roundUp(d, unit time.Duration) int64 {
	whole := int64(d / unit)
	if d%unit > 0 {
		whole++
	}
	return whole
}
