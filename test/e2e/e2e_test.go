// Package e2e runs Weir as its users do: processes of the weir binary, a real API server, a real Redis.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// patience is the timeout of each wait. The events take milliseconds, unless a comment states another duration.
const patience = 60 * time.Second

// testCluster is an API server and a Redis with processes of Weir.
type testCluster struct {
	*testing.T
	kube  *kubetest.KubeProcess
	redis *fixture.RedisProcess
	stack *kubetest.Stack
	ns    string
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	w := &testCluster{T: t, kube: kubetest.Kube(t), redis: fixture.Redis(t)}
	w.ns = kubetest.Namespace(t, w.kube)
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.stack, err = kubetest.StartStack(t.Context(), kubetest.StackOptions{
		Weir: weir, Operator: buildOperator(t), Kube: w.kube, RedisURL: w.redis.URL(), Limiters: 2, GRPC: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	return w
}

func (w *testCluster) stop() {
	if err := w.stack.Stop(); err != nil {
		w.Error(err)
	}
	if w.Failed() {
		w.Logf("operator:\n%s", w.stack.Operator.Log())
		for _, r := range w.stack.Replicas {
			w.Logf("limiter %s:\n%s", r.URL, r.Log())
		}
	}
}

// apply applies a RateLimitPolicy with the spec given, in YAML.
func (w *testCluster) apply(name, spec string) (out string, err error) {
	w.Helper()
	text := fmt.Sprintf("apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: %s, namespace: %s}\nspec: {%s}\n", name, w.ns, spec)
	file := filepath.Join(w.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return w.kube.Kubectl(w.Context(), "apply", "-f", file)
}

func (w *testCluster) mustApply(name, spec string) {
	w.Helper()
	if out, err := w.apply(name, spec); err != nil {
		w.Fatalf("apply %s: %v %s", name, err, out)
	}
}

func (w *testCluster) kubectl(args ...string) string {
	w.Helper()
	out, err := w.kube.Kubectl(w.Context(), append(args, "-n", w.ns)...)
	if err != nil {
		w.Fatalf("kubectl %s: %v %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (w *testCluster) waitFor(condition, name string) {
	w.Helper()
	w.kubectl("wait", "--for=condition="+condition, "ratelimitpolicy/"+name, "--timeout="+patience.String())
}

// condition returns "status reason message" of one condition.
func (w *testCluster) condition(name, kind string) string {
	w.Helper()
	path := fmt.Sprintf(`jsonpath={range .status.conditions[?(@.type=="%s")]}{.status} {.reason} {.message}{end}`, kind)
	return w.kubectl("get", "ratelimitpolicy", name, "-o", path)
}

// check sends a check of the tenant acme to a limiter.
func (w *testCluster) check(replica int, peek bool) fixture.CheckAnswer {
	w.Helper()
	answer, err := fixture.Check(w.Context(), w.stack.Replicas[replica].URL, fixture.CheckRequest{
		Domain: w.ns, Method: "GET", Path: "/v1/reports", Headers: map[string]string{"x-tenant-id": "acme"}, Peek: peek,
	})
	if err != nil {
		w.Fatalf("check at replica %d: %v", replica, err)
	}
	return answer
}

// until waits until ok is true, and fails the test with the description after the timeout.
func (w *testCluster) until(description string, ok func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if fixture.Poll(ctx, 20*time.Millisecond, func(context.Context) error {
		if !ok() {
			return errors.New(description)
		}
		return nil
	}) != nil {
		w.Fatalf("timeout waiting until %s", description)
	}
}

// untilLimitIs waits until both replicas enforce the policy with limit. A limit of 0 means that they do not enforce it.
func (w *testCluster) untilLimitIs(policy string, limit int64) {
	w.Helper()
	for i := range w.stack.Replicas {
		w.until(fmt.Sprintf("replica %d enforces %s with limit %d", i, policy, limit), func() bool {
			return w.check(i, true).LimitOf(w.ns+"/"+policy) == limit
		})
	}
}

// spend spends n requests over both replicas in turn and returns how many passed.
func (w *testCluster) spend(n int) (passed int) {
	w.Helper()
	for i := range n {
		if w.check(i%2, false).Allowed {
			passed++
		}
	}
	return passed
}

func TestPolicy_FromApplyTo429(t *testing.T) {
	w := newTestCluster(t)

	w.mustApply("reports", "axis: Tenant, limit: 5, window: 1h, algorithm: SlidingWindowLog")
	w.waitFor("Ready", "reports")
	if got := w.condition("reports", "Programmed"); !strings.HasPrefix(got, "True Programmed all replicas") {
		t.Errorf("Programmed: %s", got)
	}
	if passed := w.spend(9); passed != 5 {
		t.Errorf("%d of 9 requests passed, want 5: the replicas share one counter", passed)
	}
	denied := w.check(0, false) // the denial cache of this replica has the denial
	if denied.Status != http.StatusTooManyRequests || denied.Policy != w.ns+"/reports" || denied.Source != "cache" || denied.Header.Get("Retry-After") == "" {
		t.Errorf("denied with status %d, body %s, headers %v", denied.Status, denied.Body, denied.Header)
	}

	w.mustApply("reports", "axis: Tenant, limit: 8, window: 1h, algorithm: SlidingWindowLog")
	w.untilLimitIs("reports", 8)
	if passed := w.spend(9); passed != 3 {
		t.Errorf("%d more requests passed after the limit rose from 5 to 8, want 3", passed)
	}
	w.waitFor("Ready", "reports")
	if got := w.kubectl("get", "ratelimitpolicy", "reports", "-o", "jsonpath={.metadata.generation} {.status.observedGeneration} {.status.limiters[0].conditions[0].status} {.status.effective.rates[0].window}"); got != "2 2 True 1h" {
		t.Errorf("generation, observed, programmed, window: %s", got)
	}

	w.kubectl("delete", "ratelimitpolicy", "reports")
	w.untilLimitIs("reports", 0)
	if passed := w.spend(9); passed != 9 {
		t.Errorf("%d of 9 requests passed without a policy", passed)
	}
}

func TestPolicy_AnInvalidPolicyIsReportedAndAffectsNoOther(t *testing.T) {
	w := newTestCluster(t)
	w.mustApply("good", "axis: Tenant, limit: 5, window: 1h")
	w.waitFor("Ready", "good")

	if out, err := w.apply("refused", "axis: Tenant, limit: -1, window: 90x"); err == nil ||
		!strings.Contains(err.Error(), "spec.limit") || !strings.Contains(err.Error(), "spec.window") {
		t.Errorf("apply of a policy with an invalid limit and window: got error %v, output %s", err, out)
	}

	w.mustApply("stalled", `axis: Tenant, limit: 1, window: 1h, match: {http: {paths: [{type: RegularExpression, value: "(?=x)"}]}}`)
	w.waitFor("Stalled", "stalled")
	for _, kind := range []string{"Accepted", "Ready"} {
		if got := w.condition("stalled", kind); !strings.HasPrefix(got, "False Invalid spec.match.http.paths[0].value: ") {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if passed := w.spend(6); passed != 5 {
		t.Errorf("%d of 6 requests passed next to an invalid policy, want 5", passed)
	}

	w.mustApply("stalled", `axis: Tenant, limit: 1, window: 1h, match: {http: {paths: [{type: RegularExpression, value: "/x"}]}}`)
	w.waitFor("Ready", "stalled")
	if got := w.condition("stalled", "Stalled"); got != "" {
		t.Errorf("still stalled after the fix: %s", got)
	}
}

func TestRedis_IsRepairedAfterItRestartsEmpty(t *testing.T) {
	w := newTestCluster(t)
	w.mustApply("reports", "axis: Tenant, limit: 5, window: 1h")
	w.waitFor("Ready", "reports")
	revision := w.check(0, true).Revision

	w.redis.Kill()
	degraded := func() string {
		out, err := w.kube.Kubectl(t.Context(), "get", "limiter", "default", "--namespace", "weir-system", "-o",
			`jsonpath={range .status.conditions[?(@.type=="Degraded")]}{.status} {.reason}{end}`)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w.until("the Limiter reports that Redis is unavailable", func() bool { return degraded() == "True StoreUnreachable" })
	for _, kind := range []string{"Accepted", "Programmed", "Ready"} { // the replicas enforce the policy
		if got := w.condition("reports", kind); !strings.HasPrefix(got, "True") {
			t.Errorf("%s while Redis is unavailable: %s", kind, got)
		}
	}
	for _, r := range w.stack.Replicas {
		if err := fixture.WaitHTTP(t.Context(), r.OpsURL+"/readyz", http.StatusOK); err != nil {
			t.Errorf("a replica with rules is not ready while Redis is unavailable: %v", err)
		}
	}

	if err := w.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := time.Now()
	w.until("the Limiter reports that Redis is available", func() bool { return !strings.HasPrefix(degraded(), "True") })
	if took := time.Since(restarted); took > 10*time.Second {
		t.Errorf("repaired in %v, want within 10 s", took)
	}
	if got := w.check(1, true); got.Revision != revision || got.Remaining != 5 {
		t.Errorf("after the repair: revision %s with %d remaining units, want %s with 5", got.Revision, got.Remaining, revision)
	}
}

// TestProgrammed_WaitsForALateReplica pauses one of two replicas during an edit. Its heartbeat stays valid for a while.
func TestProgrammed_WaitsForALateReplica(t *testing.T) {
	w := newTestCluster(t)
	w.mustApply("reports", "axis: Tenant, limit: 5, window: 1h")
	w.waitFor("Ready", "reports")
	late := w.stack.Replicas[1]
	if err := late.Pause(); err != nil {
		t.Fatal(err)
	}
	w.mustApply("reports", "axis: Tenant, limit: 6, window: 1h")
	const pending = "False Pending 1 of 2 replicas enforce generation 2"
	w.until("one of two replicas enforces the edit", func() bool { return w.condition("reports", "Programmed") == pending })
	if got := w.check(0, true).Limit; got != 6 {
		t.Errorf("the other replica enforces %d, want 6", got)
	}
	watched := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); watched++ { // a replica without heartbeats counts for five seconds
		if got := w.condition("reports", "Programmed"); got != pending {
			t.Fatalf("Programmed=%s while a replica is late", got)
		}
	}
	if watched == 0 {
		t.Error("the test did not read the condition while the replica was late")
	}
	if err := late.Resume(); err != nil {
		t.Fatal(err)
	}
	w.until("both replicas enforce the edit", func() bool {
		return w.condition("reports", "Programmed") == "True Programmed all replicas enforce generation 2"
	})
	if got := w.check(1, true).Limit; got != 6 {
		t.Errorf("the late replica enforces %d, want 6", got)
	}
}
