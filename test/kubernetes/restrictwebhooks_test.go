package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/test/fixture"
)

// readConfiguration reads a file of the repository.
func readConfiguration(t *testing.T, path string) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	root := mustGet[string](t)(fixture.ModuleRoot())
	var configuration admissionv1.ValidatingWebhookConfiguration
	must(t, yaml.UnmarshalStrict(mustGet[[]byte](t)(os.ReadFile(filepath.Join(root, path))), &configuration))
	return &configuration
}

// createAll creates the objects in a YAML file and deletes them when the test ends.
func createAll(t *testing.T, w *World, path string) {
	t.Helper()
	root := mustGet[string](t)(fixture.ModuleRoot())
	for text := range strings.SplitSeq(string(mustGet[[]byte](t)(os.ReadFile(filepath.Join(root, path)))), "\n---\n") {
		var object client.Object = &admissionv1.ValidatingAdmissionPolicy{}
		if strings.Contains(text, "kind: ValidatingAdmissionPolicyBinding") {
			object = &admissionv1.ValidatingAdmissionPolicyBinding{}
		}
		must(t, yaml.UnmarshalStrict([]byte(text), object))
		must(t, w.Admin.Create(t.Context(), object))
		t.Cleanup(func() { must(t, w.Admin.Delete(context.Background(), object)) })
	}
}

// An attacker has the ServiceAccount of the operator, and here even every permission. The policy lets it write what the operator writes.
func TestRestrictWebhooks_AStolenOperatorCannotInterceptOtherWrites(t *testing.T) {
	w := newWorld(t)
	createAll(t, w, "config/restrict-webhooks/policy.yaml")
	operator := mustGet[client.Client](t)(w.As(0, ServiceAccount(operatorNamespace, "weir-operator")))
	create := func(ctx context.Context, as client.Client, c *admissionv1.ValidatingWebhookConfiguration) error {
		c = c.DeepCopy()
		if c.Name == "weir-throttle" {
			_ = w.Admin.Delete(ctx, c.DeepCopy()) // the operator may have registered it; a dry run must not fail because it exists
		}
		return as.Create(ctx, c, client.DryRunAll)
	}
	const golden = "controllers/registration/testdata/"
	throttle := readConfiguration(t, golden+"cluster.out.yaml")
	policies := readConfiguration(t, "config/webhook/configuration.yaml")
	evil := throttle.DeepCopy()
	evil.Name = "evil"
	must(t, waitFor(t.Context(), "the policy to be active", func(ctx context.Context) error {
		if create(ctx, operator, evil) == nil {
			return errors.New("another configuration is accepted")
		}
		return nil
	}))
	for _, valid := range []*admissionv1.ValidatingWebhookConfiguration{throttle, policies, readConfiguration(t, golden+"two-limiters.out.yaml")} {
		if err := create(t.Context(), operator, valid); err != nil {
			t.Errorf("what the operator writes is rejected: %v", err)
		}
	}
	if err := create(t.Context(), w.Admin, evil); err != nil {
		t.Errorf("an administrator cannot write a configuration: %v", err)
	}

	type webhook = admissionv1.ValidatingWebhook
	condition := func(w *webhook, name string) *admissionv1.MatchCondition {
		for i := range w.MatchConditions {
			if w.MatchConditions[i].Name == name {
				return &w.MatchConditions[i]
			}
		}
		t.Fatalf("no condition %s", name)
		return nil
	}
	service := "must call a Service of Weir in namespace weir-system"
	floor := "must exempt administrators and the control plane"
	for i, bad := range []struct {
		from   *admissionv1.ValidatingWebhookConfiguration
		change func(w *webhook)
		want   string
	}{
		{throttle, func(w *webhook) { w.ClientConfig.Service.Namespace = "evil" }, service},
		{throttle, func(w *webhook) { w.ClientConfig.Service.Name = "evil" }, service},
		{throttle, func(w *webhook) { w.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://evil.example/")} }, service},
		{throttle, func(w *webhook) { w.Name = "evil.example.org" }, service},
		{throttle, func(w *webhook) { w.TimeoutSeconds = new(int32(30)) }, "must not wait longer than two seconds"},
		{throttle, func(w *webhook) { w.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Delete} }, "must not have rules for deletions"},
		{throttle, func(w *webhook) { w.Rules[0].Operations = []admissionv1.OperationType{"*"} }, "must not have rules for deletions"},
		{throttle, func(w *webhook) { w.Rules[0].APIGroups = []string{"rbac.authorization.k8s.io"} }, "must not have rules for deletions"},
		{throttle, func(w *webhook) { w.Rules[0].APIGroups, w.Rules[0].Resources = []string{""}, []string{"nodes"} }, "must not have rules for deletions"},
		{throttle, func(w *webhook) { w.MatchConditions = nil }, floor},
		{throttle, func(w *webhook) { condition(w, "exempt-groups").Expression = "true" }, floor},
		{throttle, func(w *webhook) { condition(w, "exempt-groups").Expression += ` || "system:masters" != ""` }, floor},
		{throttle, func(w *webhook) {
			c := condition(w, "exempt-groups")
			c.Expression = strings.Replace(c.Expression, `"system:masters", `, "", 1)
		}, floor},
		{throttle, func(w *webhook) { condition(w, "exempt-users").Expression = "true" }, floor},
		{throttle, func(w *webhook) { w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*/*"} }, "with a wildcard must exclude"},
		{throttle, func(w *webhook) { w.Rules[0].APIGroups, w.Rules[0].Resources = []string{""}, []string{"*"} }, "with a wildcard must exclude"},
		{policies, func(w *webhook) { w.ClientConfig.Service.Namespace = "evil" }, service},
		{policies, func(w *webhook) { w.Rules[0].APIGroups = []string{"*"} }, "only rules for the API group weir.dev"},
		{policies, func(w *webhook) { w.FailurePolicy = new(admissionv1.Fail) }, "only rules for the API group weir.dev"},
	} {
		t.Run(fmt.Sprintf("%d %s", i, bad.want), func(t *testing.T) {
			changed := bad.from.DeepCopy()
			bad.change(&changed.Webhooks[0])
			if err := create(t.Context(), operator, changed); err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("error %v, want %q", err, bad.want)
			}
		})
	}
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	mutating.Name = "weir-throttle"
	if err := operator.Create(t.Context(), mutating, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "manages only") {
		t.Errorf("a mutating webhook: %v", err)
	}
}
