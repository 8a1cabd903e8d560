package weir_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/go/weir"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/test/agreement"
	"github.com/weir-dev/weir/test/fixture"
)

// The same file is the same limits in a program and in weir serve, whichever counters it has.
func TestPolicies_DecideTheSameInProcessAndInWeirServe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(agreement.Policies("shop")), 0o600); err != nil {
		t.Fatal(err)
	}
	policies, err := weir.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	long := weir.Timeout(longTimeout)
	memory, err := weir.NewMemory(policies)
	closing(t, memory, err)
	redis, err := weir.NewRedis(fixture.Redis(t).URL(), policies, long)
	closing(t, redis, err)
	remote, err := weir.NewRemote(startServe(t, dir), weir.Domain("shop"), long)
	closing(t, remote, err)

	seen := map[int]int{}
	for i, request := range agreement.Requests() {
		want := agreement.AnswerOf(t.Context(), memory, request)
		seen[want.Status]++
		for way, other := range map[string]*weir.Limiter{"redis": redis, "weir serve": remote} {
			if got := agreement.AnswerOf(t.Context(), other, request); !agreement.Agree(want, got, way == "redis") {
				t.Errorf("request %d %v: in memory and with %s (-memory +other):\n%s", i, request, way, cmp.Diff(want, got))
			}
		}
	}
	for _, status := range agreement.Statuses() {
		if seen[status] == 0 {
			t.Errorf("no request has status %d: %v", status, seen)
		}
	}
}

// startServe starts weir serve with the policies in dir, and returns the URL of its HTTP API.
func startServe(t *testing.T, dir string) string {
	t.Helper()
	binary, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	listen, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ops, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fixture.Weir(t, binary, "serve", "--policies", dir, "--listen", listen, "--ops-listen", ops, "--grpc-listen=", "--drain=0s")
	if err := fixture.WaitHTTP(t.Context(), "http://"+ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	return "http://" + listen
}
