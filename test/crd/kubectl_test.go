package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

func (n namespace) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.kube.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKubectlGet_PrintsTheColumns(t *testing.T) {
	n := newNamespace(t)
	for _, change := range []string{
		`{metadata: {name: enforced}}`,
		`{metadata: {name: several}, spec: {limit: null, window: null, rates: [{limit: 10, window: 1s}, {limit: 1000, window: 1d}]}}`,
		`{metadata: {name: unseen}, spec: {axis: IP, limit: 120, window: 1d, enforcement: Shadow}}`,
	} {
		if err := n.Create(t.Context(), n.policy(t, change)); err != nil {
			t.Fatal(err)
		}
	}
	status := ac.RateLimitPolicyStatus().WithConditions(
		condition(v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonRequestDecided),
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed),
	).WithEffective(effective())
	if err := n.Status().Apply(t.Context(), ac.RateLimitPolicy("enforced", n.name).WithStatus(status), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want [][]string
	}{
		{"by the name of the kind", []string{"ratelimitpolicies.weir.dev"}, [][]string{
			{"NAME", "READY", "ENFORCED", "AXIS", "LIMIT", "WINDOW", "ALGORITHM", "AGE"},
			{"enforced", "True", "True", "Tenant", "10", "1m", "SlidingWindowCounter", "*"},
			{"several", "", "", "Tenant", "", "", "", "*"},
			{"unseen", "", "", "IP", "120", "1d", "", "*"},
		}},
		{"by the short name that is Weir's alone", []string{"wrlp"}, [][]string{
			{"NAME", "READY", "ENFORCED", "AXIS", "LIMIT", "WINDOW", "ALGORITHM", "AGE"},
			{"enforced", "True", "True", "Tenant", "10", "1m", "SlidingWindowCounter", "*"},
			{"several", "", "", "Tenant", "", "", "", "*"},
			{"unseen", "", "", "IP", "120", "1d", "", "*"},
		}},
		{"that are enforced, also by default", []string{"wrlp", "--field-selector=spec.enforcement!=Shadow"}, [][]string{
			{"NAME", "READY", "ENFORCED", "AXIS", "LIMIT", "WINDOW", "ALGORITHM", "AGE"},
			{"enforced", "True", "True", "Tenant", "10", "1m", "SlidingWindowCounter", "*"},
			{"several", "", "", "Tenant", "", "", "", "*"},
		}},
		{"by the category, which has other kinds too, with wide output", []string{"weir", "-o", "wide"}, [][]string{
			{"NAME", "READY", "ENFORCED", "AXIS", "LIMIT", "WINDOW", "ALGORITHM", "AGE", "RATES", "REASON"},
			{"ratelimitpolicy.weir.dev/enforced", "True", "True", "Tenant", "10", "1m", "SlidingWindowCounter", "*", "10 per 1m", "Programmed"},
			{"ratelimitpolicy.weir.dev/several", "", "", "Tenant", "", "", "", "*", "", ""},
			{"ratelimitpolicy.weir.dev/unseen", "", "", "IP", "120", "1d", "", "*", "", ""},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := n.kubectl(t, append([]string{"get", "-n", n.name}, c.args...)...)
			if diff := cmp.Diff(c.want, table(out)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, out)
			}
		})
	}
}

// effective is a compiled policy, as the operator reports it.
func effective() *ac.EffectivePolicyApplyConfiguration {
	rate := ac.EffectiveRate().WithPolicy("shop/small").WithLimit(10).WithWindow("1m").WithAlgorithm(v1alpha1.SlidingWindowCounter).WithKeyPattern("weir:*")
	return ac.EffectivePolicy().WithRates(rate).WithSummary("10 per 1m")
}

// table splits the output of kubectl get into cells at the positions of the column names in the first line. It replaces each age with "*".
func table(printed string) [][]string {
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	var begins []int
	for i := range lines[0] {
		if lines[0][i] != ' ' && (i == 0 || lines[0][i-1] == ' ') {
			begins = append(begins, i)
		}
	}
	rows := make([][]string, len(lines))
	for i, line := range lines {
		for j, begin := range begins {
			end := len(line)
			if j+1 < len(begins) {
				end = begins[j+1]
			}
			cell := strings.TrimSpace(line[min(begin, len(line)):min(end, len(line))])
			if i > 0 && rows[0][j] == "AGE" && cell != "" {
				cell = "*"
			}
			rows[i] = append(rows[i], cell)
		}
	}
	return rows
}

func TestKubectlApply_PrintsTheFieldAndTheReason(t *testing.T) {
	n := newNamespace(t)
	value := `"1w"`
	if !n.quotesValues(t) {
		value = `"string"`
	}
	for _, c := range []struct{ name, spec, want string }{
		{"an invalid value", "{axis: IP, limit: 120, window: 90}", "spec.window: "},
		{"a value that fails a CEL rule", "{axis: IP, limit: 120, window: 1w}", "spec.window: Invalid value: " + value + ": " + windowMessage},
		{"an unknown field", "{axis: IP, limit: 120, window: 1m, algo: SlidingWindowLog}", `unknown field "spec.algo"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.yaml")
			text := "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: wrong}\nspec: " + c.spec + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := n.kube.Kubectl(t.Context(), "apply", "-n", n.name, "-f", file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("kubectl apply: got %v, want %q", err, c.want)
			}
		})
	}
}

func TestKustomization_ListsEveryCRD(t *testing.T) {
	n := newNamespace(t)
	built := n.kubectl(t, "kustomize", repositoryPath(t, "config", "crd"))
	entries, err := os.ReadDir(repositoryPath(t, "config", "crd", "bases"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(built, "kind: CustomResourceDefinition"); got != len(entries) {
		t.Errorf("the kustomization builds %d CRDs, but config/crd/bases has %d files", got, len(entries))
	}
}
