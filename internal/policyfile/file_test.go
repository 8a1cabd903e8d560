package policyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/policyfile"
)

func TestRead_ReadsPolicyFilesOfDirectoriesInOrder(t *testing.T) {
	dir := writeTree(t, "b.yaml", "a.yml", "c.json", "README.md", "team/z.yaml", "team/deep/y.yml", ".git/x.yaml", ".hidden.yaml")
	got := readNames(t, dir, dir)
	want := []string{"a.yml", "b.yaml", "c.json", "team/deep/y.yml", "team/z.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRead_ReadsEachNamedFileOnce(t *testing.T) {
	dir := writeTree(t, "a.yaml", "b.yaml", "c.json", ".hidden.yaml")
	got := readNames(t, dir, filepath.Join(dir, "c.json"), filepath.Join(dir, ".hidden.yaml"), filepath.Join(dir, "a.yaml"), dir, dir+"/./b.yaml")
	want := []string{"c.json", ".hidden.yaml", "a.yaml", "b.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRead_ReadsEachFileOfAMountedConfigMapOnce(t *testing.T) {
	dir := writeTree(t, "..2026_01_01/a.yaml")
	for link, target := range map[string]string{"..data": "..2026_01_01", "a.yaml": "..data/a.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a.yaml"}, readNames(t, dir, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestRead_FollowsALinkToANamedDirectory(t *testing.T) {
	dir := writeTree(t, "real/a.yaml")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"link/a.yaml"}, readNames(t, dir, link)); diff != "" {
		t.Error(diff)
	}
}

func TestRead_SkipsPipes(t *testing.T) {
	dir := writeTree(t, "a.yaml")
	if err := syscall.Mkfifo(filepath.Join(dir, "b.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.yaml"}, readNames(t, dir, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestRead_RejectsABrokenLink(t *testing.T) {
	dir := writeTree(t, "a.yaml")
	if err := os.Symlink("gone.yaml", filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if files, err := policyfile.Read(nil, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %d files and error %v, want a missing file", len(files), err)
	}
}

func TestRead_NamesTheFileThatItCannotRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := policyfile.Read(nil, missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want one that names %s", err, missing)
	}
	if _, err := policyfile.Read(nil, "-"); err == nil {
		t.Error("no error for a missing standard input")
	}
}

func TestRead_ReadsStandardInputOnce(t *testing.T) {
	files, err := policyfile.Read(strings.NewReader("text"), "-", "-")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]policyfile.File{{Name: "-", Content: []byte("text")}}, files); diff != "" {
		t.Error(diff)
	}
}

func writeTree(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readNames returns the names of the files read, relative to dir.
func readNames(t *testing.T, dir string, paths ...string) (names []string) {
	t.Helper()
	files, err := policyfile.Read(nil, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, err := filepath.Rel(dir, file.Name)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}
