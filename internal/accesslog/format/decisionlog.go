package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// decisionLog parses the lines of Weir's decision log, which are those of limiter/decisionlog. Other lines of a limiter are skipped.
type decisionLog struct{ clock *clock }

// decisionLine has the fields of a line.
type decisionLine struct {
	Time                           string
	Msg                            string
	Endpoint, Result, Domain       string
	Method, Path                   string
	Policy, Axis, Identifier, Tier string
	Limit, Remaining               int64
	RetryAfterMs                   int64
	Source                         string
	Denied, ShadowDenied, Bypassed []string
	Revision                       string
}

func (p *decisionLog) parse(line string, r *Record) error {
	var d decisionLine
	if err := json.Unmarshal([]byte(line), &d); err != nil {
		return fmt.Errorf("no JSON object: %w", err)
	}
	if d.Msg != "decision" {
		return SkipMessage
	}
	if d.Policy == "" || d.Revision == "" {
		return errors.New("the decision has no policy or no revision")
	}
	at, err := p.clock.parse(d.Time)
	if err != nil {
		return fmt.Errorf(".time: %w", err)
	}
	r.Start, r.Logged = at, at
	q := &r.Request
	q.Domain, q.Method = d.Domain, d.Method
	q.Path, q.NoHTTP = d.Path, d.Method == "" && d.Path == "" // the path is normalized
	r.Recorded = &Recorded{
		Endpoint: d.Endpoint, Result: d.Result, Policy: d.Policy, Axis: d.Axis, Identifier: d.Identifier, Tier: d.Tier, Limit: d.Limit,
		Remaining: d.Remaining, RetryAfter: time.Duration(d.RetryAfterMs) * time.Millisecond, Source: d.Source,
		Denied: d.Denied, ShadowDenied: d.ShadowDenied, Bypassed: d.Bypassed, Revision: d.Revision,
	}
	return nil
}
