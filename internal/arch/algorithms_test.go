package arch

import (
	"bytes"
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter"
)

// namesAlgorithms has the files that contain the name of an algorithm as a constant or as text, with the reason. All others ask its traits.
// Messages and comments do not count: they decide nothing.
func namesAlgorithms() map[string]string {
	const imported = "has the algorithm that counts as the imported product does"
	return map[string]string{
		"limiter/algorithm.go":                            "has the table, and the default",
		"limiter/bucket.go":                               "is TokenBucket and LeakyBucket",
		"limiter/fixedwindow.go":                          "is FixedWindow",
		"limiter/firstrequestwindow.go":                   "is the algorithm of the tag sixthalgorithm",
		"limiter/windowcounter.go":                        "is SlidingWindowCounter",
		"limiter/windowlog.go":                            "is SlidingWindowLog",
		"limiter/storetest/definition.go":                 "defines each algorithm again, and shares no code with it",
		"limiter/storetest/draw.go":                       "draws limits within the bounds of each definition",
		"limiter/storetest/concurrency.go":                "gives a queue the length that the definition asks for",
		"limiter/storetest/historysteps.go":               "does not edit the limit of a bucket that is spread",
		"api/v1alpha1/policyapi/ratelimitpolicy_types.go": "has the values of the API",
		"api/v1alpha1/policyapi.go":                       "has the names of these values in package v1alpha1",
		"internal/importer/envoyratelimit/algorithm.go":   imported,
		"internal/importer/objects/envoygateway.go":       imported,
		"internal/importer/objects/eventratelimit.go":     imported,
		"internal/importer/objects/kong.go":               imported,
		"internal/importer/objects/kuadrant.go":           imported,
		"internal/importer/objects/traefik.go":            imported,
	}
}

func TestAlgorithms_AreNamedOnlyWhereTheyStand(t *testing.T) {
	allowed, found := namesAlgorithms(), map[string]bool{}
	for _, path := range productFiles(t) {
		for _, name := range algorithmsIn(t, path) {
			found[path] = true
			if allowed[path] == "" {
				t.Errorf("%s names %s: ask limiter.Traits, or add a trait", path, name)
			}
		}
	}
	for path := range allowed {
		if !found[path] {
			t.Errorf("%s names no algorithm: remove it from namesAlgorithms()", path)
		}
	}
}

func TestAlgorithms_AreThoseOfTheAPI(t *testing.T) {
	enum := regexp.MustCompile(`\+kubebuilder:validation:Enum=(FixedWindow.*)`).FindStringSubmatch(readPage(t, "api/v1alpha1/policyapi/ratelimitpolicy_types.go"))
	if enum == nil {
		t.Fatal("there is no enumeration with FixedWindow")
	}
	var names []string
	for _, algorithm := range limiter.Algorithms() {
		names = append(names, string(algorithm))
	}
	if got := strings.Split(enum[1], ";"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(names))) {
		t.Errorf("the API has the algorithms %v, package limiter has %v", got, names)
	}
}

// productFiles returns the paths of Go and Lua files that are part of the programs, with those of the tag sixthalgorithm.
func productFiles(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		path = filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "hack", "test", "bin", "dist", "testdata", "applyconfiguration"}, entry.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".lua", filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil || len(paths) < 100 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	return paths
}

// algorithmsIn returns the algorithms that a file names: as an identifier, or as all of a text, also with the prefix of compact counters.
func algorithmsIn(t *testing.T, path string) (named []string) {
	t.Helper()
	text := readPage(t, path)
	names := []string{"FirstRequestWindow"}
	for _, algorithm := range limiter.Algorithms() {
		names = append(names, string(algorithm))
	}
	if filepath.Ext(path) == ".lua" {
		code := regexp.MustCompile("--.*").ReplaceAllString(text, "")
		for _, name := range names {
			if strings.Contains(code, "'"+name+"'") || strings.Contains(code, "'Compact"+name+"'") {
				named = append(named, name)
			}
		}
		return named
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		var name string
		switch node := node.(type) {
		case *ast.Ident:
			name = node.Name
		case *ast.BasicLit:
			name, _ = strconv.Unquote(node.Value)
			name = strings.TrimPrefix(name, "Compact")
		}
		if slices.Contains(names, name) && !slices.Contains(named, name) {
			named = append(named, name)
		}
		return true
	})
	return named
}

const (
	sixthTag      = "//go:build sixthalgorithm\n"
	algorithmPage = "docs/contributing/add-an-algorithm.md"
)

// TestSixthAlgorithm_TakesOnlyItsFiles proves that an algorithm is a file with its row, and its Lua: it runs the tests of the stores, of leases, of
// outages and of the compiler with an algorithm that only the tag has.
func TestSixthAlgorithm_TakesOnlyItsFiles(t *testing.T) {
	watchSources(t)
	files, err := filepath.Glob(filepath.Join(root, "limiter/redisstore/lua/testdata/sixthalgorithm/*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.ToSlash(strings.TrimPrefix(files[i], filepath.Clean(root)+"/"))
	}
	for _, path := range productFiles(t) {
		if strings.HasPrefix(readPage(t, path), sixthTag) {
			files = append(files, path)
		}
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(readPage(t, algorithmPage), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(files)
	slices.Sort(listed)
	if len(files) > 4 || !slices.Equal(files, listed) {
		t.Errorf("the tag adds %d files, want at most 4:\n%q\n%s lists:\n%q", len(files), files, algorithmPage, listed)
	}
	for _, path := range regexp.MustCompile("`((?:limiter|api|docs)/[^`]+\\.(?:go|lua|md))`").FindAllStringSubmatch(readPage(t, algorithmPage), -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path[1]))); err != nil && !strings.Contains(path[1], "NAME") {
			t.Errorf("%s: %v", algorithmPage, err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags=sixthalgorithm", "-vet=off", "-ldflags=-s",
		"-run=Conforms$|ConformsOnRedis|Definition|Traits|EveryAlgorithm|Learn|ReplicasAdmit|Portions",
		"./limiter", "./limiter/memstore", "./limiter/redisstore", "./limiter/local", "./limiter/lease", "./internal/compile")
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil || bytes.Contains(output, []byte("no tests to run")) {
		t.Errorf("%s: %v\n%s", cmd, cmp.Or(err, errors.New("a package has no test")), output)
	}
}
