package manifests

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/manifests/tool"
)

// TestDockerignore_IncludesEveryPackageOfThePrograms compares the exceptions in .dockerignore with the imports of the programs in the image.
func TestDockerignore_IncludesEveryPackageOfThePrograms(t *testing.T) {
	text, err := os.ReadFile(tool.Root(t, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var included []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			included = append(included, name)
		}
	}
	if err := errors.Join(fixture.TrackPackage(t.Context(), "./cmd/weir"), fixture.TrackPackage(t.Context(), "./cmd/weir-operator")); err != nil {
		t.Fatal(err)
	}
	const module = "github.com/weir-dev/weir/"
	out, err := exec.CommandContext(t.Context(), "go", "-C", tool.Root(t), "list", "-deps", "./cmd/weir", "./cmd/weir-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		path, ours := strings.CutPrefix(strings.TrimSpace(pkg), module)
		if ours && !slices.ContainsFunc(included, func(name string) bool { return path == name || strings.HasPrefix(path, name+"/") }) {
			t.Errorf(".dockerignore excludes %s, which a program imports", path)
		}
	}
}
