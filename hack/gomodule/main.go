// Command gomodule writes the Go module that programs import, github.com/weir-dev/weir/go, to a directory. It has the packages in go/ and, below internal/,
// those that they need, without tests: a program that imports it gets neither the requirements of the operator nor those of the tests. The modules
// grpclimit and weir/cel are nested in it, so that only programs that use them get gRPC or CEL.
//
// Usage: go run ./hack/gomodule DIRECTORY
//
// The directory must not exist or be empty. Run it in the root of the repository.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	repository = "github.com/weir-dev/weir"
	library    = repository + "/go"
)

// module is one of the Go modules, with the packages whose import path begins with one of the prefixes.
type module struct {
	path  string
	roots []string // packages of the repository that programs import
}

func modules() []module {
	return []module{
		{library, []string{repository + "/go/weir", repository + "/go/httplimit", repository + "/api/v1alpha1/policyapi"}},
		{library + "/grpclimit", []string{repository + "/go/grpclimit"}},
		{library + "/weir/cel", []string{repository + "/go/weir/cel"}},
	}
}

// target returns the import path in the module of a package of the repository.
func target(path string) string {
	switch {
	case path == repository+"/api/v1alpha1/policyapi":
		return library + "/policyapi"
	case path == repository+"/go/weir/directory":
		return library + "/internal/directory"
	case path == repository+"/limiter/rules/expr/celexpr":
		return library + "/weir/cel/internal/celexpr"
	case strings.HasPrefix(path, library+"/"):
		return path
	default:
		return library + "/internal/" + strings.TrimPrefix(strings.TrimPrefix(path, repository+"/"), "internal/")
	}
}

// listed is what go list prints of a package.
type listed struct {
	ImportPath     string   `json:"ImportPath"`     //nolint:tagliatelle // the names of the go command
	Dir            string   `json:"Dir"`            //nolint:tagliatelle // as above
	GoFiles        []string `json:"GoFiles"`        //nolint:tagliatelle // as above
	IgnoredGoFiles []string `json:"IgnoredGoFiles"` //nolint:tagliatelle // as above
	EmbedFiles     []string `json:"EmbedFiles"`     //nolint:tagliatelle // as above
	Module         *struct {
		Path    string `json:"Path"`    //nolint:tagliatelle // as above
		Version string `json:"Version"` //nolint:tagliatelle // as above
	} `json:"Module"` //nolint:tagliatelle // as above
}

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: gomodule DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gomodule:", err)
		os.Exit(1)
	}
}

func write(directory string) error {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(directory); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", directory)
	}
	written := map[string]bool{}
	for i, m := range modules() {
		packages, err := list(m.roots)
		if err != nil {
			return err
		}
		requires := map[string]string{}
		for _, p := range packages {
			switch {
			case p.Module == nil: // of the standard library
			case p.Module.Path != repository:
				requires[p.Module.Path] = p.Module.Version
			case !written[p.ImportPath]:
				written[p.ImportPath] = true
				if err := copyPackage(&p, directory); err != nil {
					return err
				}
			}
		}
		if err := writeModule(m, directory, requires, i > 0); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return copyFile("LICENSE", filepath.Join(directory, "LICENSE"))
}

// list returns packages and all that they import.
func list(roots []string) (packages []listed, err error) {
	out, err := run(".", "go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles,EmbedFiles,Module"}, roots...)...)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, err
		}
		packages = append(packages, p)
	}
}

// copyPackage writes the files of a package, with the import paths of the module.
func copyPackage(p *listed, directory string) error {
	to := filepath.Join(directory, filepath.FromSlash(strings.TrimPrefix(target(p.ImportPath), library)))
	for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles, p.EmbedFiles) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		from, to := filepath.Join(p.Dir, name), filepath.Join(to, name)
		var err error
		if filepath.Ext(name) == ".go" {
			err = copyGo(from, to)
		} else {
			err = copyFile(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyGo writes a Go file with its import paths changed.
func copyGo(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, from, text, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range slices.Backward(file.Imports) {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if strings.HasPrefix(path, repository+"/") {
			begin, end := positions.Position(spec.Path.Pos()).Offset, positions.Position(spec.Path.End()).Offset
			text = slices.Concat(text[:begin], []byte(strconv.Quote(target(path))), text[end:])
		}
	}
	return writeFile(to, text)
}

// writeModule writes the go.mod of a module: the requirements of its packages, in the versions of the repository.
func writeModule(m module, directory string, requires map[string]string, nested bool) error {
	at := filepath.Join(directory, filepath.FromSlash(strings.TrimPrefix(m.path, library)))
	var text strings.Builder
	fmt.Fprintf(&text, "module %s\n\ngo %s\n\n", m.path, languageVersion)
	text.WriteString("require (\n")
	for _, path := range slices.Sorted(maps.Keys(requires)) {
		if least, known := leastVersions()[path]; known {
			fmt.Fprintf(&text, "\t%s %s\n", path, least)
		}
	}
	text.WriteString(")\n")
	if nested {
		up, err := filepath.Rel(at, directory)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "require %s v0.0.0\nreplace %s => %s\n", library, library, filepath.ToSlash(up))
	}
	if err := writeFile(filepath.Join(at, "go.mod"), []byte(text.String())); err != nil {
		return err
	}
	if _, err := run(at, "go", "mod", "tidy"); err != nil {
		return err
	}
	_, err := run(at, "go", "build", "./...")
	return err
}

// leastVersions returns the requirements: the oldest versions with which the packages compile and their tests pass, so that the library does not
// move those of the programs that import it. With an older google.golang.org/protobuf, a program is a quarter larger: the linker cannot leave out what it does
// not call.
func leastVersions() map[string]string {
	return map[string]string{
		"github.com/fsnotify/fsnotify":              "v1.7.0",
		"github.com/gaissmai/bart":                  "v0.30.0",
		"github.com/google/cel-go":                  "v0.29.2",
		"github.com/maypok86/otter/v2":              "v2.4.0",
		"github.com/pires/go-proxyproto":            "v0.8.0",
		"github.com/prometheus/client_golang":       "v1.20.0",
		"github.com/redis/go-redis/v9":              "v9.23.0",
		"github.com/sony/gobreaker/v2":              "v2.4.0",
		"go.opentelemetry.io/otel":                  "v1.30.0",
		"go.opentelemetry.io/otel/trace":            "v1.30.0",
		"go.yaml.in/yaml/v3":                        "v3.0.4",
		"golang.org/x/sync":                         "v0.10.0",
		"golang.org/x/time":                         "v0.8.0",
		"google.golang.org/genproto/googleapis/rpc": "v0.0.0-20250707201910-8d1bb00bc6a7",
		"google.golang.org/grpc":                    "v1.75.0",
		"google.golang.org/protobuf":                "v1.36.12",
		"sigs.k8s.io/json":                          "v0.0.0-20241014173422-cfa47c3a1cc8",
		"sigs.k8s.io/yaml":                          "v1.6.0",
	}
}

// languageVersion is the oldest Go that compiles the packages.
const languageVersion = "1.26.0"

func run(directory, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &problems)
	}
	return out.Bytes(), nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, text)
}

func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // where the caller asks for it
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // source code that anybody may read, where the caller asks for it
}
