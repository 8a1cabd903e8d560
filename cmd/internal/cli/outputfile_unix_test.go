//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// limitFileSize makes writes beyond a size fail until the end of the test, as on a full disk.
func limitFileSize(t *testing.T, bytes uint64) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
}

// text writes a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWriteFile_AFullDiskLeavesNoPart(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "report.html")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	limitFileSize(t, 10_000)
	err := WriteFile(path, text(strings.Repeat("x", 20_000)))
	if err == nil || !strings.HasPrefix(err.Error(), path+" was not written: ") {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "before" {
		t.Errorf("%q, %v", content, err)
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 1 {
		t.Errorf("files %v", entries)
	}
}

func TestWriteFile_WritesToAPipeInPlaceOfReplacingIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		content, _ := os.ReadFile(path)
		read <- string(content)
	}()
	if err := WriteFile(path, text("all")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("the pipe is replaced: %v, %v", info, err)
	}
	if content := <-read; content != "all" {
		t.Errorf("read %q", content)
	}
}

// What reads a pipe leaves it before all is written: no content is lost without an error.
func TestWriteFile_ReportsThatAPipeWasLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if reader, err := os.Open(path); err == nil {
			_ = reader.Close()
		}
	}()
	err := WriteFile(path, text(strings.Repeat("x", 1<<20))) // more than a pipe holds
	if err == nil || err.Error() != path+" was not written: write "+path+": broken pipe" {
		t.Errorf("%v", err)
	}
}

func TestWriteFile_ReplacesWhatALinkPointsTo(t *testing.T) {
	directory := t.TempDir()
	file, link := filepath.Join(directory, "file"), filepath.Join(directory, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, text("all")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is replaced: %v, %v", info, err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "all" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestWriteFile_NamesADirectoryThatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "report.html")
	want := path + " was not written: the directory " + filepath.Dir(path) + " does not exist: create it"
	if err := WriteFile(path, text("all")); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestCheckOutput_KeepsInputs(t *testing.T) {
	directory := t.TempDir()
	in := func(name string) string { return filepath.Join(directory, name) }
	for _, name := range []string{"policies/a.yaml", "policies/old.json", "access.log", "other.html"} {
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(in("shared"), 0o700), os.WriteFile(in("shared/b.yaml"), nil, 0o600), os.Symlink("../shared", in("policies/link"))); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		output string
		inputs []string
		want   string // "" is no error
	}{
		{in("policies/link/b.yaml"), []string{in("policies")}, "is an input of the command"},
		{in("access.log"), []string{in("access.log")}, "is an input of the command"},
		{in("access.log"), []string{in("*.log")}, "is an input of the command"},
		{in("policies/../access.log"), []string{"", "-", in("access.log")}, "is an input of the command"},
		{in("policies/a.yaml"), []string{in("policies")}, "is an input of the command"},
		{in("policies/a.yaml"), []string{directory}, "is an input of the command"},
		{in("policies/a.yaml"), []string{in("policies/a.yaml")}, "is an input of the command"},
		{in("policies/old.json"), []string{in("policies")}, ""},
		{in("policies/new.yaml"), []string{in("policies")}, ""},
		{in("other.html"), []string{in("access.log"), in("policies"), in("missing")}, ""},
		{in("policies"), nil, "it is a directory: name a file"},
		{in("missing/report.html"), nil, "the directory " + in("missing") + " does not exist: create it"},
		{"", []string{in("access.log")}, ""},
		{"-", nil, `"-" is not standard output here: name a file`},
		{os.DevNull, []string{os.DevNull}, ""},
	}
	for _, test := range tests {
		err := CheckOutput(test.output, test.inputs...)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with inputs %v: %v, want %q", test.output, test.inputs, err, test.want)
		}
	}
}

// A command finds out before it works for an hour.
func TestCheckOutput_NamesADirectoryWithoutPermission(t *testing.T) {
	directory := t.TempDir()
	if os.Geteuid() == 0 { // the permissions of files do not apply to root
		directory = "/proc/self"
	} else if err := os.Chmod(directory, 0o555); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "report.html")
	want := "no file can be created in the directory " + directory + ": "
	for name, err := range map[string]error{"CheckOutput": CheckOutput(path), "WriteFile": WriteFile(path, text("x"))} {
		if err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "name a file elsewhere") ||
			strings.Contains(err.Error(), ".weir-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	writable := t.TempDir()
	if err := CheckOutput(filepath.Join(writable, "report.html")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(writable); err != nil || len(entries) > 0 {
		t.Errorf("a check leaves %v, %v", entries, err)
	}
}
