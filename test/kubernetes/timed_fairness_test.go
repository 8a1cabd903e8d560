package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture/kubetest"
	"github.com/weir-dev/weir/test/latency"
)

const (
	// rounds is the number of rollouts without a flood, and of those during one, in turn.
	rounds = 7
	// pods is the number of pods of a rollout.
	pods = 200
	// maxSlowdown bounds how much longer the rollout of tenant B may take. slack is for other load on the machine.
	maxSlowdown = 1.2
	slack       = 150 * time.Millisecond
)

func deploymentOf(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(namespace).Spec}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
}

func job(namespace string, parallelism int32) *batchv1.Job {
	spec := pod(namespace).Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "j-", Namespace: namespace},
		Spec:       batchv1.JobSpec{Parallelism: &parallelism, Completions: &parallelism, Template: corev1.PodTemplateSpec{Spec: spec}},
	}
}

// startControllers runs a kube-controller-manager for the test, and marks the pods of limiters as ready. Without ready pods the operator
// would remove the webhook. Its controllers share one client, which by default sends 20 requests a second: the writes within the limit of
// one tenant would delay those of another, whatever a limiter does. So the client has no such limit.
func startControllers(t *testing.T, w *World, args ...string) {
	t.Helper()
	args = append(args, "--kube-api-qps=-1",
		"--controllers=deployment-controller,replicaset-controller,job-controller,namespace-controller,serviceaccount-controller")
	m := mustGet[*kubetest.ControllerManager](t)(kubetest.StartControllerManager(t.Context(), w.Kube, args...))
	ctx, cancel := context.WithCancel(context.Background())
	var nodes sync.WaitGroup
	nodes.Go(func() {
		if err := w.RunNodes(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		nodes.Wait()
		must(t, m.Stop())
	})
	must(t, waitFor(t.Context(), "the controllers to find the limiters ready", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := w.Admin.List(ctx, &pods, client.InNamespace(operatorNamespace)); err != nil {
			return err
		}
		d, err := w.deployment(ctx)
		if err == nil && (len(pods.Items) < replicas || d.Status.ReadyReplicas < replicas) {
			err = fmt.Errorf("%d pods, %d ready", len(pods.Items), d.Status.ReadyReplicas)
		}
		return err
	}))
}

// rollout returns how long it takes to create all pods of a new Deployment. No node runs them.
func rollout(t *testing.T, c client.Client, namespace, name string) time.Duration {
	t.Helper()
	began := time.Now()
	must(t, c.Create(t.Context(), deploymentOf(namespace, name, pods)))
	must(t, waitFor(t.Context(), "the rollout of "+name, func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return err
		}
		if d.Status.UpdatedReplicas < pods {
			return fmt.Errorf("%d of %d pods exist", d.Status.UpdatedReplicas, pods)
		}
		return nil
	}))
	return time.Since(began)
}

// compareRollouts measures rollouts of B without and during a flood of A, in turn, and compares their medians.
func compareRollouts(t *testing.T, slow *latency.Failures, w *World, namespace string, flood func(ctx context.Context)) {
	t.Helper()
	c := bothClients(t, w, Person("bob"))[1]
	rollout(t, c, namespace, "warm") // starts informers and opens connections
	var quiet, during []time.Duration
	for round := range rounds {
		quiet = append(quiet, rollout(t, c, namespace, fmt.Sprintf("quiet-%d", round)))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { flood(ctx) })
		sleep(t.Context(), time.Second) // until the controllers are busy with the flood
		during = append(during, rollout(t, c, namespace, fmt.Sprintf("flood-%d", round)))
		cancel()
		wg.Wait()
	}
	q, b := median(quiet), median(during)
	t.Logf("rollout of %d pods, median of %d: %v without a flood %v, %v during the flood %v: %.2f times",
		pods, rounds, q, quiet, b, during, b.Seconds()/q.Seconds())
	if b > time.Duration(maxSlowdown*float64(q))+slack {
		slow.Errorf("the rollout of tenant B takes %v, want at most %.1f times %v", b, maxSlowdown, q)
	}
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2].Round(time.Millisecond)
}

