package ruleset

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// TestTheStatesThatToolsJudgeAreThoseThatAreWritten holds what test/gitops shows to Flux and Argo CD to what is written here.
func TestTheStatesThatToolsJudgeAreThoseThatAreWritten(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	rule := &enforced{revision: "sha256:5f2c"}
	local := delivery{replicas: make([]serving, 2)}
	local.local.replicas, local.local.since = 1, at
	away := delivery{unreachable: "x", away: at}
	gone := "dial tcp 10.0.0.7:6379: connect: connection refused"
	bad := []compile.Problem{{Field: "spec.match.http.paths[0].value", Message: "missing closing ): `/v1/(`"}}
	for name, c := range map[string]struct {
		g int64
		o outcome
	}{
		"policy-pending":                  {1, outcome{rule: rule, acknowledged: 1, replicas: 2}},
		"policy-no-replicas":              {1, outcome{rule: rule}},
		"policy-not-selected":             {1, outcome{}},
		"policy-ready":                    {1, outcome{rule: rule, acknowledged: 2, replicas: 2}},
		"policy-edited-ready":             {2, outcome{rule: rule, acknowledged: 2, replicas: 2}},
		"policy-invalid":                  {1, outcome{problems: bad}},
		"policy-local-mode":               {1, outcome{rule: rule, acknowledged: 2, replicas: 2, degradation: local.degradation()}},
		"policy-local-mode-pending":       {1, outcome{rule: rule, acknowledged: 1, replicas: 2, degradation: local.degradation()}},
		"policy-store-unreachable":        {1, outcome{rule: rule, acknowledged: 2, replicas: 2, unreachable: gone, degradation: away.degradation()}},
		"policy-edited-store-unreachable": {2, outcome{rule: rule, acknowledged: 0, replicas: 2, unreachable: gone, degradation: away.degradation()}},
		"policy-overridden": {1, outcome{rule: rule, acknowledged: 2, replicas: 2, overridden: func() overridden {
			r, m := compile.Condition([]compile.Override{{Policy: "a", Domain: "a", By: "cluster/strict", Reason: v1alpha1.ReasonStricterPolicy}})
			return overridden{r, m}
		}()}},
		"cluster-overridden": {1, outcome{rule: rule, acknowledged: 2, replicas: 2, overridden: func() overridden {
			r, m := compile.Condition([]compile.Override{{Policy: "a", Domain: "shop", By: "shop/tenant-free", Reason: v1alpha1.ReasonNamespacePolicy}})
			return overridden{r, m}
		}()}},
	} {
		data, err := os.ReadFile("../../test/gitops/testdata/states/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		docs := bytes.Split(data, []byte("\n---\n"))
		var p v1alpha1.RateLimitPolicy
		if err := yaml.Unmarshal(docs[len(docs)-1], &p); err != nil {
			t.Fatal(err)
		}
		if c.o.rule != nil {
			c.o.limiter = limiterName
		}
		got := statusOf(c.g, []outcome{c.o}, nil, metav1.NewTime(at))
		if diff := cmp.Diff(p.Status, got, cmpopts.IgnoreFields(v1alpha1.RateLimitPolicyStatus{}, "Effective"), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
			t.Errorf("%s (-file +statusOf)\n%s", name, diff)
		}
	}
}
