package reply

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// Style is how a client is told of its limits.
type Style string

// The styles. Whatever the style, a denial that waiting can mend has a Retry-After, in whole seconds, rounded up.
const (
	// Draft11 is draft-ietf-httpapi-ratelimit-headers-11:
	//
	//	RateLimit-Policy: "shop/tenant-daily";q=100;w=86400
	//	RateLimit: "shop/tenant-daily";r=99;t=86400
	Draft11 Style = "Draft11"
	// Draft03 is draft-polli-ratelimit-headers-03 with the names that Envoy gives the fields:
	//
	//	X-RateLimit-Limit: 100, 100;w=86400;name="shop/tenant-daily"
	//	X-RateLimit-Remaining: 99
	//	X-RateLimit-Reset: 86400
	Draft03 Style = "Draft03"
	// GitHub is what GitHub's API sends: plain numbers, and the reset as seconds since the Unix epoch.
	//
	//	X-RateLimit-Limit: 100
	//	X-RateLimit-Remaining: 99
	//	X-RateLimit-Reset: 1790000000
	GitHub Style = "GitHub"
	// None leaves the limits out.
	None Style = "None"
)

// ParseStyle returns the style of that name.
func ParseStyle(name string) (Style, error) {
	switch s := Style(name); s {
	case Draft11, Draft03, GitHub, None:
		return s, nil
	default:
		return "", fmt.Errorf("%q is no style of headers; there are %s, %s, %s and %s", name, Draft11, Draft03, GitHub, None)
	}
}

// SetHeaders tells the client about a. All enforced policies that matched are listed, strictest first; the fields that have
// room for one speak of the strictest. Shadow policies bind nobody: a client that slowed down for one would be limited by
// it, so they are never told of. An error is a policy name that cannot stand in a header: Retry-After is set all the same.
func (s Style) SetHeaders(h http.Header, a *engine.Answer, now time.Time) error {
	strictest := a.Strictest()
	if strictest == nil {
		return nil
	}
	if !a.Allowed && strictest.RetryAfter != limiter.Never {
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(strictest.RetryAfter)), 10))
	}
	switch s {
	case Draft11:
		return draft11(h, a)
	case Draft03:
		return numbers(h, strictest, a, effectiveWindow(strictest.Decision))
	case GitHub:
		sinceEpoch := time.Duration(now.UnixMicro())*time.Microsecond + effectiveWindow(strictest.Decision)
		return numbers(h, strictest, nil, sinceEpoch)
	case None:
	}
	return nil
}

func draft11(h http.Header, a *engine.Answer) error {
	var policies, limits httpsfv.List
	for r := range enforced(a) {
		policies = append(policies, item(r.Rule.Policy, "q", r.Decision.Limit, "w", seconds(r.Window)))
		limits = append(limits, item(r.Rule.Policy, "r", r.Remaining, "t", seconds(effectiveWindow(r.Decision))))
	}
	if err := setList(h, "RateLimit-Policy", policies); err != nil {
		return err
	}
	return setList(h, "RateLimit", limits)
}

// numbers sets the three fields of before the draft named policies. The policies of a, unless nil, stand behind the limit.
func numbers(h http.Header, strictest *engine.Result, a *engine.Answer, reset time.Duration) error {
	limit := strconv.FormatInt(strictest.Decision.Limit, 10)
	if a != nil {
		policies, err := quotas(a)
		if err != nil {
			return err
		}
		limit += ", " + policies
	}
	set(h, "X-RateLimit-Limit", limit)
	set(h, "X-RateLimit-Remaining", strconv.FormatInt(strictest.Remaining, 10))
	set(h, "X-RateLimit-Reset", strconv.FormatInt(seconds(reset), 10))
	return nil
}

// quotas lists the enforced policies of a: 100;w=86400;name="shop/tenant-daily".
func quotas(a *engine.Answer) (string, error) {
	var list httpsfv.List
	for r := range enforced(a) {
		quota := httpsfv.NewItem(r.Decision.Limit)
		quota.Params.Add("w", seconds(r.Window))
		quota.Params.Add("name", r.Rule.Policy)
		list = append(list, quota)
	}
	return marshal("X-RateLimit-Limit", list)
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
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}

func item(name, first string, a int64, second string, b int64) httpsfv.Item {
	i := httpsfv.NewItem(name)
	i.Params.Add(first, a)
	i.Params.Add(second, b)
	return i
}

func setList(h http.Header, name string, list httpsfv.List) error {
	value, err := marshal(name, list)
	if err != nil {
		return err
	}
	set(h, name, value)
	return nil
}

func marshal(name string, list httpsfv.List) (string, error) {
	value, err := httpsfv.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("write header %s: %w", name, err) // a policy name that is not ASCII
	}
	return value, nil
}

// set is not h.Set: over HTTP/1.1 a name is spelled as in the draft.
func set(h http.Header, name, value string) { h[name] = []string{value} }

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
