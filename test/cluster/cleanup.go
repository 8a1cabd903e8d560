package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	cleanupTime     = 3 * time.Minute
	diagnosticsTime = time.Minute
)

// cleanUp removes all objects of Weir and of the test, at whatever step the scenario ended. After a successful run nothing is left.
func (s *scenario) cleanUp(ctx context.Context) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	s.logf("cleaning up %d objects", len(left))
	err = errors.Join(
		s.releaseLimiters(ctx),
		s.deleteOwn(ctx),
		s.run(ctx, "kubectl", "delete", "validatingwebhookconfiguration", "weir-policies", "weir-throttle", "--ignore-not-found"),
		s.run(ctx, "kubectl", "delete", "namespace", system, "--ignore-not-found", "--timeout=60s"),
		s.run(ctx, "kubectl", "delete", "-k", "config/crd", "--ignore-not-found", "--timeout=60s"),
		s.run(ctx, "kubectl", "delete", "-k", "config/rbac", "--ignore-not-found", "--timeout=60s"), // also the RoleBinding in kube-system
		s.deleteRoles(ctx),
	)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// releaseLimiters deletes all Limiters and removes their finalizers, so that it works without an operator.
func (s *scenario) releaseLimiters(ctx context.Context) error {
	var limiters v1alpha1.LimiterList
	err := s.List(ctx, &limiters)
	if meta.IsNoMatchError(err) {
		return nil
	}
	var errs []error
	for i := range limiters.Items {
		l := &limiters.Items[i]
		errs = append(errs, client.IgnoreNotFound(s.Delete(ctx, l)))
		errs = append(errs, client.IgnoreNotFound(change(ctx, s, l, func(l *v1alpha1.Limiter) { l.Finalizers = nil })))
	}
	return errors.Join(errs...)
}

func (s *scenario) deleteRoles(ctx context.Context) error {
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

// diagnose saves logs, events and objects in dir. If a command fails, the file has the error.
func (s *scenario) diagnose(ctx context.Context, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.logf("cannot save diagnostics: %v", err)
		return
	}
	save := func(file string, args ...string) {
		text, err := s.quietly(ctx, "", args...)
		if err != nil {
			text += "\n" + err.Error()
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			s.logf("%v", err)
		}
	}
	save("pods.txt", "kubectl", "get", "pods", "-A", "-o", "wide")
	save("events.txt", "kubectl", "get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
	save("weir.yaml", "kubectl", "get", "limiters,ratelimitpolicies,clusterratelimitpolicies", "-A", "-o", "yaml")
	for _, namespace := range []string{system, traffic, support, misconfigured} {
		save(namespace+".yaml", "kubectl", "-n", namespace, "get", "deployments,replicasets,pods,services,endpointslices,configmaps,leases", "-o", "yaml")
		pods, err := s.quietly(ctx, "", "kubectl", "-n", namespace, "get", "pods", "-o", "name")
		if err != nil {
			continue
		}
		for pod := range strings.FieldsSeq(pods) {
			name := strings.TrimPrefix(pod, "pod/")
			save(name+".log", "kubectl", "-n", namespace, "logs", pod, "--all-containers", "--timestamps")
			save(name+".previous.log", "kubectl", "-n", namespace, "logs", pod, "--all-containers", "--timestamps", "--previous")
		}
	}
	s.logf("diagnostics are in %s", dir)
}
