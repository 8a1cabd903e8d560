package decisionlog

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// maxText is the length of the longest text from a request in a record, in bytes.
const maxText = 256

// message is the message of the log line of a record.
const message = "decision"

// Record describes the decision about one request. With Envoy's rate limit service it is one descriptor.
type Record struct {
	Time time.Time `json:"time"`
	// DecidedAt is the instant of the decision under Policy, in whole microseconds, by the clock of the store that holds the counter: of Redis, if it has
	// the counters. For a known denial, it is up to a round trip early. It is absent if no counter decides. Time is when the limiter wrote the record.
	DecidedAt time.Time `json:"decidedAt,omitzero"`
	// Endpoint that received the request: check, auth, rls, ext_authz or throttle.
	Endpoint string `json:"endpoint"`
	// Result is allowed, denied, or uncharged: allowed, but not counted, because another descriptor of the call was denied. It is the result of
	// Policy: a Shadow policy denies nothing. If enforced policies deny the request, they are in Denied.
	Result string `json:"result"`
	Domain string `json:"domain"`
	// Host, Method and Path of the request, without the query. They are empty for calls without an HTTP request.
	Host   string `json:"host,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Policy that decides: the strictest of the enforced policies, or of the Shadow policies if only these apply.
	Policy string `json:"policy"`
	Axis   string `json:"axis"`
	// Identifier as it is counted under the policy: secrets are hashed.
	Identifier string `json:"identifier,omitempty"`
	Tier       string `json:"tier,omitempty"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
	// Cost is how many times the request counts. It is absent if it counts once.
	Cost int64 `json:"cost,omitempty"`
	// RetryAfterMs is absent if the request is allowed, or if no retry can succeed.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	// Source of the decision, as in POST /v1/check.
	Source engine.Source `json:"source"`
	// Others are the other policies that decided about the request, with their identifiers.
	Others []Other `json:"others,omitempty"`
	// Denied lists the enforced policies that deny, ShadowDenied those in Shadow mode that would deny.
	Denied       []string `json:"denied,omitempty"`
	ShadowDenied []string `json:"shadowDenied,omitempty"`
	// Bypassed lists the policies that did not count the request, because of a bypass. If no other policy applies, Policy is the first of them.
	Bypassed []string `json:"bypassed,omitempty"`
	// Revision of the rule set.
	Revision string `json:"revision"`
}

// Other is a policy that decided about a request, and is not the Policy of its record.
type Other struct {
	Policy     string `json:"policy"`
	Identifier string `json:"identifier,omitempty"`
	Tier       string `json:"tier,omitempty"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
}

// newRecord describes an answer with at least one result or bypassed rule, without identifiers. It copies what comes from the request, which can
// be a part of a large message.
func newRecord(c *engine.Check, a *engine.Answer, charged bool, now time.Time) Record {
	r := Record{
		Time: now, Endpoint: c.Endpoint, Result: "allowed", Domain: clip(c.Request.Domain), Host: clip(c.Request.Host),
		Method: clip(c.Request.Method), Path: clip(c.Request.Path), Source: a.Source, Revision: a.Revision,
	}
	for i := range a.Bypassed {
		r.Bypassed = append(r.Bypassed, a.Bypassed[i].Rule.Policy)
	}
	if len(a.Results) == 0 {
		r.Policy, r.Axis = a.Bypassed[0].Rule.Policy, a.Bypassed[0].Rule.Axis
		return r
	}
	first := &a.Results[0]
	if first.At != 0 {
		r.DecidedAt = first.At.Time().UTC()
	}
	if c.Cost != 1 {
		r.Cost = c.Cost
	}
	for i := range a.Results[1:] {
		other := &a.Results[1+i]
		r.Others = append(r.Others, Other{Policy: other.Rule.Policy, Tier: other.Tier, Limit: other.Decision.Limit, Remaining: other.Remaining})
	}
	r.Policy, r.Axis, r.Tier = first.Rule.Policy, first.Rule.Axis, first.Tier
	r.Limit, r.Remaining = first.Decision.Limit, first.Remaining
	switch {
	case !a.Allowed && !first.Rule.Shadow:
		r.Result = "denied"
		if first.RetryAfter != limiter.Never {
			r.RetryAfterMs = int64((first.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		}
	case !charged:
		r.Result = "uncharged"
	}
	for i := range a.Results {
		switch result := &a.Results[i]; {
		case result.Allowed:
		case result.Rule.Shadow:
			r.ShadowDenied = append(r.ShadowDenied, result.Rule.Policy)
		default:
			r.Denied = append(r.Denied, result.Rule.Policy)
		}
	}
	return r
}

// clip returns a copy of text, which ends with "…" if it is too long.
func clip(text string) string {
	const more = "…"
	if len(text) <= maxText {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:maxText-len(more)], "") + more
}

// log writes the record as a line with the fields of its JSON.
func (r *Record) log(handler slog.Handler) error {
	line := slog.NewRecord(r.Time, slog.LevelInfo, message, 0)
	line.AddAttrs(slog.String("endpoint", r.Endpoint), slog.String("result", r.Result), slog.String("domain", r.Domain))
	if !r.DecidedAt.IsZero() {
		line.AddAttrs(slog.String("decidedAt", r.DecidedAt.Format(microseconds)))
	}
	addText(&line, "host", r.Host)
	addText(&line, "method", r.Method)
	addText(&line, "path", r.Path)
	line.AddAttrs(slog.String("policy", r.Policy), slog.String("axis", r.Axis))
	addText(&line, "identifier", r.Identifier)
	addText(&line, "tier", r.Tier)
	line.AddAttrs(slog.Int64("limit", r.Limit), slog.Int64("remaining", r.Remaining))
	if r.Cost != 0 {
		line.AddAttrs(slog.Int64("cost", r.Cost))
	}
	if r.RetryAfterMs > 0 {
		line.AddAttrs(slog.Int64("retryAfterMs", r.RetryAfterMs))
	}
	line.AddAttrs(slog.String("source", string(r.Source)))
	if len(r.Others) > 0 {
		line.AddAttrs(slog.Any("others", r.Others))
	}
	if len(r.Denied) > 0 {
		line.AddAttrs(slog.Any("denied", r.Denied))
	}
	if len(r.ShadowDenied) > 0 {
		line.AddAttrs(slog.Any("shadowDenied", r.ShadowDenied))
	}
	if len(r.Bypassed) > 0 {
		line.AddAttrs(slog.Any("bypassed", r.Bypassed))
	}
	line.AddAttrs(slog.String("revision", r.Revision))
	return handler.Handle(context.Background(), line)
}

// microseconds is RFC 3339 with all microseconds.
const microseconds = "2006-01-02T15:04:05.000000Z07:00"

func addText(line *slog.Record, key, text string) {
	if text != "" {
		line.AddAttrs(slog.String(key, text))
	}
}
