package admin

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server"
)

// Explainer explains decisions of an engine.
type Explainer struct {
	Engine *engine.Engine
	// Portion is that of [Counters].
	Portion func(limiter.Charge) Portion
	// ReadWrite reads an AdmissionReview, see throttle.Settings. Package throttle depends on Kubernetes, and this package does not.
	ReadWrite func(review []byte) (write rules.Request, isExempt bool, bad *reply.Problem)
}

// Explain explains the decision about the request in body: the body of POST /v1/check, or an AdmissionReview of admission.k8s.io/v1. With
// allPolicies, it lists the policies of all domains.
func (e *Explainer) Explain(ctx context.Context, body []byte, allPolicies bool) (Explanation, *reply.Problem) {
	check, isExempt, bad := e.read(body)
	if bad != nil {
		return Explanation{}, bad
	}
	explained, err := e.Engine.Explain(ctx, check)
	if err != nil {
		return Explanation{}, reply.Unavailable(err)
	}
	for i := range explained.Policies {
		p := &explained.Policies[i]
		if d := p.Result; d != nil && d.Origin == limiter.OriginLocal && e.Portion != nil {
			p.Used = max(0, e.Portion(limiter.Charge{Key: p.Key, Limit: p.Terms.Limit, WholeShare: p.Rule.LocalShare == rules.WholeShare}).Capacity-d.Remaining)
		}
	}
	out := NewExplanation(&explained, &check.Request, allPolicies)
	if isExempt {
		out.Exempt, out.RefusedBy = true, ""
		out.Answer = reply.NewAnswer(&engine.Answer{Allowed: true, Source: engine.SourceNone, Revision: out.Revision})
	}
	return out, nil
}

func (e *Explainer) read(body []byte) (c engine.Check, isExempt bool, bad *reply.Problem) {
	if !isReview(body) {
		c, bad = server.DecodeCheck(body)
		return c, false, bad
	}
	c = engine.Check{Cost: 1, NoDelay: true} // as the admission endpoint
	c.Request, isExempt, bad = e.ReadWrite(body)
	return c, isExempt, bad
}

// isReview reports whether body is an AdmissionReview. A check has no field kind.
func isReview(body []byte) bool {
	var header struct {
		Kind string `json:"kind"`
	}
	return bytes.Contains(body, []byte("AdmissionReview")) && json.Unmarshal(body, &header) == nil && header.Kind == "AdmissionReview"
}
