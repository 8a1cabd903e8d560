// Package permissions runs the operator and users with only the permissions of the chart, on a real API server.
package permissions

import (
	"context"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// patience is how long the tests wait for what takes a second on an idle machine.
const patience = 60 * time.Second

// buildOperator returns the path of weir-operator.
func buildOperator(t *testing.T) string {
	t.Helper()
	operator, err := fixture.BuildOperator(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return operator
}

// installGatewayAPI installs the CRDs of the Gateway API until the test ends.
func installGatewayAPI(t *testing.T, kube *kubetest.KubeProcess) {
	t.Helper()
	if err := kube.InstallGatewayAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.UninstallGatewayAPI(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
