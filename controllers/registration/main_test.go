package registration

import (
	"flag"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	kubetest.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
