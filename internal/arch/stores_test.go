package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chainPackage puts the layers together, and enginePackage asks them.
const (
	chainPackage  = "limiter/store"
	enginePackage = "limiter/engine"
	suitePackage  = "limiter/storetest" // not product code
)

// keepCounters has the packages whose Stores keep counters. All other Stores are layers.
func keepCounters() []string { return []string{"limiter/memstore", "limiter/redisstore"} }

// TestStores_FaceTheConformanceSuite checks that the tests of each package with a limiter.Store run the conformance suite on it.
func TestStores_FaceTheConformanceSuite(t *testing.T) {
	for _, folder := range storePackages(t) {
		tests, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(tests, runsSuite) {
			t.Errorf("no test in %s runs the suite of limiter/storetest on its limiter.Store", folder)
		}
	}
}

// TestLayers_AreInTheChainAndUnknownToTheEngine checks that each layer is in the one list of layers, and that the engine imports none of them.
func TestLayers_AreInTheChainAndUnknownToTheEngine(t *testing.T) {
	imports := map[string][]string{}
	for _, l := range layers() {
		imports[l.pkg] = l.internal
	}
	for _, folder := range storePackages(t) {
		if folder == chainPackage || slices.Contains(keepCounters(), folder) {
			continue
		}
		if !slices.Contains(imports[chainPackage], folder) {
			t.Errorf("%s has a layer, and %s does not import it", folder, chainPackage)
		}
		if slices.Contains(imports[enginePackage], folder) {
			t.Errorf("%s imports %s, which has a layer: it must ask its Store", enginePackage, folder)
		}
	}
	if slices.Contains(imports[enginePackage], chainPackage) {
		t.Errorf("%s imports %s", enginePackage, chainPackage)
	}
}

// storePackages returns the packages with product code that implements limiter.Store, sorted.
func storePackages(t *testing.T) (folders []string) {
	t.Helper()
	for _, name := range productFiles(t) {
		if folder := path.Dir(name); folder != suitePackage && strings.HasPrefix(folder, "limiter/") && filepath.Ext(name) == ".go" && hasStore(t, name) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	if len(folders) < len(keepCounters())+5 {
		t.Fatalf("only %q implement limiter.Store", folders)
	}
	return folders
}

// hasStore reports whether a file has the method Spend of a limiter.Store.
func hasStore(t *testing.T, name string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, is := d.(*ast.FuncDecl)
		return is && f.Recv != nil && f.Name.Name == "Spend" && f.Type.Params.NumFields() == 2 && f.Type.Results.NumFields() == 2
	})
}

func runsSuite(name string) bool {
	text, err := os.ReadFile(name)
	return err == nil && (strings.Contains(string(text), "storetest.Run(") || strings.Contains(string(text), "storetest.HistoriesOf("))
}
