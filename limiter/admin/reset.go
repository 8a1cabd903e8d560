package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/reply"
)

// ResetResult reports the counters that were reset, as they were before.
type ResetResult struct {
	Counters []Counter `json:"counters"`
	DryRun   bool      `json:"dryRun,omitempty"`
	// Identifier as it is counted, see [Counter]. Empty for all policies, which can count it differently.
	Identifier string `json:"identifier,omitempty"`
	// Skipped are policies whose counters were not reset, see [CounterList].
	Skipped    []string    `json:"skipped,omitempty"`
	Unsearched *Unsearched `json:"unsearched,omitempty"`
}

// The lengths of the longest reason and ID, in bytes.
const maxReason, maxID = 1000, 64

func validateReset(r *adminapi.ResetRequest) *reply.Problem {
	bad := func(field, why string) *reply.Problem {
		return reply.NewProblem(http.StatusBadRequest, field, field+" "+why)
	}
	switch {
	case r.Identifier == "":
		return bad("identifier", "is required")
	case (r.Policy == "") != r.AllPolicies:
		return bad("policy", "is required, unless allPolicies is true")
	case strings.TrimSpace(r.Reason) == "":
		return bad("reason", "is required: it is logged with the name of the caller")
	case len(r.Reason) > maxReason:
		return bad("reason", "is too long")
	case len(r.ID) > maxID:
		return bad("id", "is too long")
	default:
		return nil
	}
}

// Reset resets counters, and logs who did it and why.
func (c *Counters) Reset(ctx context.Context, r *adminapi.ResetRequest) (ResetResult, *reply.Problem) {
	if bad := validateReset(r); bad != nil {
		return ResetResult{}, bad
	}
	selected, bad := c.rules(r.Policy)
	if bad != nil {
		return ResetResult{}, bad
	}
	if !r.AllPolicies {
		if _, bad := countedAs(selected[0], r.Identifier); bad != nil {
			return ResetResult{}, bad
		}
	}
	var skipped []string
	if r.AllPolicies {
		selected, skipped = withoutText(selected, r.Identifier)
	}
	keys, unsearched, err := c.keysOf(ctx, selected, r.Identifier, !r.AllPolicies)
	if err != nil {
		return ResetResult{}, unavailable(err)
	}
	counters, err := c.readAll(ctx, keys)
	if err != nil {
		return ResetResult{}, unavailable(err)
	}
	result := ResetResult{Counters: append([]Counter{}, counters...), DryRun: r.DryRun, Skipped: skipped, Unsearched: unsearched}
	if !r.AllPolicies && len(keys) > 0 {
		result.Identifier = keys[0].identifier
	}
	if r.DryRun || len(keys) == 0 {
		return result, nil
	}
	names := make([]string, len(keys)) // also those without units: a replica can remember a denial
	for i := range keys {
		names[i] = keys[i].key
	}
	err = c.Engine.Reset(ctx, names, r.ID)
	counters = withUnits(counters)
	for i := range counters {
		b := &counters[i]
		c.Log.Warn("counter reset", "policy", b.Policy, "identifier", b.Identifier, "endpoint", b.Endpoint, "used", b.Used,
			"caller", Caller(ctx), "reason", r.Reason, "error", err)
	}
	if len(counters) == 0 {
		c.Log.Warn("counter reset", "policy", r.Policy, "identifier", keys[0].identifier, "used", 0, "caller", Caller(ctx), "reason", r.Reason, "error", err)
	}
	if err != nil {
		return ResetResult{}, reply.NewProblem(http.StatusServiceUnavailable, "", "the counters may not be reset: "+err.Error())
	}
	return result, nil
}
