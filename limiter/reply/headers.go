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
	"github.com/weir-dev/weir/limiter/decision"
)

// Style is a family of header fields that describe limits to a client.
type Style string

// The styles. In every style, a denial has a Retry-After in whole seconds, rounded up, if a later retry can be allowed.
const (
	// RateLimitHeaders is draft-ietf-httpapi-ratelimit-headers-11:
	//
	//	RateLimit-Policy: "shop/tenant-daily";q=100;w=86400
	//	RateLimit: "shop/tenant-daily";r=99;t=86400
	RateLimitHeaders Style = "RateLimit"
	// XRateLimitHeaders is draft-polli-ratelimit-headers-03 with the field names that Envoy uses:
	//
	//	X-RateLimit-Limit: 100, 100;w=86400;name="shop/tenant-daily"
	//	X-RateLimit-Remaining: 99
	//	X-RateLimit-Reset: 86400
	XRateLimitHeaders Style = "XRateLimit"
	// GitHubHeaders are those of GitHub's API: plain numbers, and the reset in seconds since the Unix epoch.
	//
	//	X-RateLimit-Limit: 100
	//	X-RateLimit-Remaining: 99
	//	X-RateLimit-Reset: 1790000000
	GitHubHeaders Style = "GitHub"
	// NoHeaders omits the limits.
	NoHeaders Style = "None"
)

// ParseStyle returns the style with the given name.
func ParseStyle(name string) (Style, error) {
	switch s := Style(name); s {
	case RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders:
		return s, nil
	default:
		return "", fmt.Errorf("unknown header family %q: must be %s, %s, %s or %s", name, RateLimitHeaders, XRateLimitHeaders, GitHubHeaders, NoHeaders)
	}
}

// Field is a header field.
type Field struct {
	Name  string // as the drafts write it
	Lower string // in lower case, for HTTP/2 and gRPC
	Value string
}

// SetHeaders sets the header fields for a. Fields that are lists contain the enforced policies that matched, strictest first, as far as
// they fit in 2 KiB with the headers of the denial; the other fields describe the strictest.
// No field contains a shadow policy: a client that slowed down because of one would in effect
// be limited by it. The error is about a policy name that a header cannot contain; Retry-After is set all the same.
func (s Style) SetHeaders(h http.Header, a *decision.Answer, now time.Time) error {
	var room [maxFields]Field
	fields, err := s.AppendFields(room[:0], a, now)
	setFields(h, fields, func(name string) string { return name }) // not h.Set, which would change the capitals of the drafts' names
	return err
}

// SetCanonicalHeaders is SetHeaders with the keys of net/http, such as "Ratelimit", so that h.Get finds the headers. Names of headers have no case on
// the way to a client. Only GitHubHeaders need the clock.
func (s Style) SetCanonicalHeaders(h http.Header, a *decision.Answer, clock func() time.Time) error {
	var now time.Time
	if s == GitHubHeaders {
		now = clock()
	}
	var room [maxFields]Field
	fields, err := s.AppendFields(room[:0], a, now)
	setFields(h, fields, canonical)
	return err
}

func setFields(h http.Header, fields []Field, key func(name string) string) {
	values := make([]string, len(fields))
	for i := range fields {
		values[i] = fields[i].Value
		h[key(fields[i].Name)] = values[i : i+1 : i+1]
	}
}

// canonical is http.CanonicalHeaderKey without an allocation for the fields of the styles.
func canonical(name string) string {
	switch name {
	case "RateLimit":
		return "Ratelimit"
	case "RateLimit-Policy":
		return "Ratelimit-Policy"
	case "X-RateLimit-Limit":
		return "X-Ratelimit-Limit"
	case "X-RateLimit-Remaining":
		return "X-Ratelimit-Remaining"
	case "X-RateLimit-Reset":
		return "X-Ratelimit-Reset"
	default:
		return http.CanonicalHeaderKey(name)
	}
}

// maxFields is the largest number of fields that a style sets.
const maxFields = 4

