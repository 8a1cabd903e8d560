// Package controllers lists the controllers of the operator.
package controllers

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/registration"
	"github.com/weir-dev/weir/controllers/ruleset"
)

// Setup adds every controller to mgr.
func Setup(mgr ctrl.Manager, ruleSets *ruleset.Reconciler, deployments *deployment.Reconciler, registrations *registration.Reconciler) error {
	if err := ruleSets.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller ruleset: %w", err)
	}
	if err := deployments.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller deployment: %w", err)
	}
	if err := registrations.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller registration: %w", err)
	}
	return nil
}
