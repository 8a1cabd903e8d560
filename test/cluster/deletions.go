package main

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
	limiter := []string{"-n", system, "delete", "limiter", "default", "--timeout=30s"}
	release := []string{"delete", "namespace", system, "--timeout=150s"}
	return []deletion{
		{"the namespace", [][]string{release}, false},
		{"the namespace, without an operator", [][]string{release}, true},
		{"the pods by force, and the namespace", [][]string{{"-n", system, "delete", "pods", "--all", "--force", "--grace-period=0"}, release}, false},
		{"all of the manifest", [][]string{{"delete", "-f", manifest, "--timeout=150s"}}, false},
		{"all of the manifest, without an operator", [][]string{{"delete", "-f", manifest, "--timeout=150s"}}, true},
		{"the CRDs", [][]string{{"delete", "-k", "config/crd", "--timeout=60s"}, release}, false},
		{"the CRDs, without an operator", [][]string{{"delete", "-k", "config/crd", "--timeout=60s"}, release}, true},
		{"the operator", [][]string{{"-n", system, "delete", "deployment", "weir-operator"}, limiter}, false},
		{"all Deployments", [][]string{{"-n", system, "delete", "deployments", "--all"}, limiter}, false},
		{"the permissions", [][]string{{"delete", "-k", "config/rbac"}, limiter}, false},
		{"the ServiceAccount and the bindings", [][]string{
			{"-n", system, "delete", "serviceaccount", "weir-operator"},
			{"delete", "clusterrolebinding", "weir-operator", "weir-operator-limiters", "weir-operator-throttle"},
			limiter,
		}, false},
		{"a Limiter with the finalizer of an absent controller", [][]string{
			{"-n", system, "patch", "limiter", "default", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`},
			{"delete", "namespace", system, "--wait=false"},
		}, false},
	}
}

// deleteInEveryOrder removes Weir in every order, while a user writes. No order may leave a webhook that rejects writes, or an object that does
// not end.
func (s installSteps) deleteInEveryOrder(ctx context.Context) error {
	if err := s.prepareWriter(ctx); err != nil {
		return err
	}
	for _, d := range deletions() {
		s.logf("- first %s", d.name)
		if err := s.deleteInOrder(ctx, d); err != nil {
			return fmt.Errorf("first %s: %w", d.name, err)
		}
	}
	if err := s.uninstallReleaseFirst(ctx); err != nil {
		return err
	}
	return s.run(ctx, "kubectl", "delete", "namespace", writing, "--timeout=60s")
}

// uninstallReleaseFirst runs helm uninstall before the Limiter is deleted.
func (s installSteps) uninstallReleaseFirst(ctx context.Context) error {
	s.logf("- first the release of Helm")
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
	return s.whileAliceWrites(ctx, sequence(
		helm("uninstall", "weir", "--namespace", system, "--wait", "--timeout=2m"),
		s.command("kubectl", "-n", system, "delete", "limiter", "default", "--timeout=30s"),
	))
}

func (s installSteps) deleteInOrder(ctx context.Context, d deletion) error {
	err := sequence(s.command("kubectl", "apply", "--server-side", "-f", manifest), s.waitForCRDs, s.failClosed, s.waitForOperator)(ctx)
	if err != nil {
		return err
	}
	var commands []action
	if d.dead {
		commands = append(commands, s.command("kubectl", "-n", system, "scale", "deployment", "weir-operator", "--replicas=0"),
			s.command("kubectl", "-n", system, "delete", "pod", "-l", "app.kubernetes.io/component=operator", "--now"),
			s.command("kubectl", "-n", system, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "--timeout=60s"))
	}
	for _, args := range d.commands {
		commands = append(commands, s.command(append([]string{"kubectl"}, args...)...))
	}
	return s.whileAliceWrites(ctx, sequence(commands...))
}

// failClosed creates a Limiter that throttles the writes of alice, and waits until the API server calls it.
func (s installSteps) failClosed(ctx context.Context) error {
	l := limiterNamed(system, "default")
	l.Spec = v1alpha1.LimiterSpec{
		Redis:              v1alpha1.Redis{Addresses: []v1alpha1.RedisAddress{"redis:6379"}},
		KubernetesThrottle: &v1alpha1.KubernetesThrottle{FailurePolicy: v1alpha1.WebhookFailureFail},
	}
	l.Spec.Endpoints.Drain = "1s" // also shortens the grace period of the pods, see shortenGrace
	p := limitWrites("e2e-deletions", wideOpen, configMaps())
	p.Spec.Axis, p.Spec.Match.Kubernetes.Namespaces = v1alpha1.AxisUser, []v1alpha1.NamespaceName{writing}
	registered := condition{kind: v1alpha1.ConditionThrottleRegistered, reason: v1alpha1.ReasonRegistered, status: metav1.ConditionTrue}
	return sequence(
		s.startRedis,
		func(ctx context.Context) error { return s.create(ctx, l, p) },
		waitUntil(s.hasCondition(l, registered)),
		waitUntil(s.hasCondition(l, ready("Deployed"))),
	)(ctx)
}

// prepareWriter creates alice and her namespace.
func (s installSteps) prepareWriter(ctx context.Context) error {
	return s.create(ctx, namespace(writing), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: writing, Name: alice, Labels: testLabels()},
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
func (s installSteps) whileAliceWrites(ctx context.Context, do action) error {
	api, err := clientAs(alice)
	if err != nil {
		return err
	}
	write := func(ctx context.Context) error {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: writing, GenerateName: "some-"}}
		return api.Create(ctx, o, client.DryRunAll)
	}
	if err := waitUntil(write)(ctx); err != nil {
		return err
	}
	writes, stop := context.WithCancel(ctx)
	w, ended := &writer{}, make(chan struct{})
	go func() {
		defer close(ended)
		w.run(writes, write)
	}()
	err = do(ctx)
	s.within(ctx, 60*time.Second, "writes pass", write)
	stop()
	<-ended
	s.logf("longest time without a write: %v (%v)", w.longest.Round(10*time.Millisecond), w.last)
	// More than a pod has to end: the Limiter's pods are gone then, and the webhook would reject writes forever.
	s.expect(w.longest < 45*time.Second, "writes were rejected for %v", w.longest)
	if err != nil {
		return err
	}
	return s.deleteRest(ctx)
}

func (w *writer) run(ctx context.Context, write action) {
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
		time.Sleep(pollInterval)
	}
}

// deleteRest deletes what an order has left. Only the finalizer of another controller can hold an object.
func (s installSteps) deleteRest(ctx context.Context) error {
	hold := limiterNamed(system, "default")
	if err := s.Get(ctx, client.ObjectKeyFromObject(hold), hold); err == nil && len(hold.Finalizers) > 0 {
		s.expect(len(hold.Finalizers) == 1 && hold.Finalizers[0] == "example.com/hold", "finalizers %q", hold.Finalizers)
		if err := s.run(ctx, "kubectl", "-n", system, "patch", "limiter", "default", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`); err != nil {
			return err
		}
	}
	err := sequence(
		// A namespace without pods is deleted immediately, see shortenGrace.
		s.command("kubectl", "-n", system, "delete", "deployments", "--all", "--wait=false"),
		s.command("kubectl", "-n", system, "delete", "pods", "--all", "--force", "--grace-period=0"),
		s.command("kubectl", "delete", "-f", manifest, "--ignore-not-found", "--wait=false"),
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
