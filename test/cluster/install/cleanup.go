package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

// CleanUp removes all objects of Weir and of the test, at whatever step the scenario ended. After a successful run nothing is left.
func (s Steps) CleanUp(ctx context.Context) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	s.Logf("cleaning up %d objects", len(left))
	err = errors.Join(
		s.releaseLimiters(ctx),
		s.deleteOwn(ctx),
		s.Run(ctx, "kubectl", "delete", "validatingwebhookconfiguration", "weir-policies", "weir-throttle", "--ignore-not-found"),
		s.Run(ctx, "kubectl", "delete", "namespace", scenario.System, "--ignore-not-found", "--timeout=60s"),
		s.Run(ctx, "kubectl", "delete", "-k", "config/crd", "--ignore-not-found", "--timeout=60s"),
		s.Run(ctx, "kubectl", "delete", "-k", "config/rbac", "--ignore-not-found", "--timeout=60s"), // also the RoleBinding in kube-system
		s.deleteRoles(ctx),
	)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// releaseLimiters deletes all Limiters and removes their finalizers, so that it works without an operator.
func (s Steps) releaseLimiters(ctx context.Context) error {
	var limiters v1alpha1.LimiterList
	err := s.List(ctx, &limiters)
	if meta.IsNoMatchError(err) {
		return nil
	}
	var errs []error
	for i := range limiters.Items {
		l := &limiters.Items[i]
		errs = append(errs, client.IgnoreNotFound(s.Delete(ctx, l)))
		errs = append(errs, client.IgnoreNotFound(scenario.Change(ctx, s.Scenario, l, func(l *v1alpha1.Limiter) { l.Finalizers = nil })))
	}
	return errors.Join(errs...)
}

func (s Steps) deleteRoles(ctx context.Context) error {
	var roles rbacv1.ClusterRoleList
	var bindings rbacv1.ClusterRoleBindingList
	errs := []error{s.List(ctx, &roles), s.List(ctx, &bindings)}
	for i := range roles.Items {
		if belongsToWeir(roles.Items[i].ObjectMeta) {
			errs = append(errs, s.Delete(ctx, &roles.Items[i]))
		}
	}
	for i := range bindings.Items {
		if belongsToWeir(bindings.Items[i].ObjectMeta) {
			errs = append(errs, s.Delete(ctx, &bindings.Items[i]))
		}
	}
	return errors.Join(errs...)
}

// CheckNoWeir fails if the cluster already has Weir, because the test removes all of Weir.
func (s Steps) CheckNoWeir(ctx context.Context) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the cluster already has objects of Weir: %s; use a cluster without Weir, because the test uninstalls it", strings.Join(left, ", "))
	}
	return nil
}
