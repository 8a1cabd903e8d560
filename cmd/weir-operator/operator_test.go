package main

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestLimiterStore_ReturnsTheModeOfReplicas(t *testing.T) {
	client, err := redisclient.Open("redis://"+miniredis.RunT(t).Addr(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := limiterStore{client, controlplane.NewExchange(client, "weir:", "weir-system/default")}
	since := time.UnixMilli(1_790_000_000_123)
	for _, r := range []controlplane.Replica{{ID: "a", Revision: "sha256:a", Mode: "redis"}, {ID: "b", Revision: "sha256:b", Mode: "local", Since: since}} {
		if err := store.Heartbeat(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Replicas(t.Context())
	want := []publish.Replica{{ID: "a", Revision: "sha256:a", Mode: "redis"}, {ID: "b", Revision: "sha256:b", Mode: publish.ModeLocal, Since: since}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v; replicas (-want +got):\n%s", err, diff)
	}
}

func TestOperatorCommand_FlagDefaults(t *testing.T) {
	got := map[string]string{}
	rootCommand().Flags().VisitAll(func(f *pflag.Flag) { got[f.Name] = f.DefValue })
	want := map[string]string{
		"namespace": "weir-system", "limiter-image": "", "network-policies": "false", "pod-monitor-labels": "[]", "prefix": "weir:",
		"kubeconfig": "", "metrics-bind-address": ":9090", "metrics-secure": "false", "health-probe-bind-address": ":8081",
		"admin-bind-address": "0", "admin-cert": "", "admin-key": "",
		"leader-elect": "false", "resync": "5s", "log-format": "text", "log-level": "info", "watch-namespaces": "[]", "webhook-certificates": "None", "webhook-bind-address": ":9443",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags and their defaults (-want +got):\n%s", diff)
	}
}

func TestOperatorCommand_RejectsInvalidFlags(t *testing.T) {
	tests := map[string]struct {
		flags operatorFlags
		want  string
	}{
		"an unknown source of certificates": {
			operatorFlags{webhook: webhookFlags{certificates: "Vault"}}, `"Vault" is invalid: must be Managed, External or None`,
		},
		"a prefix with braces": {operatorFlags{prefix: "{weir}:"}, `--prefix "{weir}:" is invalid: must not contain { or }`},
		"a label that is invalid": {
			operatorFlags{webhook: webhookFlags{certificates: "None"}, prefix: "weir:", monitorLabels: map[string]string{"re lease": "x"}}, `--pod-monitor-labels: Invalid value: "re lease"`,
		},
		"a webhook without a port": {
			operatorFlags{webhook: webhookFlags{certificates: "Managed", address: "here"}}, "--webhook-bind-address",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := runOperator(t.Context(), test.flags)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestOperatorCommand_RejectsInvalidNamespaces(t *testing.T) {
	for _, name := range []string{"Shop", "weir/default", "a b"} {
		status, _, stderr := clitest.Run(rootCommand(), "", "--watch-namespaces=weir-system,"+name)
		if status != cli.ExitUsage || !strings.Contains(stderr, `weir-operator: --watch-namespaces: "`+name+`" is not the name of a namespace`) {
			t.Errorf("%q: status %d, %s", name, status, stderr)
		}
	}
}

func TestRunOperator_NamesTheMissingCRD(t *testing.T) {
	kube, err := kubetest.StartKube(t.Context(), kubetest.KubeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("KUBECONFIG", kube.Kubeconfig())
	for kind, namespaces := range map[string][]string{"RateLimitPolicy": nil, "Limiter": {"weir-system"}} {
		f := operatorFlags{webhook: webhookFlags{certificates: "None"}, metrics: operatorMetricsFlags{address: "0"}, health: "0", watchNamespaces: namespaces}
		want := "watch policies: the CRD for " + kind + " is not installed; install the CRDs in config/crd first"
		if err := runOperator(t.Context(), f); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
