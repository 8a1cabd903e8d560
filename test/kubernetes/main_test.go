package kubernetes

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// shared is the World of all tests of the package, because a start takes longer than most tests. Tests delete their policies and use their own
// namespaces.
var shared *World

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	var err error
	if shared, err = Start(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// newWorld returns the shared World and deletes all policies when the test ends. Spent units stay spent, so tests with the same policy must use
// different tenants.
func newWorld(t testing.TB) *World {
	t.Helper()
	must(t, fixture.TrackWeir(t.Context()))
	before := shared.LogLength()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Logs(before))
		}
		must(t, shared.Admin.DeleteAllOf(context.Background(), &v1alpha1.ClusterRateLimitPolicy{}))
	})
	return shared
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustGet returns the value of a call that must succeed.
func mustGet[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// policy returns a ClusterRateLimitPolicy that limits writes to ConfigMaps in all namespaces.
func policy(name string, axis v1alpha1.Axis, limit int64, window string, change func(*v1alpha1.ClusterRateLimitPolicySpec)) *v1alpha1.ClusterRateLimitPolicy {
	p := &v1alpha1.ClusterRateLimitPolicy{}
	p.Name = name
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window = axis, &limit, v1alpha1.Duration(window)
	p.Spec.Algorithm = v1alpha1.SlidingWindowLog
	p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
		APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"configmaps"},
		Operations: []v1alpha1.Operation{v1alpha1.OperationCreate, v1alpha1.OperationUpdate},
	}}}}
	if change != nil {
		change(&p.Spec)
	}
	return p
}
