package reply

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// Style is how a client is told of its limits.
type Style string

// The styles. Whatever the style, a denial that waiting can mend has a Retry-After, in whole seconds, rounded up.
const (
	// RateLimitHeaders is draft-ietf-httpapi-ratelimit-headers-11:
	//
	//	RateLimit-Policy: "shop/tenant-daily";q=100;w=86400
	//	RateLimit: "shop/tenant-daily";r=99;t=86400
	RateLimitHeaders Style = "RateLimit"
	// XRateLimitHeaders is draft-polli-ratelimit-headers-03 with the names that Envoy gives the fields:
	//
	//	X-RateLimit-Limit: 100, 100;w=86400;name="shop/tenant-daily"
	//	X-RateLimit-Remaining: 99
	//	X-RateLimit-Reset: 86400
	XRateLimitHeaders Style = "XRateLimit"
	// GitHubHeaders is what GitHub's API sends: plain numbers, and the reset as seconds since the Unix epoch.
	//
	//	X-RateLimit-Limit: 100
	//	X-RateLimit-Remaining: 99
	//	X-RateLimit-Reset: 1790000000
	GitHubHeaders Style = "GitHub"
	// NoHeaders leaves the limits out.
	NoHeaders Style = "None"
)

// ParseStyle returns the style of that name.
func ParseStyle(name string) (Style, error) {
	switch s := Style(name); s {
	case RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders:
		return s, nil
	default:
		return "", fmt.Errorf("unknown header family %q, want %s, %s, %s or %s", name, RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders)
	}
}

// Field is a header field.
type Field struct {
	Name  string // as the drafts spell it
	Lower string // the same as HTTP/2 and gRPC have it
	Value string
}

// SetHeaders tells the client about a. All enforced policies that matched are listed, strictest first; the fields that have
// room for one speak of the strictest. Shadow policies bind nobody: a client that slowed down for one would be limited by
// it, so they are never told of. An error is a policy name that cannot stand in a header: Retry-After is set all the same.
func (s Style) SetHeaders(h http.Header, a *engine.Answer, now time.Time) error {
	var room [most]Field
	fields, err := s.AppendFields(room[:0], a, now)
	values := make([]string, len(fields))
	for i, f := range fields { // not h.Set: over HTTP/1.1 a name is spelled as in the draft
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
	return err
}

// most is how many fields a client can be told.
const most = 4

// AppendFields appends what SetHeaders sets to dst, in the order of the names in lower case. With an error it appends what
// SetHeaders sets all the same.
func (s Style) AppendFields(dst []Field, a *engine.Answer, now time.Time) ([]Field, error) {
	strictest := a.Strictest()
	if strictest == nil {
		return dst, nil
	}
	var room [256]byte
	t := text{bytes: room[:0], fields: dst}
	var err error
	switch s {
	case RateLimitHeaders:
		err = t.draft11(a)
		t.retryAfter(a, strictest)
	case XRateLimitHeaders:
		t.retryAfter(a, strictest)
		err = t.numbers(strictest, a, effectiveWindow(strictest.Decision))
	case GitHubHeaders:
		t.retryAfter(a, strictest)
		sinceEpoch := time.Duration(now.UnixMicro())*time.Microsecond + effectiveWindow(strictest.Decision)
		err = t.numbers(strictest, nil, sinceEpoch)
	default: // NoHeaders, or "" if no family was chosen
		t.retryAfter(a, strictest)
	}
	return t.end(len(dst)), err
}

func (t *text) retryAfter(a *engine.Answer, strictest *engine.Result) {
	if !a.Allowed && strictest.RetryAfter != limiter.Never {
		t.number(max(1, seconds(strictest.RetryAfter)))
		t.field("Retry-After", "retry-after")
	}
}

func (t *text) draft11(a *engine.Answer) error {
	for r := range enforced(a) {
		err := t.item(r.Rule.Policy, ";r=", r.Remaining, ";t=", seconds(effectiveWindow(r.Decision)))
		if err != nil {
			return t.fail("RateLimit", err)
		}
	}
	t.field("RateLimit", "ratelimit")
	for r := range enforced(a) {
		err := t.item(r.Rule.Policy, ";q=", r.Decision.Limit, ";w=", seconds(r.Window))
		if err != nil {
			return t.fail("RateLimit-Policy", err)
		}
	}
	t.field("RateLimit-Policy", "ratelimit-policy")
	return nil
}

// numbers are the three fields of before the draft named policies. The policies of a, unless nil, stand behind the limit:
// 100, 100;w=86400;name="shop/tenant-daily".
func (t *text) numbers(strictest *engine.Result, a *engine.Answer, reset time.Duration) error {
	t.number(strictest.Decision.Limit)
	if a != nil {
		for r := range enforced(a) {
			t.raw(", ")
			t.number(r.Decision.Limit)
			t.raw(";w=")
			t.number(seconds(r.Window))
			t.raw(";name=")
			if err := t.quoted(r.Rule.Policy); err != nil {
				return t.fail("X-RateLimit-Limit", err)
			}
		}
	}
	t.field("X-RateLimit-Limit", "x-ratelimit-limit")
	t.number(strictest.Remaining)
	t.field("X-RateLimit-Remaining", "x-ratelimit-remaining")
	t.number(seconds(reset))
	t.field("X-RateLimit-Reset", "x-ratelimit-reset")
	return nil
}

// enforced yields the results of policies that bind the client, strictest first.
func enforced(a *engine.Answer) iter.Seq[*engine.Result] {
	return func(yield func(*engine.Result) bool) {
		for i := range a.Results {
			if a.Results[i].Rule.Shadow { // the engine orders enforced results first
				return
			}
			if !yield(&a.Results[i]) {
				return
			}
		}
	}
}

// effectiveWindow is for how long the client should count on no more than what remains: until a retry would pass, so
// that Retry-After does not point before its end, else until the full limit is back.
func effectiveWindow(d limiter.Decision) time.Duration {
	if d.Allowed || d.RetryAfter == limiter.Never {
		return d.ResetAfter
	}
	return d.RetryAfter
}

// seconds is d ≥ 0 in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return roundUp(d, time.Second) }

// Fields yields the header fields of h in the order of their names, in lower case, as HTTP/2 and gRPC have them.
func Fields(h http.Header) iter.Seq2[string, string] {
	names := slices.Sorted(maps.Keys(h))
	return func(yield func(name, value string) bool) {
		for _, name := range names {
			for _, value := range h[name] {
				if !yield(strings.ToLower(name), value) {
					return
				}
			}
		}
	}
}
