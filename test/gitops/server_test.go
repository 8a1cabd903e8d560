package gitops

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// The field owners are those of a cluster: the user, or a tool that applies for the user, and the operator.
const (
	user     = client.FieldOwner("user")
	operator = client.FieldOwner("weir-operator")
)

// server is a real API server without an operator: the tests write the status.
type server struct {
	client.Client
	kube *kubetest.KubeProcess
}

func newServer(t *testing.T) server {
	t.Helper()
	kube := kubetest.Kube(t)
	c, err := client.New(kube.Config(), client.Options{})
	must(t, err)
	return server{c, kube}
}

// create creates an object, takes it through the steps of a state, and returns the stored object. It fails the test if the object
// differs from the file.
func (s server) create(t *testing.T, state state) *unstructured.Unstructured {
	t.Helper()
	last := state.object()
	namespaced, err := s.IsObjectNamespaced(last)
	must(t, err)
	if namespaced {
		last.SetNamespace(kubetest.Namespace(t, s.kube))
	}
	for _, step := range state.steps {
		step = step.DeepCopy()
		step.SetNamespace(last.GetNamespace())
		s.apply(t, step)
	}
	t.Cleanup(func() { s.remove(t, last) })
	got := s.get(t, last)
	if diff := cmp.Diff(essence(last), essence(got)); diff != "" {
		t.Errorf("the stored object differs from the file (-file +server):\n%s", diff)
	}
	return got
}

// apply applies one step: the spec and then the status, each with its field owner. It deletes the object if the step has a
// deletionTimestamp.
func (s server) apply(t *testing.T, step *unstructured.Unstructured) {
	t.Helper()
	spec := step.DeepCopy()
	unstructured.RemoveNestedField(spec.Object, "status")
	unstructured.RemoveNestedField(spec.Object, "metadata", "generation")
	unstructured.RemoveNestedField(spec.Object, "metadata", "deletionTimestamp")
	must(t, s.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(spec), user))
	if observed, _, _ := unstructured.NestedInt64(step.Object, "status", "observedGeneration"); observed > 0 {
		must(t, s.writeStatus(t, step, step.Object["status"]))
	}
	if step.GetDeletionTimestamp() != nil {
		must(t, s.Delete(t.Context(), spec))
	}
}

// writeStatus applies a status as the operator does.
func (s server) writeStatus(t *testing.T, of *unstructured.Unstructured, status any) error {
	t.Helper()
	apply := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	apply.SetGroupVersionKind(of.GroupVersionKind())
	apply.SetName(of.GetName())
	apply.SetNamespace(of.GetNamespace())
	return s.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(apply), operator)
}

func (s server) get(t *testing.T, of *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of.GroupVersionKind())
	must(t, s.Get(t.Context(), client.ObjectKeyFromObject(of), object))
	return object
}

// remove deletes the object, so that the next state of a cluster-scoped kind starts without it.
func (s server) remove(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // the context of the test ends before the cleanups
	must(t, client.IgnoreNotFound(s.Delete(ctx, object)))
	noFinalizers := []byte(`{"metadata":{"finalizers":null}}`)
	must(t, client.IgnoreNotFound(s.Patch(ctx, object, client.RawPatch(types.MergePatchType, noFinalizers))))
}

// wait runs kubectl wait for a condition of the object.
func (s server) wait(t *testing.T, object *unstructured.Unstructured, condition, timeout string) error {
	t.Helper()
	resource := strings.ToLower(object.GetKind()) + ".weir.dev/" + object.GetName()
	args := []string{"wait", "--for=condition=" + condition, "--timeout=" + timeout, resource}
	if namespace := object.GetNamespace(); namespace != "" {
		args = append(args, "-n", namespace)
	}
	_, err := s.kube.Kubectl(t.Context(), args...)
	return err
}

// waitResults has the results of kubectl wait for objects that were waited for, by [waitInput].
type waitResults map[string]bool

// satisfies reports whether kubectl wait for the condition succeeds immediately. It runs kubectl once for all objects that are equal to
// kubectl, because each run takes a quarter of a second of CPU time.
func (r waitResults) satisfies(t *testing.T, s server, object *unstructured.Unstructured, condition string) bool {
	t.Helper()
	input := waitInput(t, object, condition)
	if result, known := r[input]; known {
		return result
	}
	err := s.wait(t, object, condition, "0s")
	if err != nil && !strings.Contains(err.Error(), "condition not met") {
		t.Fatal(err)
	}
	r[input] = err == nil
	return err == nil
}

// waitInput returns everything that can decide whether kubectl wait for a condition succeeds: the condition without its reason, message and
// time, the generations, and whether the object is being deleted.
func waitInput(t *testing.T, object *unstructured.Unstructured, condition string) string {
	t.Helper()
	conditions, hasConditions, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	must(t, err)
	var found []any
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == condition { //nolint:forcetypeassert // a condition is an object
			found = append(found, c["status"], c["observedGeneration"])
		}
	}
	observed, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	must(t, err)
	return fmt.Sprint(hasConditions, found, observed, object.GetGeneration(), object.GetDeletionTimestamp() != nil)
}

// essence returns what a state defines. It omits the spec, because the files omit its defaults, and what is unique to each object.
func essence(object *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	return map[string]any{
		"kind":       object.GetKind(),
		"name":       object.GetName(),
		"generation": strconv.FormatInt(object.GetGeneration(), 10),
		"finalizers": object.GetFinalizers(),
		"deleted":    object.GetDeletionTimestamp() != nil,
		"status":     status,
	}
}
