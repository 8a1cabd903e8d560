package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// coldStart is the maximum time until a limiter with a snapshot is ready, for each failure of Redis.
const coldStart = 3 * time.Second

// coldLimiter is a limiter process that starts with a snapshot. Redis can be unavailable.
type coldLimiter struct {
	*testing.T
	*fixture.WeirProcess
	started  time.Time
	ops      string
	snapshot string
}

// startCold starts the weir binary as a limiter.
func startCold(t *testing.T, weir, redis, snapshot string) *coldLimiter {
	t.Helper()
	var addrs [2]string
	var err error
	for i := range addrs {
		if addrs[i], err = fixture.FreeAddr(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l := &coldLimiter{T: t, started: time.Now(), ops: "http://" + addrs[1], snapshot: snapshot}
	l.WeirProcess = fixture.Weir(t, weir, "limiter", "--grpc-listen=", "--listen", addrs[0], "--ops-listen", addrs[1], "--redis", redis, "--snapshot", snapshot, "--drain", "0s")
	return l
}

// readyz returns the response of /readyz. The status is 0 if there is no response.
func (l *coldLimiter) readyz() (status int, body string) {
	l.Helper()
	response, err := http.Get(l.ops + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		l.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// awaitReady waits until the limiter is ready and /readyz returns want.
func (l *coldLimiter) awaitReady(want string) {
	l.Helper()
	var got int
	var body string
	for deadline := time.Now().Add(patience); got != http.StatusOK || body != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.Fatalf("/readyz still returns %d %q, want 200 %q", got, body, want)
		}
		got, body = l.readyz()
	}
}

// readyOn waits until the limiter uses the rules of the snapshot, and fails the test if this takes longer than coldStart.
func (l *coldLimiter) readyOn(revision string) {
	l.Helper()
	l.awaitReady(fmt.Sprintf("ok %s from snapshot %s\n", revision, l.snapshot))
	if took := time.Since(l.started); took > coldStart {
		l.Errorf("ready after %v, want within %v", took, coldStart)
	}
}

func buildWeir(t *testing.T) string {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return weir
}

// buildOperator returns the path of weir-operator.
func buildOperator(t *testing.T) string {
	t.Helper()
	operator, err := fixture.BuildOperator(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return operator
}

// encoded returns an encoded rule set with one rule, whose limit is units.
func encoded(units int64) (data []byte, revision string) {
	return rules.Encode(rules.Set{Rules: []rules.Rule{{
		Policy: "shop/tenant", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm: limiter.SlidingWindowCounter, Units: units, WindowSeconds: 3600,
	}}})
}

func save(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, url string, data []byte, revision string) {
	t.Helper()
	client, err := redisclient.Open(url, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := controlplane.NewExchange(client, "weir:", "weir-system/default").Publish(t.Context(), rules.Encoded{Revision: revision, Data: data, Whole: true}, false); err != nil {
		t.Fatal(err)
	}
}

func TestColdStart_WithoutRedis(t *testing.T) {
	weir := buildWeir(t)
	failures := map[string]func(*fixture.RedisProcess) error{
		"Redis is not running": func(r *fixture.RedisProcess) error { r.Kill(); return nil },
		"Redis does not reply": (*fixture.RedisProcess).Pause,
		"Redis has no rules":   func(*fixture.RedisProcess) error { return nil },
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			redis := fixture.Redis(t)
			if err := fail(redis); err != nil {
				t.Fatal(err)
			}
			snapshot := filepath.Join(t.TempDir(), "rules.json.gz")
			snapshotRules, snapshotRevision := encoded(1)
			save(t, snapshot, snapshotRules)
			l := startCold(t, weir, redis.URL(), snapshot)
			l.readyOn(snapshotRevision)

			if err := redis.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			data, revision := encoded(2)
			publish(t, redis.URL(), data, revision)
			l.awaitReady("ok " + revision + " from redis\n")

			redis.Kill()
			for deadline := time.Now().Add(patience); !strings.Contains(l.Log(), `active=`+revision); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the limiter does not log the outage")
				}
				if status, body := l.readyz(); status != http.StatusOK || body != "ok "+revision+" from redis\n" {
					t.Fatalf("during the outage, /readyz returns %d %q", status, body)
				}
			}
			if status, body := l.readyz(); status != http.StatusOK || body != "ok "+revision+" from redis\n" {
				t.Errorf("after the limiter logged the outage, /readyz returns %d %q", status, body)
			}
		})
	}
}

func TestReadyz_NamesTheDirectoryOfAStandaloneLimiter(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "tenant.yaml"), []byte(`
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenant, namespace: shop}
spec: {axis: Tenant, limit: 5, window: 1h}
`))
	ops, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &coldLimiter{T: t, ops: "http://" + ops}
	fixture.Weir(t, buildWeir(t), "serve", "--policies", dir, "--grpc-listen=", "--listen", "127.0.0.1:0", "--ops-listen", ops)
	(&testCluster{T: t}).until("/readyz returns 200 and names the directory", func() bool {
		status, body := l.readyz()
		return status == http.StatusOK && strings.HasPrefix(body, "ok sha256:") && strings.HasSuffix(body, " from directory "+dir+"\n")
	})
}

