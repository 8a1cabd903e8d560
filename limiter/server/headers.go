package server

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// setHeaders tells the client about a, as draft-ietf-httpapi-ratelimit-headers-11 has it:
//
//	RateLimit-Policy: "shop/tenant-daily";q=100;w=86400
//	RateLimit: "shop/tenant-daily";r=99;t=86400
//
// All enforced policies that matched are listed, strictest first. Shadow policies bind nobody: a client that slowed
// down for one would be limited by it, so they are never listed. A denial that waiting can mend has a Retry-After.
func setHeaders(h http.Header, a *engine.Answer) error {
	var policies, limits httpsfv.List
	for i := range a.Results {
		r := &a.Results[i]
		if r.Rule.Shadow {
			break // the engine orders enforced results first
		}
		policies = append(policies, item(r.Rule.Policy, "q", r.Decision.Limit, "w", seconds(r.Rule.Limit.Window())))
		limits = append(limits, item(r.Rule.Policy, "r", r.Remaining, "t", seconds(effectiveWindow(r.Decision))))
	}
	if len(policies) == 0 {
		return nil
	}
	if strictest := a.Strictest(); !a.Allowed && strictest.RetryAfter != limiter.Never {
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(strictest.RetryAfter)), 10))
	}
	if err := setList(h, "RateLimit-Policy", policies); err != nil {
		return err
	}
	return setList(h, "RateLimit", limits)
}

// effectiveWindow is for how long the client should count on no more than what remains: until a retry would pass, so
// that Retry-After does not point before its end, else until the full limit is back.
func effectiveWindow(d limiter.Decision) time.Duration {
	if d.Allowed || d.RetryAfter == limiter.Never {
		return d.ResetAfter
	}
	return d.RetryAfter
}

func seconds(d time.Duration) int64 { return roundUp(d, time.Second) }

func item(name, first string, a int64, second string, b int64) httpsfv.Item {
	i := httpsfv.NewItem(name)
	i.Params.Add(first, a)
	i.Params.Add(second, b)
	return i
}

func setList(h http.Header, name string, list httpsfv.List) error {
	value, err := httpsfv.Marshal(list)
	if err != nil {
		return fmt.Errorf("write header %s: %w", name, err) // a policy name that is not ASCII
	}
	h[name] = []string{value} // not h.Set: over HTTP/1.1 the name is spelled as in the draft
	return nil
}
