package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// manifest writes a ConfigMap to a file.
func manifest(t *testing.T, namespace, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {a: b}\n", name, namespace), 0o600))
	return file
}

// writers returns several ways to create a ConfigMap, each with its own client.
func writers(t *testing.T, w *World, namespace string) map[string]func(name string) error {
	t.Helper()
	kubectl := func(args ...string) error {
		_, err := w.Kube.Kubectl(t.Context(), append(args, "--as=alice", "--as-group="+authenticated, "--namespace="+namespace)...)
		return err
	}
	maps := mustGet[*kubernetes.Clientset](t)(w.ClientGo(1, Person("alice"))).CoreV1().ConfigMaps(namespace)
	return map[string]func(string) error{
		"kubectl create":              func(name string) error { return kubectl("create", "-f", manifest(t, namespace, name)) },
		"kubectl apply":               func(name string) error { return kubectl("apply", "-f", manifest(t, namespace, name)) },
		"kubectl apply --server-side": func(name string) error { return kubectl("apply", "--server-side", "-f", manifest(t, namespace, name)) },
		"client-go create": func(name string) error {
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		},
		"client-go server-side apply": func(name string) error {
			body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"b"}}`)
			_, err := maps.Patch(t.Context(), name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "tests"})
			return err
		},
	}
}

// The limit is one write in three seconds. Clients retry after that time, and their callers do not notice. Each client has its own namespace
// and policy, so that the clients can wait at the same time.
func TestClients_WaitSilentlyForAShortRetryAfter(t *testing.T) {
	w := newWorld(t)
	const window = 3 * time.Second
	var names []string
	for name := range writers(t, w, "") {
		names = append(names, name)
	}
	namespaces, policies := map[string]string{}, make([]*v1alpha1.ClusterRateLimitPolicy, len(names))
	for i, name := range names {
		namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
		namespaces[name] = namespace
		policies[i] = policy(fmt.Sprintf("short-%d", i), v1alpha1.AxisNamespace, 1, window.String(), func(s *v1alpha1.ClusterRateLimitPolicySpec) {
			s.Match.Kubernetes.Namespaces = []v1alpha1.NamespaceName{v1alpha1.NamespaceName(namespace)}
		})
	}
	must(t, w.Enforce(t.Context(), Person("alice"), configMap(namespaces[names[0]]), policies...))
	alice := bothClients(t, w, Person("alice"))[0]
	var waiting sync.WaitGroup
	for i, name := range names {
		write, object := writers(t, w, namespaces[name])[name], configMap(namespaces[name])
		waiting.Go(func() {
			began := time.Now()
			if err := alice.Create(t.Context(), object); err != nil { // spends the unit
				t.Errorf("%s: the first write: %v", name, err)
				return
			}
			if err := write(strings.ReplaceAll(strings.ReplaceAll(name, " ", ""), "--", "-")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			denied, err := w.Decisions(t.Context(), policies[i].Name, "denied")
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: passed after %v, %d denials", name, time.Since(began).Round(10*time.Millisecond), denied)
			if denied == 0 || time.Since(began) < window {
				t.Errorf("%s: the write was never denied", name)
			}
		})
	}
	waiting.Wait()
}

// The limit is one write in an hour.
func TestClients_FailImmediatelyWithoutRetryAfter(t *testing.T) {
	w := newWorld(t)
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
	must(t, w.Enforce(t.Context(), Person("alice"), configMap(namespace), policy("long", v1alpha1.AxisNamespace, 1, "1h", nil)))
	must(t, bothClients(t, w, Person("alice"))[0].Create(t.Context(), configMap(namespace)))
	for name, write := range writers(t, w, namespace) {
		before, began := mustGet[int](t)(w.WebhookCalls(t.Context())), time.Now()
		err := write("second")
		t.Logf("%s: after %v: %v", name, time.Since(began).Round(10*time.Millisecond), err)
		if err == nil || !strings.Contains(err.Error(), "over the limit of policy _cluster/long: 1 per 1h for Namespace "+namespace) {
			t.Errorf("%s: %v", name, err)
		}
		if wait, suggested := apierrors.SuggestsClientDelay(err); suggested {
			t.Errorf("%s got Retry-After %d", name, wait)
		}
		if calls := mustGet[int](t)(w.WebhookCalls(t.Context())) - before; calls != 1 {
			t.Errorf("%s: %d calls of the webhook, want 1", name, calls)
		}
	}
}

// The test reconciles as Flux does: it repeats a server-side apply as a dry run, and applies only if there is a change.
func TestDryRun_OfGitOpsToolsIsNeverCharged(t *testing.T) {
	w := newWorld(t)
	const limit, rounds = 10, 25
	flux := ServiceAccount("flux-system", "kustomize-controller")
	namespace := mustGet[string](t)(w.Namespace(t.Context(), "acme"))
	p := policy("gitops", v1alpha1.AxisTenant, limit, "1h", nil)
	must(t, w.Enforce(t.Context(), flux, configMap(namespace), p))
	clients := [2]*kubernetes.Clientset{mustGet[*kubernetes.Clientset](t)(w.ClientGo(0, flux)), mustGet[*kubernetes.Clientset](t)(w.ClientGo(1, flux))}
	apply := func(server int, name string, dry bool) error {
		maps := clients[server].CoreV1().ConfigMaps(namespace)
		options := metav1.PatchOptions{FieldManager: "kustomize-controller", Force: new(true)}
		if dry {
			options.DryRun = []string{metav1.DryRunAll}
		}
		body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"b"}}`)
		_, err := maps.Patch(t.Context(), name, types.ApplyPatchType, body, options)
		return err
	}
	for round := range rounds {
		for object := range limit {
			if err := apply((round+object)%2, fmt.Sprintf("object-%d", object), true); err != nil {
				t.Fatalf("dry run %d of object %d: %v", round, object, err)
			}
		}
	}
	for object := range limit {
		if err := apply(object%2, fmt.Sprintf("object-%d", object), false); err != nil {
			t.Fatalf("object %d: a dry run was charged: %v", object, err)
		}
	}
	for _, dry := range []bool{true, false} {
		if err := apply(0, "one-more", dry); !IsDenied(err) {
			t.Errorf("one more write, dry run %v: %v", dry, err)
		}
	}
	if allowed := mustGet[int](t)(w.Decisions(t.Context(), p.Name, "allowed")); allowed != limit {
		t.Errorf("%d writes were charged, want %d", allowed, limit)
	}
}