// AppendFields appends the fields that SetHeaders sets to dst, ordered by their names in lower case. With an error, it appends the
// fields that SetHeaders sets with an error.
func (s Style) AppendFields(dst []Field, a *decision.Answer, now time.Time) ([]Field, error) {
	strictest := a.Strictest()
	if strictest == nil {
		return dst, nil
	}
	var t text
	var err error
	switch s {
	case RateLimitHeaders:
		err = t.rateLimit(a)
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
	return t.appendTo(dst), err
}

func (t *text) retryAfter(a *decision.Answer, strictest *decision.Result) {
	if !a.Allowed && strictest.RetryAfter != limiter.Never {
		t.number(max(1, seconds(strictest.RetryAfter)))
		t.field("Retry-After", "retry-after")
	}
}

func (t *text) rateLimit(a *decision.Answer) error {
	n := listed(a)
	for i := range n {
		r := &a.Results[i]
		if err := t.item(r.Rule.Policy, ";r=", r.Remaining); err != nil {
			return t.fail("RateLimit", err)
		}
		if !isEndless(r) {
			t.raw(";t=")
			t.number(seconds(effectiveWindow(r.Decision)))
		}
	}
	t.field("RateLimit", "ratelimit")
	for i := range n {
		r := &a.Results[i]
		if err := t.item(r.Rule.Policy, ";q=", r.Decision.Limit); err != nil {
			return t.fail("RateLimit-Policy", err)
		}
		t.raw(";w=")
		t.number(seconds(r.Window))
	}
	t.field("RateLimit-Policy", "ratelimit-policy")
	return nil
}

// numbers writes the three fields with plain numbers, as they were before the draft named policies. Unless a is nil, its policies
// follow the limit: 100, 100;w=86400;name="shop/tenant-daily".
func (t *text) numbers(strictest *decision.Result, a *decision.Answer, reset time.Duration) error {
	t.number(strictest.Decision.Limit)
	if a != nil {
		for i := range listed(a) {
			r := &a.Results[i]
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
	if !isEndless(strictest) {
		t.number(seconds(reset))
		t.field("X-RateLimit-Reset", "x-ratelimit-reset")
	}
	return nil
}

// enforced returns the number of results of enforced policies, which the engine orders first, the strictest of them first.
func enforced(a *decision.Answer) int {
	for i := range a.Results {
		if a.Results[i].Rule.Shadow {
			return i
		}
	}
	return len(a.Results)
}

// maxListed is the size of the fields of an answer that lists of policies must not exceed, in bytes. A proxy reads the header of a response into a
// buffer of 4 KiB, for example nginx. It takes a larger one for an error, and can then admit the request.
const maxListed = 2 << 10

// listed returns how many of the enforced policies the fields of an answer list, strictest first: at least one, and as many as fit in maxListed.
// The other fields of the answer are the headers of the denial.
func listed(a *decision.Answer) int {
	const parameters = 32 // bytes of an item that are not its name
	size, n := 0, enforced(a)
	if denial := a.Denial(); denial != nil {
		for _, h := range denial.Headers {
			size += len(h.Name) + len(h.Value)
		}
	}
	for i := range n {
		size += 2 * (len(a.Results[i].Rule.Policy) + parameters) // RateLimit and RateLimit-Policy list the same policies
		if i > 0 && size > maxListed {
			return i
		}
	}
	return n
}

// isEndless reports whether r is a denial without a counter, whose end is unknown: by a limit of 0, or because the identifier is missing. A time
// until the reset would let the client come back then.
func isEndless(r *decision.Result) bool {
	return r.RetryAfter == limiter.Never && (r.Decision.Limit == 0 || r.Missing != "")
}

// effectiveWindow is the time for which the client can spend no more than what remains. For a denial it ends when a retry would
// be allowed, so that it never ends after Retry-After; otherwise it ends when the full limit is available.
func effectiveWindow(d limiter.Decision) time.Duration {
	if d.Allowed || d.RetryAfter == limiter.Never {
		return d.ResetAfter
	}
	return d.RetryAfter
}

// seconds is d ≥ 0 in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return roundUp(d, time.Second) }

// Fields yields the header fields of h ordered by name, with names in lower case, for HTTP/2 and gRPC.
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
