// Package gomodule tests the Go module that programs import, as hack/gomodule writes it.
package gomodule

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "record the API of the module")

const library = "github.com/weir-dev/weir/go"

var module string // the directory of the module, for all tests

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := testAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func testAll(m *testing.M) (code int, err error) {
	directory, err := os.MkdirTemp("", "gomodule")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	module = filepath.Join(directory, "go")
	if out, err := command("../..", "go", "run", "./hack/gomodule", module); err != nil {
		return 1, fmt.Errorf("%w\n%s", err, out)
	}
	return m.Run(), nil
}

func command(directory, name string, args ...string) (out string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func mustGo(t *testing.T, directory string, args ...string) string {
	t.Helper()
	out, err := command(directory, "go", args...)
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// public are the packages that programs can import, with the directories of their modules.
func public() map[string]string {
	return map[string]string{
		library + "/weir": ".", library + "/httplimit": ".", library + "/policyapi": ".", library + "/grpclimit": "grpclimit", library + "/weir/cel": "weir/cel",
	}
}

func TestModule_HasOnlyThePackagesOfTheLibrary(t *testing.T) {
	var got []string
	for _, directory := range []string{".", "grpclimit", "weir/cel"} {
		for path := range strings.FieldsSeq(mustGo(t, filepath.Join(module, directory), "list", "./...")) {
			if !strings.Contains(path, "/internal/") {
				got = append(got, path)
			}
		}
	}
	slices.Sort(got)
	var want []string
	for path := range public() {
		want = append(want, path)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages that programs can import (-want +got):\n%s", diff)
	}
}

// TestAPI_IsAsRecorded fails for each change of what programs can use. A change that breaks programs needs a new major version after the first release.
func TestAPI_IsAsRecorded(t *testing.T) {
	for path, directory := range public() {
		name := strings.ReplaceAll(strings.TrimPrefix(path, library+"/"), "/", "_")
		t.Run(name, func(t *testing.T) {
			got := mustGo(t, filepath.Join(module, directory), "doc", "-all", path)
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the API of %s has changed; if that is meant, go test ./test/gomodule -update (-recorded +now):\n%s", path, diff)
			}
			if strings.Contains(got, "/internal/") {
				t.Errorf("the API of %s names an internal package:\n%s", path, got)
			}
		})
	}
}

// program returns the directory of a program with the module, built as "program".
func program(t *testing.T, source string) (directory string) {
	t.Helper()
	directory = t.TempDir()
	requires := fmt.Sprintf("module example.com/program\n\ngo 1.26.0\n\nreplace (\n\t%s => %s\n\t%[1]s/grpclimit => %[2]s/grpclimit\n\t%[1]s/weir/cel => %[2]s/weir/cel\n)\n", library, module)
	for name, text := range map[string]string{"go.mod": requires, "main.go": source} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustGo(t, directory, "mod", "tidy")
	mustGo(t, directory, "build", "-trimpath", "-ldflags=-s -w", "-o", "program", ".")
	return directory
}

const serve = `package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/weir-dev/weir/go/weir"%s
)

func main() {
	policies, err := weir.Parse([]byte(%q))
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := weir.%s
	if err != nil {
		log.Fatal(err)
	}
	h := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if len(os.Args) > 1 { // so that the program has a server, as those of users
		log.Fatal(http.ListenAndServe(os.Args[1], h))
	}
	var codes []int
	for range 3 {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant-ID", "acme")
		h.ServeHTTP(w, r)
		codes = append(codes, w.Code)
	}
	fmt.Println(codes)
	if err := limiter.Close(); err != nil {
		log.Fatal(err)
	}
}
`

const policy = "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a}\nspec: {axis: Tenant, limit: 2, window: 1h"

const remote = `package main

import (
	"log"
	"net/http"

	"github.com/weir-dev/weir/go/httplimit"
)

func main() {
	remote, err := httplimit.NewRemote("http://weir:8080")
	if err != nil {
		log.Fatal(err)
	}
	gate := httplimit.NewGate(remote, "shop", httplimit.FailClosed())
	log.Fatal(http.ListenAndServe("127.0.0.1:0", httplimit.Middleware(gate)(http.DefaultServeMux)))
}
`

// TestPrograms_HaveTheWeightThatThePageStates builds programs, compares their weight with the table in docs/reference/go.md, and runs them. A
// size may differ by a twentieth: it depends on the version of Go.
func TestPrograms_HaveTheWeightThatThePageStates(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/go.md")
	if err != nil {
		t.Fatal(err)
	}
	expression := policy + `, match: {http: {expression: 'request.method == "GET"'}}}` + "\n"
	for row, c := range map[string]struct{ source, output string }{
		"`weir.NewMemory`":                         {fmt.Sprintf(serve, "", policy+"}\n", "NewMemory(policies)"), "[200 200 429]\n"},
		"`weir.NewMemory` with `weir/cel`":         {fmt.Sprintf(serve, "\n\t_ \""+library+"/weir/cel\"", expression, "NewMemory(policies)"), "[200 200 429]\n"},
		"`weir.NewRedis`":                          {fmt.Sprintf(serve, "", policy+"}\n", `NewRedis("redis://127.0.0.1:1", policies)`), "[200 200 429]\n"},
		"`httplimit.NewRemote`, without `go/weir`": {remote, ""},
	} {
		t.Run(row, func(t *testing.T) {
			numbers := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| (\d+) \| (\d+) \| ([0-9.]+) \|$`).FindSubmatch(page)
			if numbers == nil {
				t.Fatalf("docs/reference/go.md has no row %s", row)
			}
			directory := program(t, c.source)
			graph := strings.Fields(mustGo(t, directory, "list", "-m", "all"))
			all, _ := command(directory, "go", "list", "-m", "all")
			if strings.Contains(all, "k8s.io/api") || strings.Contains(all, "k8s.io/client-go") || strings.Contains(all, "controller-runtime") {
				t.Errorf("the module requires libraries of Kubernetes: %v", graph)
			}
			packages := map[string]bool{}
			for p := range strings.FieldsSeq(mustGo(t, directory, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
				packages[p] = true
			}
			info, err := os.Stat(filepath.Join(directory, "program"))
			if err != nil {
				t.Fatal(err)
			}
			got := [2]int{strings.Count(all, "\n") - 1, len(packages) - 1}
			if want := [2]int{number(t, numbers[1]), number(t, numbers[2])}; got != want {
				t.Errorf("%d modules and %d packages, and the page has %d and %d", got[0], got[1], want[0], want[1])
			}
			size, err := strconv.ParseFloat(string(numbers[3]), 64)
			if err != nil {
				t.Fatal(err)
			}
			if mb := float64(info.Size()) / 1e6; mb > size*1.05 || mb < size*0.95 {
				t.Errorf("%.1f MB, and the page has %.1f", mb, size)
			}
			if c.output == "" {
				return
			}
			run := exec.Command("./program")
			run.Dir = directory
			if out, err := run.Output(); string(out) != c.output || err != nil { // without its log, of which tasks write lines at any time
				t.Errorf("the program prints %q (%v), want %q", out, err, c.output)
			}
		})
	}
}

func TestModule_WithoutCELAnExpressionIsAnError(t *testing.T) {
	directory := program(t, fmt.Sprintf(serve, "", policy+`, match: {http: {expression: 'request.method == "GET"'}}}`, "NewMemory(policies)"))
	out, err := command(directory, "./program")
	if want := `spec.match.http.expression: this program has no CEL: to use expressions, import _ "` + library + `/weir/cel"`; err == nil || !strings.Contains(out, want) {
		t.Errorf("the program prints %q (%v), want %q", out, err, want)
	}
}

func number(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
