// Package gitops holds the status of Weir's objects to what tools that wait for it make of it: kstatus, by which Flux
// decides, and kubectl wait. Package argocd beside it does so for Argo CD. The module is of its own for these libraries.
//
// Run it with -count=1: the go command does not see that a file outside of the module, such as a definition, has changed, and
// would answer from its cache.
package gitops

import (
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

func TestMain(m *testing.M) { fixture.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
