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

const root = "../.." // of the module, from this package

func TestLayers_AllowEveryImport(t *testing.T) {
	for _, w := range check(load(t), layers(), bans()) {
		t.Error(w)
	}
}

func TestLayers_ListNoLaterLayer(t *testing.T) {
	all := layers()
	for i, l := range all {
		for j, other := range all {
			up := j > i && !slices.Contains(l.ours, "...") && slices.Contains(l.ours, other.pkg)
			if up {
				t.Errorf("%s may import %s, which stands further down in the list", l.pkg, other.pkg)
			}
		}
	}
}

// load asks the go command for the packages of the module and all they depend on.
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

// watchSources reads the module's directories. The go command sees what a test reads, not what its children read:
// without this it would answer from its cache after an edit.
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
		{pkg: "middle", ours: []string{"low"}, world: []string{"example.com/lib"}},
		{pkg: "tree/...", ours: []string{"tree/...", "low"}},
		{pkg: "top", ours: []string{"..."}, world: []string{"..."}},
	}
	testBans := []ban{{pkg: "middle", never: []string{"example.com/cluster"}, why: "it knows no cluster"}}
	tests := map[string]struct {
		from    string
		imports []string
		want    []string
	}{
		"an import of a lower layer is right":                 {from: "middle", imports: []string{module + "/low"}},
		"an import of an upper layer is wrong":                {from: "low", imports: []string{module + "/middle"}, want: []string{"low imports " + module + "/middle: its layer does not allow that"}},
		"the standard library is open to all":                 {from: "low", imports: []string{"net/http", "C"}},
		"the world is closed where nothing is said":           {from: "low", imports: []string{"example.com/lib"}, want: []string{"low imports example.com/lib: its layer does not allow that"}},
		"a library that is allowed brings its packages":       {from: "middle", imports: []string{"example.com/lib/v2/part"}},
		"a library with a longer name is another one":         {from: "middle", imports: []string{"example.com/library"}, want: []string{"middle imports example.com/library: its layer does not allow that"}},
		"a subtree may be open to itself":                     {from: "tree/branch", imports: []string{module + "/tree/leaf", module + "/tree"}},
		"a package with the prefix of a subtree is not in it": {from: "tree/branch", imports: []string{module + "/treehouse"}, want: []string{"tree/branch imports " + module + "/treehouse: its layer does not allow that"}},
		"the top imports what it likes":                       {from: "top", imports: []string{module + "/middle", "example.com/cluster"}},
		"a package without a layer is reported":               {from: "new", imports: []string{module + "/low"}, want: []string{"new has no layer: give it one in layers_test.go"}},
		"a ban holds through the imports of others, too":      {from: "middle", imports: []string{"example.com/lib/heavy"}, want: []string{module + "/middle → example.com/lib/heavy → example.com/deep → example.com/cluster/client: it knows no cluster"}},
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

// The test adds forbidden imports to the graph and expects a finding for each of them.
func TestLayers_RejectForbiddenImports(t *testing.T) {
	tests := map[string]struct{ from, imported string }{
		"limiter stays within the standard library":     {"limiter", "github.com/google/go-cmp/cmp"},
		"the engine does not know the API":              {"limiter/engine", module + "/api/v1alpha1"},
		"the server does not know controller-runtime":   {"limiter/server", "sigs.k8s.io/controller-runtime"},
		"the server does not know the store":            {"limiter/server", module + "/limiter/redisstore"},
		"the source does not know go-redis":             {"limiter/source", "github.com/redis/go-redis/v9"},
		"the compiler does no I/O over go-redis":        {"internal/compile", "github.com/redis/go-redis/v9"},
		"controllers do not enforce":                    {"controllers/ruleset", module + "/limiter/engine"},
		"controllers do not publish to Redis directly":  {"controllers/ruleset", module + "/limiter/controlplane"},
		"the counters do not use the control plane":     {"limiter/redisstore", module + "/limiter/controlplane"},
		"the control plane does not use the counters":   {"limiter/controlplane", module + "/limiter/redisstore"},
		"the policy API does not know its compiler":     {"api/v1alpha1", module + "/internal/compile"},
		"the rules do not know who matches with them":   {"limiter/rules", module + "/limiter/engine"},
		"nothing imports the command":                   {"controllers", module + "/cmd/weir"},
		"the memory store does not lean on Redis":       {"limiter/memstore", module + "/limiter/redisstore"},
		"the conformance suite does not favour a store": {"limiter/storetest", module + "/limiter/memstore"},
		"the command does not carry the fixtures":       {"cmd/weir", module + "/test/fixture"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := graph{module + "/" + tt.from: {imports: []string{tt.imported}}}
			if wrong := check(g, layers(), bans()); len(wrong) == 0 {
				t.Errorf("%s → %s passes", tt.from, tt.imported)
			}
		})
	}
}