func TestReadyz_ReportsWhatIsMissingWithoutRedisAndSnapshot(t *testing.T) {
	addr, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snapshot := filepath.Join(t.TempDir(), "rules.json.gz")
	l := startCold(t, buildWeir(t), "redis://:s3cret@"+addr, snapshot)
	namesBoth := func(snapshotProblem string) func() bool {
		return func() bool {
			status, body := l.readyz()
			if strings.Contains(body, "s3cret") {
				t.Fatalf("/readyz returns the password: %s", body)
			}
			return status == http.StatusServiceUnavailable &&
				strings.HasPrefix(body, "no rules yet: Redis unreachable: ") && strings.Contains(body, "; snapshot "+snapshot+" "+snapshotProblem)
		}
	}
	w := &testCluster{T: t}
	w.until("/readyz names Redis and the snapshot", namesBoth("is missing"))
	save(t, snapshot, []byte("rules"))
	w.until("/readyz reports why the snapshot is rejected", namesBoth("rejected: decode rules: "))
	data, revision := encoded(1)
	save(t, snapshot, data)
	l.awaitReady("ok " + revision + " from snapshot " + snapshot + "\n")
}

// TestColdStart_FromTheSnapshotOfTheOperator starts without Redis, and starts Redis after the limiter is ready. Then it edits a policy in another
// outage.
func TestColdStart_FromTheSnapshotOfTheOperator(t *testing.T) {
	w := &testCluster{T: t, kube: kubetest.Kube(t), redis: fixture.Redis(t)}
	w.redis.Kill()
	w.ns = kubetest.Namespace(t, w.kube)
	cluster, err := client.New(w.kube.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "weir-system"}}
	if err := client.IgnoreAlreadyExists(cluster.Create(t.Context(), namespace)); err != nil {
		t.Fatal(err)
	}
	w.mustApply("reports", "axis: Tenant, limit: 5, window: 1h")
	weir := buildWeir(t)
	if err := w.kube.ApplyLimiter(t.Context(), "weir-system", "default", w.redis.Addr()); err != nil {
		t.Fatal(err)
	}
	fixture.Weir(t, buildOperator(t), "--kubeconfig", w.kube.Kubeconfig(),
		"--health-probe-bind-address", "0", "--metrics-bind-address", "0", "--resync", "1s")

	mounted := filepath.Join(t.TempDir(), "rules.json.gz")
	var stored corev1.ConfigMap
	hasLimit := func(limit int64) func() bool {
		return func() bool {
			err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "weir-system", Name: "weir-rules-default"}, &stored)
			if err != nil {
				return false
			}
			set, _, err := rules.Decode(stored.BinaryData["rules.json.gz"])
			return err == nil && slices.ContainsFunc(set.Rules, func(r rules.Rule) bool {
				return r.Policy == w.ns+"/reports" && r.Units == limit
			})
		}
	}
	w.until("the operator has stored the policy in the ConfigMap", hasLimit(5))
	w.until("Ready reports that the operator cannot reach Redis", func() bool {
		return strings.HasPrefix(w.condition("reports", "Ready"), "False StoreUnreachable Redis cannot be used: ")
	})
	save(t, mounted, stored.BinaryData["rules.json.gz"])
	revision := stored.Annotations["weir.dev/revision"]
	l := startCold(t, weir, w.redis.URL(), mounted)
	l.readyOn(revision)

	if err := w.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.awaitReady("ok " + revision + " from redis\n")
	w.waitFor("Ready", "reports")
	if got := w.condition("reports", "Degraded"); got != "" {
		t.Errorf("Degraded after the outage: %s", got)
	}
	w.mustApply("reports", "axis: Tenant, limit: 6, window: 1h")
	w.until("the operator has stored the new limit in the ConfigMap", hasLimit(6))
	if err := cluster.Delete(t.Context(), &stored); err != nil {
		t.Fatal(err)
	}
	w.until("the operator has created the ConfigMap again", hasLimit(6))

	w.redis.Kill()
	w.mustApply("reports", "axis: Tenant, limit: 7, window: 1h")
	w.until("the operator has stored the edit of the outage in the ConfigMap", hasLimit(7))
	save(t, mounted, stored.BinaryData["rules.json.gz"])
	revision = stored.Annotations["weir.dev/revision"]
	l.awaitReady("ok " + revision + " from snapshot " + mounted + "\n")
	if err := w.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.awaitReady("ok " + revision + " from redis\n")
	w.waitFor("Ready", "reports")
	w.kubectl("delete", "ratelimitpolicy", "reports")
}
