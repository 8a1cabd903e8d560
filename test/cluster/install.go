package main

import (
	"context"
	"time"
)

// installSteps install Weir, use it, and remove it.
type installSteps struct{ *scenario }

// installByManifest runs the commands of docs/how-to/install.md, with server-side apply.
func (s installSteps) installByManifest(ctx context.Context) error {
	if err := s.applyManifest(ctx, s.options.image); err != nil {
		return err
	}
	if err := s.waitForOperator(ctx); err != nil {
		return err
	}
	s.within(ctx, 30*time.Second, "the webhook rejects an invalid policy and names each field", s.rejectsInvalidPolicy)
	return nil
}
