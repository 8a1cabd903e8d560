package install

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/cluster/scenario"
)

// InstallByChart is a shorter scenario with Helm: install, load, upgrade, uninstall.
func (s Steps) InstallByChart(ctx context.Context) error {
	helm, err := s.helm(ctx)
	if err != nil {
		return err
	}
	nextRepository, nextTag, _ := strings.Cut(s.Options.Next, ":")
	if err := s.installRelease(ctx, helm); err != nil {
		return err
	}
	s.Within(ctx, 30*time.Second, "the webhook rejects an invalid policy and names each field", s.RejectsInvalidPolicy)
	if err := s.StartLimiter(ctx); err != nil {
		return err
	}
	load, err := s.StartLoad(ctx)
	if err != nil {
		return err
	}
	seen, err := s.UnderLoad(ctx, load, "helm upgrade to another image and another value", scenario.Sequence(
		helm("upgrade", "weir", "charts/weir", "--namespace", scenario.System, "--reset-then-reuse-values",
			"--set", "image.repository="+nextRepository+",image.tag="+nextTag+",resources.limits.memory=384Mi", "--wait", "--timeout=2m"),
		scenario.WaitUntil(s.RolledOut(scenario.System, scenario.OperatorPods)),
		scenario.WaitUntil(s.RunsImage(s.Options.Next)),
		scenario.WaitUntil(s.RolledOut(scenario.System, scenario.LimiterPods)),
		s.EditWithin(load, scenario.TakeOver),
	))
	if err != nil {
		return err
	}
	s.Expect(seen.Denied() > 0, "no request was denied")
	if err := s.StopLoad(ctx, load); err != nil {
		return err
	}
	return s.uninstallChart(ctx, helm)
}

// installRelease installs the chart.
func (s Steps) installRelease(ctx context.Context, helm func(...string) scenario.Action) error {
	repository, tag, _ := strings.Cut(s.Options.Image, ":")
	return scenario.Sequence(
		helm("install", "weir", "charts/weir", "--namespace", scenario.System, "--create-namespace",
			"--set", "image.repository="+repository+",image.tag="+tag, "--wait", "--timeout=2m"),
		s.Command("kubectl", "label", "namespace", scenario.System, "pod-security.kubernetes.io/enforce=restricted"),
		s.WaitForOperator,
	)(ctx)
}

// uninstallChart runs the commands of docs/how-to/upgrade-and-uninstall.md for the chart.
func (s Steps) uninstallChart(ctx context.Context, helm func(...string) scenario.Action) error {
	err := scenario.Sequence(
		s.Command("kubectl", "delete", "limiters", "--all", "--all-namespaces", "--timeout=60s"),
		helm("uninstall", "weir", "--namespace", scenario.System, "--wait", "--timeout=2m"),
		s.Command("kubectl", "delete", "-k", "config/crd", "--timeout=60s"),
		s.Command("kubectl", "-n", scenario.System, "delete", "secret/weir-webhook-certificates", "lease/weir-operator"),
		s.Command("kubectl", "delete", "validatingwebhookconfiguration", "weir-throttle", "--ignore-not-found"),
		s.Command("kubectl", "delete", "namespace", scenario.System, "--timeout=120s"),
		s.deleteOwn,
	)(ctx)
	if err != nil {
		return err
	}
	s.checkNothingIsLeft(ctx)
	return nil
}

// helm returns a function that runs helm: the program in HELM, or the version that hack/manifests pins.
func (s Steps) helm(ctx context.Context) (func(...string) scenario.Action, error) {
	path := os.Getenv("HELM")
	if path == "" {
		built, err := s.Quietly(ctx, "", "go", "tool", "-modfile=hack/manifests/go.mod", "-n", "helm")
		if err != nil {
			return nil, err
		}
		path = strings.TrimSpace(built)
	}
	return func(args ...string) scenario.Action {
		return func(ctx context.Context) error {
			s.Logf("$ helm %s", strings.Join(args, " "))
			_, err := s.Quietly(ctx, "", append([]string{path}, args...)...)
			return err
		}
	}, nil
}