func TestFairness_AFloodDoesNotDelayAnotherTenantsRollout(t *testing.T) {
	slow := latency.Of(t)
	latency.Alone(t)
	w := newWorld(t)
	t.Run("of a user", func(t *testing.T) {
		startControllers(t, w)
		floodByUser(t, slow, w)
	})
	t.Run("of controllers", func(t *testing.T) {
		user := mustGet[*rest.Config](t)(w.Kube.UserConfig("system:serviceaccount:operators:workloads"))
		kubeconfig := mustGet[string](t)(w.Kube.WriteKubeconfig("workloads", user))
		startControllers(t, w, "--kubeconfig", kubeconfig, "--use-service-account-credentials=false")
		floodByControllers(t, slow, w)
	})
}

// floodByUser lets tenant A create Deployments and Jobs without end. The writes of A are throttled, those of the controllers of the cluster
// are exempt.
func floodByUser(t *testing.T, slow *latency.Failures, w *World) {
	t.Helper()
	a, b := mustGet[string](t)(w.Namespace(t.Context(), "initech")), mustGet[string](t)(w.Namespace(t.Context(), "umbrella"))
	p := sample(t, "kubernetes-workloads-per-tenant")
	p.Spec.Limit, p.Spec.Tiers = new(int64(20)), nil
	must(t, w.Enforce(t.Context(), Person("alice"), pod(a), p))
	var tried, denied atomic.Int64
	alice := bothClients(t, w, pipeline("alice"))
	compareRollouts(t, slow, w, b, func(ctx context.Context) {
		var wg sync.WaitGroup
		for i, c := range alice {
			wg.Go(func() {
				repeatEvery(ctx, 5*time.Millisecond, func() {
					var object client.Object = job(a, 2)
					if i == 0 {
						object = deploymentOf(a, fmt.Sprintf("d-%d", tried.Load()), 2)
					}
					tried.Add(1)
					if IsDenied(c.Create(ctx, object)) {
						denied.Add(1)
					}
				})
			})
		}
		wg.Wait()
	})
	t.Logf("%d of %d creations of tenant A were denied", denied.Load(), tried.Load())
	if denied.Load() < tried.Load()/2 {
		t.Error("too few writes were denied for a flood")
	}
}

// floodByControllers needs controllers that are not exempt, as an operator that works for all tenants: the writes that they make for A are
// limited, too. They get no Retry-After: otherwise their workers would wait, five for all ReplicaSets of the cluster.
func floodByControllers(t *testing.T, slow *latency.Failures, w *World) {
	t.Helper()
	a, b := mustGet[string](t)(w.Namespace(t.Context(), "hooli")), mustGet[string](t)(w.Namespace(t.Context(), "umbrella"))
	p := sample(t, "kubernetes-workloads-per-tenant")
	p.Spec.Limit, p.Spec.Window = new(int64(100)), "5s" // a wait of 5 s is short enough for a Retry-After
	p.Spec.Tiers = []v1alpha1.Tier{{Name: "large", When: v1alpha1.When{Identifiers: []v1alpha1.TierIdentifier{"umbrella"}}, Limit: new(int64(100000))}}
	must(t, w.Enforce(t.Context(), Person("alice"), pod(a), p))
	alice, made := bothClients(t, w, pipeline("alice"))[0], 0
	compareRollouts(t, slow, w, b, func(ctx context.Context) {
		repeatEvery(ctx, 5*time.Millisecond, func() { // each Deployment has more pods than A may create
			made++
			if err := alice.Create(t.Context(), deploymentOf(a, fmt.Sprintf("d-%d", made), 100)); err != nil && !IsDenied(err) {
				t.Error(err)
			}
		})
	})
	denied := mustGet[int](t)(w.Decisions(t.Context(), p.Name, "denied"))
	var list appsv1.ReplicaSetList
	must(t, w.Admin.List(t.Context(), &list, client.InNamespace(a)))
	failed := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				failed++
			}
		}
	}
	t.Logf("%d writes by and for tenant A were denied; %d of its %d ReplicaSets lack pods", denied, failed, len(list.Items))
	if denied < 100 || failed == 0 {
		t.Error("too few writes were denied for a flood")
	}
}
