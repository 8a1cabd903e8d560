package main

import (
	"context"
	"os"
	"strings"
	"time"
)

// chart is the story once more, shorter, with Helm.
func chart(ctx context.Context, s *story) error {
	helm, err := s.helm(ctx)
	if err != nil {
		return err
	}
	repository, tag, _ := strings.Cut(s.plan.image, ":")
	nextRepository, nextTag, _ := strings.Cut(s.plan.next, ":")
	err = inOrder(
		helm("install", "weir", "charts/weir", "--namespace", system, "--create-namespace",
			"--set", "image.repository="+repository+",image.tag="+tag, "--wait", "--timeout=2m"),
		s.types("kubectl", "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted"),
		s.operatorIsThere,
	)(ctx)
	if err != nil {
		return err
	}
	s.within(ctx, 30*time.Second, "the webhook refuses a bad policy, field by field,", s.refusesBadPolicy)
	if err := s.startLimiter(ctx); err != nil {
		return err
	}
	load, err := s.startLoad(ctx)
	if err != nil {
		return err
	}
	seen, err := s.meanwhile(ctx, load, "helm upgrades, to another image and another value", inOrder(
		helm("upgrade", "weir", "charts/weir", "--namespace", system, "--reset-then-reuse-values",
			"--set", "image.repository="+nextRepository+",image.tag="+nextTag+",resources.limits.memory=384Mi", "--wait", "--timeout=2m"),
		until(s.rolled(system, operatorPods)), until(s.runs(s.plan.next)), until(s.rolled(system, limiterPods)),
		s.edits(load, takeOver),
	))
	if err != nil {
		return err
	}
	s.expect(seen.Denied() > 0, "nobody was denied")
	if err := s.stopLoad(ctx, load); err != nil {
		return err
	}
	return s.uninstallChart(ctx, helm)
}

// uninstallChart does what docs/how-to/upgrade-and-uninstall.md says, for a chart.
func (s *story) uninstallChart(ctx context.Context, helm func(...string) step) error {
	err := inOrder(
		s.types("kubectl", "delete", "limiters", "--all", "--all-namespaces", "--timeout=60s"),
		helm("uninstall", "weir", "--namespace", system, "--wait", "--timeout=2m"),
		s.types("kubectl", "delete", "-k", "config/crd", "--timeout=60s"),
		s.types("kubectl", "-n", system, "delete", "secret/weir-webhook-certificates", "lease/weir-operator"),
		s.types("kubectl", "delete", "validatingwebhookconfiguration", "weir-throttle", "--ignore-not-found"),
		s.types("kubectl", "delete", "namespace", system, "--timeout=120s"),
		s.deleteOwn,
	)(ctx)
	if err != nil {
		return err
	}
	s.nothingIsLeft(ctx)
	return nil
}

// helm is HELM, or the one that hack/manifests pins.
func (s *story) helm(ctx context.Context) (func(...string) step, error) {
	path := os.Getenv("HELM")
	if path == "" {
		built, err := s.quietly(ctx, "", "go", "tool", "-modfile=hack/manifests/go.mod", "-n", "helm")
		if err != nil {
			return nil, err
		}
		path = strings.TrimSpace(built)
	}
	return func(args ...string) step {
		return func(ctx context.Context) error {
			s.say("$ helm %s", strings.Join(args, " "))
			_, err := s.quietly(ctx, "", append([]string{path}, args...)...)
			return err
		}
	}, nil
}
