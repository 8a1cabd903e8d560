package main

import (
	"context"
	"os"
	"strings"
	"time"
)

// installByChart is a shorter scenario with Helm: install, load, upgrade, uninstall.
func (s installSteps) installByChart(ctx context.Context) error {
	helm, err := s.helm(ctx)
	if err != nil {
		return err
	}
	nextRepository, nextTag, _ := strings.Cut(s.options.next, ":")
	if err := s.installRelease(ctx, helm); err != nil {
		return err
	}
	s.within(ctx, 30*time.Second, "the webhook rejects an invalid policy and names each field", s.rejectsInvalidPolicy)
	if err := s.startLimiter(ctx); err != nil {
		return err
	}
	load, err := s.startLoad(ctx)
	if err != nil {
		return err
	}
	seen, err := s.underLoad(ctx, load, "helm upgrade to another image and another value", sequence(
		helm("upgrade", "weir", "charts/weir", "--namespace", system, "--reset-then-reuse-values",
			"--set", "image.repository="+nextRepository+",image.tag="+nextTag+",resources.limits.memory=384Mi", "--wait", "--timeout=2m"),
		waitUntil(s.rolledOut(system, operatorPods)), waitUntil(s.runsImage(s.options.next)), waitUntil(s.rolledOut(system, limiterPods)),
		s.editWithin(load, takeOver),
	))
	if err != nil {
		return err
	}
	s.expect(seen.Denied() > 0, "no request was denied")
	if err := s.stopLoad(ctx, load); err != nil {
		return err
	}
	return s.uninstallChart(ctx, helm)
}

// installRelease installs the chart.
func (s installSteps) installRelease(ctx context.Context, helm func(...string) action) error {
	repository, tag, _ := strings.Cut(s.options.image, ":")
	return sequence(
		helm("install", "weir", "charts/weir", "--namespace", system, "--create-namespace",
			"--set", "image.repository="+repository+",image.tag="+tag, "--wait", "--timeout=2m"),
		s.command("kubectl", "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted"),
		s.waitForOperator,
	)(ctx)
}

// uninstallChart runs the commands of docs/how-to/upgrade-and-uninstall.md for the chart.
func (s installSteps) uninstallChart(ctx context.Context, helm func(...string) action) error {
	err := sequence(
		s.command("kubectl", "delete", "limiters", "--all", "--all-namespaces", "--timeout=60s"),
		helm("uninstall", "weir", "--namespace", system, "--wait", "--timeout=2m"),
		s.command("kubectl", "delete", "-k", "config/crd", "--timeout=60s"),
		s.command("kubectl", "-n", system, "delete", "secret/weir-webhook-certificates", "lease/weir-operator"),
		s.command("kubectl", "delete", "validatingwebhookconfiguration", "weir-throttle", "--ignore-not-found"),
		s.command("kubectl", "delete", "namespace", system, "--timeout=120s"),
		s.deleteOwn,
	)(ctx)
	if err != nil {
		return err
	}
	s.checkNothingIsLeft(ctx)
	return nil
}

// helm returns a function that runs helm: the program in HELM, or the version that hack/manifests pins.
func (s installSteps) helm(ctx context.Context) (func(...string) action, error) {
	path := os.Getenv("HELM")
	if path == "" {
		built, err := s.quietly(ctx, "", "go", "tool", "-modfile=hack/manifests/go.mod", "-n", "helm")
		if err != nil {
			return nil, err
		}
		path = strings.TrimSpace(built)
	}
	return func(args ...string) action {
		return func(ctx context.Context) error {
			s.logf("$ helm %s", strings.Join(args, " "))
			_, err := s.quietly(ctx, "", append([]string{path}, args...)...)
			return err
		}
	}, nil
}
