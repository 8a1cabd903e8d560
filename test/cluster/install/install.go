// Package install has the steps that install Weir, upgrade its CRDs, and remove it in every order without leftovers.
package install

import (
	"context"
	"time"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// Steps are the steps of a scenario.
type Steps struct{ *scenario.Scenario }

// InstallByManifest runs the commands of docs/how-to/install.md, with server-side apply.
func (s Steps) InstallByManifest(ctx context.Context) error {
	if err := s.ApplyManifest(ctx, s.Options.Image); err != nil {
		return err
	}
	if err := s.WaitForOperator(ctx); err != nil {
		return err
	}
	s.Within(ctx, 30*time.Second, "the webhook rejects an invalid policy and names each field", s.RejectsInvalidPolicy)
	return nil
}
