package policyfile_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
)

// zeros is an endless file.
type zeros struct{ read int }

func (z *zeros) Read(p []byte) (int, error) {
	z.read += len(p)
	return len(p), nil
}

func TestRead_BoundsTheSizeOfFiles(t *testing.T) {
	var endless zeros
	if _, err := policyfile.Read(&endless, "-"); err == nil || !strings.Contains(err.Error(), "- is larger than 16 MiB") || endless.read > 2*policyfile.MaxFile {
		t.Errorf("%v after %d bytes", err, endless.read)
	}
	dir := t.TempDir()
	for i := range 5 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), make([]byte, policyfile.MaxFile), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := policyfile.Read(nil, dir); err == nil || !strings.Contains(err.Error(), "4.yaml: the files are larger than 64 MiB together") {
		t.Error(err)
	}
}

// A pipe or a device can block forever, or end at one reading and not at the next.
func TestRead_RejectsWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, loop, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(loop, loop), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	const irregular = "is not a regular file"
	for path, want := range map[string]string{pipe: irregular, link: irregular, "/dev/zero": irregular, "/dev/tty": "/dev/tty", loop: "too many levels of symbolic links"} {
		for _, stdin := range []io.Reader{nil, strings.NewReader("")} {
			done := make(chan error, 1)
			go func() {
				_, err := policyfile.Read(stdin, path)
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", path, err, want)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("%s: still waits", path)
			}
		}
	}
}

// A shell passes <(kustomize build) as /dev/fd/63. A server reads files again, so it cannot use one.
func TestRead_ReadsAnOpenFileOfTheProcess(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	path := fmt.Sprintf("/dev/fd/%d", out.Fd())
	if _, err := policyfile.Read(nil, path); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
		t.Errorf("without standard input: %v", err)
	}
	_, err = in.WriteString("a: 1\n")
	if err = errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	files, err := policyfile.Read(strings.NewReader(""), path)
	if err != nil || len(files) != 1 || string(files[0].Content) != "a: 1\n" {
		t.Errorf("%v, %v", files, err)
	}
}

const head = "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: {axis: IP, limit: 1, window: 1m}\n"

// TestCompile_TakesLinearTime compiles hostile files of a size, and of four times the size. Twice the work of four times the size is left for noise.
func TestCompile_TakesLinearTime(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		n    int
		file func(n int) string
	}{
		"keys in one mapping":             {10_000, func(n int) string { return head + "extra:\n" + numbered(n, "  k%d: 1\n") }},
		"unknown fields":                  {4_000, func(n int) string { return head + numbered(n, "k%d: 1\n") }},
		"unknown fields of another field": {4_000, func(n int) string { return strings.Replace(head, "spec: {", "spec: {"+numbered(n, "k%d: 1, "), 1) }},
		"equal keys":                      {10_000, func(n int) string { return head + numbered(n, "extra: 1 #%d\n") }},
		"empty documents":                 {100_000, func(n int) string { return strings.Repeat("---\n", n) }},
		"documents with comments":         {100_000, func(n int) string { return strings.Repeat("# a\n---\n", n) }},
		"small documents":                 {4_000, func(n int) string { return strings.Repeat("---\na: 1\n", n) }},
		"invalid documents":               {4_000, func(n int) string { return strings.Repeat("---\na: [\n", n) }},
		"nesting":                         {2_000, func(n int) string { return head + "extra: " + strings.Repeat("[", n) + strings.Repeat("]", n) + "\n" }},
		"nested documents": {20, func(n int) string {
			return strings.Repeat("---\n"+strings.Repeat("[", 900)+strings.Repeat("]", 900)+"\n", n)
		}},
		"labels": {4_000, func(n int) string {
			return strings.Replace(head, "name: a", "name: a, labels: {"+numbered(n, "k%d: v, ")+"}", 1)
		}},
		"items":       {2_000, func(n int) string { return "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- 1\n", n) }},
		"a long line": {500_000, func(n int) string { return head + "extra: " + strings.Repeat("x", n) + "\n" }},
		"policies for descriptors": {400, func(n int) string {
			return numbered(n, "---\n"+strings.NewReplacer("name: a", "name: a%[1]d", "window: 1m", "window: 1m, match: {descriptors: [{key: k, value: v%[1]d}]}").Replace(head))
		}},
		"policies": {150, func(n int) string { return numbered(n, "---\n"+strings.Replace(head, "name: a", "name: a%d", 1)) }},
	} {
		t.Run(name, func(t *testing.T) {
			measure := func(n int) time.Duration {
				content := []byte(c.file(n))
				start := time.Now()
				result := loader.Compile([]policyfile.File{{Name: "a.yaml", Content: content}})
				result.Warnings()
				return time.Since(start)
			}
			measure(c.n)
			best := 1e9
			for range 4 { // other tests use the processor
				small, large := measure(c.n), measure(4*c.n)
				best = min(best, float64(large)/float64(max(small, time.Millisecond)))
				if best < 8 {
					return
				}
			}
			t.Errorf("four times the size takes %.1f times as long", best)
		})
	}
}

func TestCompile_RejectsWhatBecomesTooLarge(t *testing.T) {
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	var bomb strings.Builder
	bomb.WriteString("a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 8), c-1)
	}
	for name, c := range map[string]struct{ file, want string }{
		"aliases of aliases":       {bomb.String(), "aliases make the document more than 10 times larger"},
		"aliases of a long text":   {"a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]\n", "aliases make the document more than 10 times larger"},
		"an alias in its anchor":   {"a: &a\n  b: *a\n", "an alias must not be inside of what it refers to"},
		"a merge of itself":        {"spec: &a\n  <<: *a\n", "an alias must not be inside of what it refers to"},
		"very deep":                {strings.Repeat("[", 100_000), "exceeded max depth"},
		"many documents":           {strings.Repeat("---\na: 1\n", 100_003), "there are more than 100000 documents"},
		"many values":              {"[" + strings.Repeat("a,", 2_000_000) + "]", "the files have more than about 2000000 values"},
		"a byte that is no UTF-8":  {"a: \xff\n", "invalid"},
		"a zero byte":              {"a: \x00\n", "control characters are not allowed"},
		"a number that is too big": {strings.Replace(head, "limit: 1", "limit: 1e999999999", 1), "spec.limit"},
		"a number of many digits":  {strings.Replace(head, "limit: 1", "limit: "+strings.Repeat("9", 100_000), 1), "spec.limit"},
	} {
		t.Run(name, func(t *testing.T) {
			result := loader.Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(c.file)}})
			if len(result.Problems) == 0 || len(result.Rules.Rules) > 0 {
				t.Fatalf("%d problems, %d rules", len(result.Problems), len(result.Rules.Rules))
			}
			found := false
			for _, p := range result.Problems {
				found = found || strings.Contains(p.Field+": "+p.Message, c.want)
			}
			if strings.HasPrefix(name, "many") && len(result.Problems) > 1 && strings.Contains(result.Problems[len(result.Problems)-2].Message, c.want) {
				t.Error("the bound is reported twice")
			}
			if !found {
				t.Errorf("%.300s, want %q", result.Problems[0], c.want)
			}
		})
	}
}
