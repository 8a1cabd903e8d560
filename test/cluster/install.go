package main

import (
	"context"
	"time"
)

// installByManifest runs the commands of docs/how-to/install.md, with server-side apply.
func installByManifest(ctx context.Context, s *scenario) error {
	if err := s.applyManifest(ctx, s.options.image); err != nil {
		return err
	}
	if err := s.waitForOperator(ctx); err != nil {
		return err
	}
	s.within(ctx, 30*time.Second, "the webhook rejects an invalid policy and names each field", s.rejectsInvalidPolicy)
	return nil
}
