//go:build gateways

package gateways_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/test/fixture"
)

// TestMain builds weir once for all tests.
func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

// Paths of weir and of kubectl-weir, which all tests share.
var weir, plugin string

func buildAndRun(m *testing.M) int {
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	dir, err := os.MkdirTemp("", "weir-gateways-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if weir, err = fixture.BuildWeir(context.Background(), dir); err == nil {
		plugin, err = fixture.BuildPlugin(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
