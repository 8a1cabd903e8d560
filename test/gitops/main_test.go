// Package gitops tests how tools evaluate the status of Weir's objects: kstatus, which Flux uses, and kubectl wait. Package argocd
// does the same for Argo CD. These libraries need a module of their own.
//
// Run it with -count=1: the go command does not detect changes of files outside the module, for example CRDs, and would use its
// test cache.
package gitops

import (
	"testing"

	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
