package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/loadstats"
)

// editWithin edits a policy, which must be Ready within limit.
func (s *scenario) editWithin(load loadPod, limit time.Duration) action {
	return func(ctx context.Context) error { return s.edit(ctx, load, limit) }
}

// edit raises the limit of the edited policy. It reports when the API server has stored the edit, when the load got the first answer with
// the new limit and the last answer with the old limit, and when the policy was Ready.
func (s *scenario) edit(ctx context.Context, load loadPod, limit time.Duration) error {
	s.edits++
	p := policyNamed(traffic, editedPolicy)
	var before, after int64
	sent := time.Now()
	err := change(ctx, s, p, func(p *v1alpha1.RateLimitPolicy) {
		before, after = p.Spec.Limit, plenty+s.edits
		p.Spec.Limit = after
	})
	if err != nil {
		return err
	}
	stored := time.Now()
	took, err := await(ctx, limit, s.hasCondition(p, ready("Programmed")))
	if err != nil {
		s.expect(false, "the edited policy is not Ready: %v", err)
		return nil
	}
	if err := s.waitForStats(ctx, load, time.Now().Add(time.Second)); err != nil {
		return err
	}
	j, err := s.loadStats(ctx, load)
	if err != nil {
		return err
	}
	old, renewed := seen(j, before), seen(j, after)
	took += stored.Sub(sent)
	s.logf("the edit was stored after %v; first answer with the new limit after %v, last answer with the old limit after %v, Ready after %v",
		stored.Sub(sent).Round(time.Millisecond), renewed.First.Sub(sent).Round(time.Millisecond),
		old.Last.Sub(sent).Round(time.Millisecond), took.Round(time.Millisecond))
	s.expect(!renewed.First.IsZero(), "no answer has the new limit %d", after)
	s.expect(old.Last.Sub(sent) <= took+time.Second, "an answer with the old limit came %v after the policy was Ready", old.Last.Sub(sent)-took)
	return nil
}

// seen returns when answers had this limit of the edited policy.
func seen(j loadstats.Series, limit int64) loadstats.Seen {
	return j.Total().Limits[fmt.Sprintf("%s/%s %d", traffic, editedPolicy, limit)]
}
