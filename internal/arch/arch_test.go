package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.." // the directory of the module, relative to this package

func TestLayers_AllowEveryImport(t *testing.T) {
	for _, w := range check(load(t), layers(), bans()) {
		t.Error(w)
	}
}

func TestLayers_ListNoLaterLayer(t *testing.T) {
	all := layers()
	for i, l := range all {
		for j, other := range all {
			isLater := j > i && !slices.Contains(l.internal, "...") && slices.Contains(l.internal, other.pkg)
			if isLater {
				t.Errorf("%s may import %s, which is later in the list", l.pkg, other.pkg)
			}
		}
	}
}

// load returns the packages of the module and all their dependencies. It runs go list.
func load(t *testing.T) graph {
	t.Helper()
	watchSources(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Standard", "./...")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	g := graph{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
			Standard   bool
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		g[p.ImportPath] = node{imports: p.Imports, standard: p.Standard}
	}
	if len(g) == 0 {
		t.Fatalf("%s: no packages", cmd)
	}
	return g
}

// watchSources reads the directories of the module. The go command caches a test result and checks only the files that the test
// itself reads, not the files that its child processes read. Without this function, it would return a cached result after an edit.
func watchSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheck_FindsEveryForbiddenImport(t *testing.T) {
	testLayers := []layer{
		{pkg: "low"},
		{pkg: "middle", internal: []string{"low"}, external: []string{"example.com/lib"}},
		{pkg: "tree/...", internal: []string{"tree/...", "low"}},
		{pkg: "top", internal: []string{"..."}, external: []string{"..."}},
	}
	testBans := []ban{{pkg: "middle", forbidden: []string{"example.com/cluster"}, reason: "it does not depend on a cluster"}}
	tests := map[string]struct {
		from    string
		imports []string
		want    []string
	}{
		"an import of a lower layer is allowed":                {from: "middle", imports: []string{module + "/low"}},
		"an import of an upper layer is forbidden":             {from: "low", imports: []string{module + "/middle"}, want: []string{"low imports " + module + "/middle: its layer does not allow that"}},
		"the standard library is allowed for all packages":     {from: "low", imports: []string{"net/http", "C"}},
		"an external package is forbidden by default":          {from: "low", imports: []string{"example.com/lib"}, want: []string{"low imports example.com/lib: its layer does not allow that"}},
		"an allowed library includes its packages":             {from: "middle", imports: []string{"example.com/lib/v2/part"}},
		"a library with a longer name is forbidden":            {from: "middle", imports: []string{"example.com/library"}, want: []string{"middle imports example.com/library: its layer does not allow that"}},
		"a subtree may import itself":                          {from: "tree/branch", imports: []string{module + "/tree/leaf", module + "/tree"}},
		"a package with the prefix of a subtree is outside it": {from: "tree/branch", imports: []string{module + "/treehouse"}, want: []string{"tree/branch imports " + module + "/treehouse: its layer does not allow that"}},
		"the top layer may import every package":               {from: "top", imports: []string{module + "/middle", "example.com/cluster"}},
		"a package without a layer is reported":                {from: "new", imports: []string{module + "/low"}, want: []string{"new has no layer: give it one in layers_test.go"}},
		"a ban includes indirect imports":                      {from: "middle", imports: []string{"example.com/lib/heavy"}, want: []string{module + "/middle → example.com/lib/heavy → example.com/deep → example.com/cluster/client: it does not depend on a cluster"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := graph{
				"net/http":              {standard: true},
				"example.com/lib/heavy": {imports: []string{"net/http", "example.com/deep"}},
				"example.com/deep":      {imports: []string{"example.com/cluster/client", "example.com/lib/heavy"}},
				module + "/" + tt.from:  {imports: tt.imports},
			}
			if diff := cmp.Diff(tt.want, check(g, testLayers, testBans)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLayers_RejectForbiddenImports adds one forbidden import to the graph of each case and expects a finding.
func TestLayers_RejectForbiddenImports(t *testing.T) {
	tests := map[string]struct{ from, imported string }{
		"limiter imports only the standard library":         {"limiter", "github.com/google/go-cmp/cmp"},
		"the engine does not import the API":                {"limiter/engine", module + "/api/v1alpha1"},
		"the server does not import controller-runtime":     {"limiter/server", "sigs.k8s.io/controller-runtime"},
		"the server does not import the store":              {"limiter/server", module + "/limiter/redisstore"},
		"the source does not import go-redis":               {"limiter/source", "github.com/redis/go-redis/v9"},
		"the compiler does not import go-redis":             {"internal/compile", "github.com/redis/go-redis/v9"},
		"controllers do not import the engine":              {"controllers/ruleset", module + "/limiter/engine"},
		"controllers do not import the control plane":       {"controllers/ruleset", module + "/limiter/controlplane"},
		"the Redis store does not import the control plane": {"limiter/redisstore", module + "/limiter/controlplane"},
		"the control plane does not import the Redis store": {"limiter/controlplane", module + "/limiter/redisstore"},
		"the policy API does not import its compiler":       {"api/v1alpha1", module + "/internal/compile"},
		"the rules do not import the engine":                {"limiter/rules", module + "/limiter/engine"},
		"controllers do not import the command":             {"controllers", module + "/cmd/weir"},
		"the memory store does not import the Redis store":  {"limiter/memstore", module + "/limiter/redisstore"},
		"the conformance suite does not import a store":     {"limiter/storetest", module + "/limiter/memstore"},
		"the command does not import test fixtures":         {"cmd/weir", module + "/test/fixture"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := graph{module + "/" + tt.from: {imports: []string{tt.imported}}}
			if wrong := check(g, layers(), bans()); len(wrong) == 0 {
				t.Errorf("the import %s → %s is not reported", tt.from, tt.imported)
			}
		})
	}
}
