package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/topk"
)

// Top describes what a limiter has done in the last one or two minutes.
type Top struct {
	// Seconds that the figures cover, until now. Those of several replicas cover the longest of their times.
	Seconds float64 `json:"seconds"`
	// Allowed lists the identifiers with the most requests that a policy allowed and counted, Denied those with the most denials. An
	// identifier appears once for each policy. See [topk.List] for the bounds of the errors.
	Allowed topk.List `json:"allowed"`
	Denied  topk.List `json:"denied"`
	// Policies that have decided requests, those with the most denials first.
	Policies []PolicyDecisions `json:"policies"`
	// Sources of decisions, sorted by name.
	Sources []SourceDecisions `json:"sources"`
	// Endpoints that have decided requests, sorted by name.
	Endpoints []EndpointDecisions `json:"endpoints"`
}

// PolicyDecisions counts the decisions of a policy.
type PolicyDecisions struct {
	Policy string `json:"policy"`
	// Shadow is true if the policy reports denials, and denies nothing.
	Shadow  bool  `json:"shadow,omitempty"`
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	// Uncharged requests were denied by another policy. To Unlimited ones, a tier without limit applies.
	Uncharged int64 `json:"uncharged"`
	Unlimited int64 `json:"unlimited"`
}

// SourceDecisions counts the decisions of policies that were made at one source.
type SourceDecisions struct {
	Source    engine.Source `json:"source"`
	Decisions int64         `json:"decisions"`
}

// EndpointDecisions describes the durations of the decisions of an endpoint.
type EndpointDecisions struct {
	Endpoint  string `json:"endpoint"`
	Decisions int64  `json:"decisions"`
	// Quantiles of the durations, estimated from Buckets.
	P50Ms float64 `json:"p50Ms"`
	P90Ms float64 `json:"p90Ms"`
	P99Ms float64 `json:"p99Ms"`
	// Buckets of durations, in ascending order.
	Buckets []DurationBucket `json:"buckets"`
}

// DurationBucket counts the decisions that took at most Seconds.
type DurationBucket struct {
	Seconds   float64 `json:"seconds"`
	Decisions int64   `json:"decisions"`
}

// The number of identifiers in each list of a Top.
const (
	defaultTop = 100
	maxTop     = 1000
)

func (h *handler) top(w http.ResponseWriter, r *http.Request) {
	query, n := r.URL.Query(), defaultTop
	if text := query.Get("limit"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxTop {
			reply.NewProblem(http.StatusBadRequest, "limit", fmt.Sprintf("limit must be from 1 to %d, not %s", maxTop, quote(text))).Write(w)
			return
		}
	}
	policy := query.Get("policy")
	if policy != "" {
		selected, bad := h.Counters.rules(policy)
		if bad == nil {
			bad = oneRate(selected)
		}
		if bad != nil {
			bad.Write(w)
			return
		}
	}
	top, err := h.Totals.Top(n, policy)
	if err != nil {
		reply.NewProblem(http.StatusServiceUnavailable, "", err.Error()).Write(w)
		return
	}
	h.markHashes(top.Allowed.Identifiers)
	h.markHashes(top.Denied.Identifiers)
	write(w, top)
}

// markHashes sets Hashed of the entries of policies that the limiter enforces now.
func (h *handler) markHashes(entries []topk.Entry) {
	index := h.Counters.Engine.Index()
	if index == nil {
		return
	}
	byPolicy := map[string]*matching.Compiled{}
	for rule := range index.Rules() {
		byPolicy[rule.Policy] = rule
	}
	for i := range entries {
		e := &entries[i]
		rule := byPolicy[e.Policy]
		e.Hashed = rule != nil && rule.Hashes(e.Identifier)
	}
}

// MergeTops returns the Top of several replicas, with n identifiers in each list.
func MergeTops(n int, tops ...Top) Top {
	var allowed, denied []topk.List
	sum := newTotals()
	merged := Top{}
	for i := range tops {
		t := &tops[i]
		merged.Seconds = max(merged.Seconds, t.Seconds)
		allowed, denied = append(allowed, t.Allowed), append(denied, t.Denied)
		sum.addTop(t)
	}
	merged.Allowed, merged.Denied = topk.Merge(n, allowed...), topk.Merge(n, denied...)
	sum.fill(&merged)
	return merged
}
