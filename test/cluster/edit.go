package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/journal"
)

// edits is an edit that is to be Ready in that time.
func (s *story) edits(load loadPod, limit time.Duration) step {
	return func(ctx context.Context) error { return s.edit(ctx, load, limit) }
}

// edit raises the limit of the edited policy, and tells when after that the API server has stored it, the load got the first
// answer by the new limit and the last by the old one, and the policy said Ready.
func (s *story) edit(ctx context.Context, load loadPod, limit time.Duration) error {
	s.edited++
	p := policyNamed(traffic, editedPolicy)
	var before, after int64
	sent := time.Now()
	err := change(ctx, s, p, func(p *v1alpha1.RateLimitPolicy) {
		before, after = p.Spec.Limit, plenty+s.edited
		p.Spec.Limit = after
	})
	if err != nil {
		return err
	}
	stored := time.Now()
	took, err := await(ctx, limit, s.says(p, ready("Programmed")))
	if err != nil {
		s.expect(false, "an edit is not Ready: %v", err)
		return nil
	}
	if err := s.journalUntil(ctx, load, time.Now().Add(time.Second)); err != nil {
		return err
	}
	j, err := s.journalOf(ctx, load)
	if err != nil {
		return err
	}
	old, renewed := seen(j, before), seen(j, after)
	took += stored.Sub(sent)
	s.say("an edit was stored %v after it was sent; first answer by it after %v, last by the old limit after %v, Ready after %v",
		stored.Sub(sent).Round(time.Millisecond), renewed.First.Sub(sent).Round(time.Millisecond),
		old.Last.Sub(sent).Round(time.Millisecond), took.Round(time.Millisecond))
	s.expect(!renewed.First.IsZero(), "no answer shows the new limit %d", after)
	s.expect(old.Last.Sub(sent) <= took+time.Second, "an answer by the old limit came %v after the policy said Ready", old.Last.Sub(sent)-took)
	return nil
}

// seen is when answers had that limit of the edited policy.
func seen(j journal.Journal, limit int64) journal.Seen {
	return j.All().Limits[fmt.Sprintf("%s/%s %d", traffic, editedPolicy, limit)]
}
