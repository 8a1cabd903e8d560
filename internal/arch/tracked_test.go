package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The go command reuses the result of a package until a file or a variable changes that its tests have read. What TestMain reads before the
// tests does not count. These suites test weir without importing it: as a process, or by its sources and manifests. test/fixture tests what
// these functions make the test program read.
func TestSuites_RunAgainWhenWeirChanges(t *testing.T) {
	const process, operator, inTestMain, sources = "fixture.BuildWeir(", "fixture.BuildOperator(", "fixture.TrackWeir(", `fixture.TrackPackage(t.Context(), "./cmd/weir")`
	for suite, want := range map[string]string{
		"test/e2e": operator, "test/endpoints": process, "test/kubernetes": inTestMain, "test/proof": process, "test/proxies": process,
		"test/readme": process, "test/redisservers": process, "test/reliability": process, "test/manifests": sources,
	} {
		if !strings.Contains(goFiles(t, suite), want) {
			t.Errorf("%s has no call %s…): go test would report a cached result after a change of weir", suite, want)
		}
	}
}

// Every other package that starts weir must get the path of the binary in the same way, except test/fixture/kubetest, which gets it from its
// caller.
func TestSuites_StartOnlyATrackedBinary(t *testing.T) {
	for pkg := range testsByPackage(t) {
		text := goFiles(t, pkg)
		starts := slices.ContainsFunc([]string{"fixture.StartWeir(", "fixture.Weir(", "kubetest.StartStack("}, func(call string) bool { return strings.Contains(text, call) })
		if starts && pkg != "test/fixture/kubetest" && !strings.Contains(text, "fixture.BuildWeir(") && !strings.Contains(text, `os.Getenv("WEIR_BIN")`) {
			t.Errorf("%s starts weir, but not the binary of fixture.BuildWeir: go test would report a cached result after a change of weir", pkg)
		}
	}
}

// goFiles returns the text of all Go files of a package.
func goFiles(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d Go files in %s, %v", len(files), pkg, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
