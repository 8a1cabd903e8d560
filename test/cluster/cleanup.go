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

// cleanUp removes all of Weir and of the story, wherever the story has ended. Where it has ended well, there is nothing.
func (s *story) cleanUp(ctx context.Context) error {
	left, err := s.leftovers(ctx)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	s.say("cleaning up: %d objects", len(left))
	err = errors.Join(
		s.releaseLimiters(ctx),
		s.deleteOwn(ctx),
		s.run(ctx, "kubectl", "delete", "validatingwebhookconfiguration", "weir-policies", "weir-throttle", "--ignore-not-found"),
		s.run(ctx, "kubectl", "delete", "namespace", system, "--ignore-not-found", "--timeout=60s"),
		s.run(ctx, "kubectl", "delete", "-k", "config/crd", "--ignore-not-found", "--timeout=60s"),
		s.deleteRoles(ctx),
	)
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// releaseLimiters deletes Limiters whether an operator is there or not.
func (s *story) releaseLimiters(ctx context.Context) error {
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

func (s *story) deleteRoles(ctx context.Context) error {
	var roles rbacv1.ClusterRoleList
	var bindings rbacv1.ClusterRoleBindingList
	errs := []error{s.List(ctx, &roles), s.List(ctx, &bindings)}
	for i := range roles.Items {
		if isWeirs(roles.Items[i].ObjectMeta) {
			errs = append(errs, s.Delete(ctx, &roles.Items[i]))
		}
	}
	for i := range bindings.Items {
		if isWeirs(bindings.Items[i].ObjectMeta) {
			errs = append(errs, s.Delete(ctx, &bindings.Items[i]))
		}
	}
	return errors.Join(errs...)
}

// diagnose keeps what explains a failure. What cannot be had is said in its place.
func (s *story) diagnose(ctx context.Context, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.say("nothing is kept of what explains this: %v", err)
		return
	}
	keep := func(file string, args ...string) {
		text, err := s.quietly(ctx, "", args...)
		if err != nil {
			text += "\n" + err.Error()
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			s.say("%v", err)
		}
	}
	keep("pods.txt", "kubectl", "get", "pods", "-A", "-o", "wide")
	keep("events.txt", "kubectl", "get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
	keep("weir.yaml", "kubectl", "get", "limiters,ratelimitpolicies,clusterratelimitpolicies", "-A", "-o", "yaml")
	for _, place := range []string{system, traffic, mistaken} {
		keep(place+".yaml", "kubectl", "-n", place, "get", "deployments,replicasets,pods,services,endpointslices,configmaps,leases", "-o", "yaml")
		pods, err := s.quietly(ctx, "", "kubectl", "-n", place, "get", "pods", "-o", "name")
		if err != nil {
			continue
		}
		for pod := range strings.FieldsSeq(pods) {
			name := strings.TrimPrefix(pod, "pod/")
			keep(name+".log", "kubectl", "-n", place, "logs", pod, "--all-containers", "--timestamps")
			keep(name+".previous.log", "kubectl", "-n", place, "logs", pod, "--all-containers", "--timestamps", "--previous")
		}
	}
	s.say("what explains this is in %s", dir)
}
