package install

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/cluster/scenario"
)

const (
	alice    = "e2e-alice" // a user whose writes the Limiter limits
	wideOpen = 1_000_000   // a limit that alice does not reach
)

// deletion is an order in which a user removes Weir. The Limiter fails closed.
type deletion struct {
	name string
	// commands delete, without "kubectl". Each of them must end.
	commands [][]string
	// dead stops the operator before.
	dead bool
}

// deletions are orders in which users remove Weir. After each of them, the namespace and the CRDs are deleted.
func deletions() []deletion {
	limiter := []string{"-n", scenario.System, "delete", "limiter", "default", "--timeout=30s"}
	release := []string{"delete", "namespace", scenario.System, "--timeout=150s"}
	return []deletion{
		{"the namespace", [][]string{release}, false},
		{"the namespace, without an operator", [][]string{release}, true},
		{"the pods by force, and the namespace", [][]string{{"-n", scenario.System, "delete", "pods", "--all", "--force", "--grace-period=0"}, release}, false},
		{"all of the manifest", [][]string{{"delete", "-f", scenario.Manifest, "--timeout=150s"}}, false},
		{"all of the manifest, without an operator", [][]string{{"delete", "-f", scenario.Manifest, "--timeout=150s"}}, true},
		{"the CRDs", [][]string{{"delete", "-k", "config/crd", "--timeout=60s"}, release}, false},
		{"the CRDs, without an operator", [][]string{{"delete", "-k", "config/crd", "--timeout=60s"}, release}, true},
		{"the operator", [][]string{{"-n", scenario.System, "delete", "deployment", "weir-operator"}, limiter}, false},
		{"all Deployments", [][]string{{"-n", scenario.System, "delete", "deployments", "--all"}, limiter}, false},
		{"the permissions", [][]string{{"delete", "-k", "config/rbac"}, limiter}, false},
		{"the ServiceAccount and the bindings", [][]string{
			{"-n", scenario.System, "delete", "serviceaccount", "weir-operator"},
			{"delete", "clusterrolebinding", "weir-operator", "weir-operator-limiters", "weir-operator-throttle"},
			limiter,
		}, false},
		{"a Limiter with the finalizer of an absent controller", [][]string{
			{"-n", scenario.System, "patch", "limiter", "default", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`},
			{"delete", "namespace", scenario.System, "--wait=false"},
		}, false},
	}
}

// DeleteInEveryOrder removes Weir in every order, while a user writes. No order may leave a webhook that rejects writes, or an object that does
// not end.
func (s Steps) DeleteInEveryOrder(ctx context.Context) error {
	if err := s.prepareWriter(ctx); err != nil {
		return err
	}
	for _, d := range deletions() {
		s.Logf("- first %s", d.name)
		if err := s.deleteInOrder(ctx, d); err != nil {
			return fmt.Errorf("first %s: %w", d.name, err)
		}
	}
	if err := s.uninstallReleaseFirst(ctx); err != nil {
		return err
	}
	return s.Run(ctx, "kubectl", "delete", "namespace", scenario.Writing, "--timeout=60s")
}

// uninstallReleaseFirst runs helm uninstall before the Limiter is deleted.
func (s Steps) uninstallReleaseFirst(ctx context.Context) error {
	s.Logf("- first the release of Helm")
	helm, err := s.helm(ctx)
	if err != nil {
		return err
	}
	if err := s.installRelease(ctx, helm); err != nil {
		return err
	}
	if err := s.failClosed(ctx); err != nil {
		return err
	}
	return s.whileAliceWrites(ctx, scenario.Sequence(
		helm("uninstall", "weir", "--namespace", scenario.System, "--wait", "--timeout=2m"),
		s.Command("kubectl", "-n", scenario.System, "delete", "limiter", "default", "--timeout=30s"),
	))
}

func (s Steps) deleteInOrder(ctx context.Context, d deletion) error {
	err := scenario.Sequence(s.Command("kubectl", "apply", "--server-side", "-f", scenario.Manifest), s.WaitForCRDs, s.failClosed, s.WaitForOperator)(ctx)
	if err != nil {
		return err
	}
	var commands []scenario.Action
	if d.dead {
		commands = append(commands, s.Command("kubectl", "-n", scenario.System, "scale", "deployment", "weir-operator", "--replicas=0"),
			s.Command("kubectl", "-n", scenario.System, "delete", "pod", "-l", "app.kubernetes.io/component=operator", "--now"),
			s.Command("kubectl", "-n", scenario.System, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "--timeout=60s"))
	}
	for _, args := range d.commands {
		commands = append(commands, s.Command(append([]string{"kubectl"}, args...)...))
	}
	return s.whileAliceWrites(ctx, scenario.Sequence(commands...))
}

// failClosed creates a Limiter that throttles the writes of alice, and waits until the API server calls it.
func (s Steps) failClosed(ctx context.Context) error {
	l := scenario.LimiterNamed(scenario.System, "default")
	l.Spec = v1alpha1.LimiterSpec{
		Redis:              v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis:6379"}},
		KubernetesThrottle: &v1alpha1.KubernetesThrottle{FailurePolicy: v1alpha1.WebhookFailureFail},
	}
	l.Spec.Endpoints.Drain = "1s" // also shortens the grace period of the pods, see scenario.ApplyManifest
	p := scenario.LimitWrites("e2e-deletions", wideOpen, scenario.ConfigMaps())
	p.Spec.Axis, p.Spec.Match.Kubernetes.Namespaces = v1alpha1.AxisUser, []v1alpha1.NamespaceName{scenario.Writing}
	registered := scenario.Condition{Kind: v1alpha1.ConditionThrottleRegistered, Reason: v1alpha1.ReasonRegistered, Status: metav1.ConditionTrue}
	return scenario.Sequence(
		s.StartRedis,
		func(ctx context.Context) error { return s.CreateAll(ctx, l, p) },
		scenario.WaitUntil(s.HasCondition(l, registered)),
		scenario.WaitUntil(s.HasCondition(l, scenario.Ready("Deployed"))),
	)(ctx)
}

// prepareWriter creates alice and her namespace.
func (s Steps) prepareWriter(ctx context.Context) error {
	return s.CreateAll(ctx, scenario.Namespace(scenario.Writing), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Writing, Name: alice, Labels: scenario.Labels()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: alice}},
	})
}

// writer writes as alice until it is stopped, and remembers the longest time in which every write failed.
type writer struct {
	longest time.Duration
	last    error
}

// whileAliceWrites deletes while alice writes. Afterwards writes pass, and the rest of Weir can be deleted.
func (s Steps) whileAliceWrites(ctx context.Context, do scenario.Action) error {
	api, err := clientAs(alice)
	if err != nil {
		return err
	}
	write := func(ctx context.Context) error {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: scenario.Writing, GenerateName: "some-"}}
		return api.Create(ctx, o, client.DryRunAll)
	}
	if err := scenario.WaitUntil(write)(ctx); err != nil {
		return err
	}
	writes, stop := context.WithCancel(ctx)
	w, ended := &writer{}, make(chan struct{})
	go func() {
		defer close(ended)
		w.run(writes, write)
	}()
	err = do(ctx)
	s.Within(ctx, 60*time.Second, "writes pass", write)
	stop()
	<-ended
	s.Logf("longest time without a write: %v (%v)", w.longest.Round(10*time.Millisecond), w.last)
	// More than a pod has to end: the Limiter's pods are gone then, and the webhook would reject writes forever.
	s.Expect(w.longest < 45*time.Second, "writes were rejected for %v", w.longest)
	if err != nil {
		return err
	}
	return s.deleteRest(ctx)
}

func (w *writer) run(ctx context.Context, write scenario.Action) {
	var failing time.Time
	for ctx.Err() == nil {
		err := write(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failing = time.Time{}
		default:
			if failing.IsZero() {
				failing = time.Now()
			}
			w.longest, w.last = max(w.longest, time.Since(failing)), err
		}
		time.Sleep(scenario.PollInterval)
	}
}

// deleteRest deletes what an order has left. Only the finalizer of another controller can hold an object.
func (s Steps) deleteRest(ctx context.Context) error {
	hold := scenario.LimiterNamed(scenario.System, "default")
	if err := s.Get(ctx, client.ObjectKeyFromObject(hold), hold); err == nil && len(hold.Finalizers) > 0 {
		s.Expect(len(hold.Finalizers) == 1 && hold.Finalizers[0] == "example.com/hold", "finalizers %q", hold.Finalizers)
		if err := s.Run(ctx, "kubectl", "-n", scenario.System, "patch", "limiter", "default", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`); err != nil {
			return err
		}
	}
	err := scenario.Sequence(
		// A namespace without pods is deleted immediately, see scenario.ApplyManifest.
		s.Command("kubectl", "-n", scenario.System, "delete", "deployments", "--all", "--wait=false"),
		s.Command("kubectl", "-n", scenario.System, "delete", "pods", "--all", "--force", "--grace-period=0"),
		s.Command("kubectl", "delete", "-f", scenario.Manifest, "--ignore-not-found", "--wait=false"),
	)(ctx)
	if err != nil {
		return err
	}
	s.checkNothingIsLeft(ctx)
	return nil
}

// clientAs returns a client of a user.
func clientAs(user string) (client.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return client.New(config, client.Options{})
}
