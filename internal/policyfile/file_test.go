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

// Each case has the links of a directory "root" with policies, next to a directory "shared". A file has the name that it has in the directory itself.
func TestRead_FollowsLinksToDirectories(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		links map[string]string
		want  []string
	}{
		"next to the directory": {
			files: []string{"root/b.yaml", "shared/x.yaml", "shared/deep/y.yaml"}, links: map[string]string{"root/a": "../shared"},
			want: []string{"root/a/deep/y.yaml", "root/a/x.yaml", "root/b.yaml"},
		},
		"to a hidden directory, as of git-sync": {
			files: []string{"root/.worktrees/1/x.yaml"}, links: map[string]string{"root/current": ".worktrees/1"}, want: []string{"root/current/x.yaml"},
		},
		"to a link":               {files: []string{"shared/x.yaml"}, links: map[string]string{"root/a": "../b", "b": "shared"}, want: []string{"root/a/x.yaml"}},
		"in a linked directory":   {files: []string{"shared/x.yaml", "c/z.yaml"}, links: map[string]string{"root/a": "../shared", "shared/b": "../c"}, want: []string{"root/a/b/z.yaml", "root/a/x.yaml"}},
		"in the directory":        {files: []string{"root/z/x.yaml"}, links: map[string]string{"root/a": "z"}, want: []string{"root/z/x.yaml"}},
		"twice":                   {files: []string{"shared/x.yaml"}, links: map[string]string{"root/a": "../shared", "root/b": "../shared"}, want: []string{"root/a/x.yaml"}},
		"a file twice":            {files: []string{"root/z.yaml"}, links: map[string]string{"root/a.yaml": "z.yaml"}, want: []string{"root/z.yaml"}},
		"a cycle":                 {files: []string{"root/sub/x.yaml"}, links: map[string]string{"root/sub/up": "..", "root/sub/self": "."}, want: []string{"root/sub/x.yaml"}},
		"a cycle outside":         {files: []string{"shared/x.yaml"}, links: map[string]string{"root/a": "../shared", "shared/loop": "../shared"}, want: []string{"root/a/x.yaml"}},
		"a hidden link":           {files: []string{"root/a.yaml", "shared/x.yaml"}, links: map[string]string{"root/.a": "../shared"}, want: []string{"root/a.yaml"}},
		"a broken link to a page": {files: []string{"root/a.yaml"}, links: map[string]string{"root/README.md": "../gone.md"}, want: []string{"root/a.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeTree(t, append(tc.files, "root/.keep")...)
			for link, target := range tc.links {
				if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, readNames(t, dir, filepath.Join(dir, "root"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A check of these directories that passes has not read all policies.
func TestRead_RejectsLinksThatItCannotFollow(t *testing.T) {
	for name, tc := range map[string]struct{ target, want string }{
		"to nothing":            {"../gone", "link is a symbolic link to ../gone, which does not exist: correct or remove the link"},
		"to itself":             {"link", "link cannot be read: too many levels of symbolic links"},
		"to a directory above":  {"..", "which contains the directory that is read: remove the link, or name "},
		"to the whole computer": {"/", "link is a symbolic link to /, which contains the directory that is read: remove the link, or name /"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(writeTree(t, "root/a.yaml"), "root")
			if err := os.Symlink(tc.target, filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			files, err := policyfile.Read(nil, dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), filepath.Join(dir, "link")) {
				t.Errorf("%d files and error %v, want one with %q", len(files), err, tc.want)
			}
		})
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
	want := filepath.Join(dir, "b.yaml") + " is a symbolic link to gone.yaml, which does not exist: correct or remove the link"
	if files, err := policyfile.Read(nil, dir); !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("got %d files and error %v, want %s", len(files), err, want)
	}
}

func TestRead_NamesTheFileThatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"missing.yaml": "/missing.yaml does not exist: check the name, and the directory that the command runs in",
		"*.yaml":       "no file matches " + dir + "/*.yaml: check the directory and the pattern",
	} {
		if _, err := policyfile.Read(nil, filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
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
