package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// entries returns the headers and contents of an archive, by name.
func entries(t *testing.T, archive []byte) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, contents := map[string]*tar.Header{}, map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
		if contents[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWrite_IsAnArchiveThatDockerLoads(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := spec{name: "example.com/a:1", entrypoint: "/usr/local/bin/a"}
	if err := s.add(t.Context(), []string{program + "=/usr/local/bin/a", "/bin/b@/usr/local/bin/a"}, false); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.write(&out); err != nil {
		t.Fatal(err)
	}
	_, files := entries(t, out.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"example.com/a:1"}) {
		t.Fatalf("manifest %s, %v", files["manifest.json"], err)
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	sum := sha256.Sum256(layer)
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/a"}) ||
		!slices.Equal(config.Rootfs.DiffIDs, []string{"sha256:" + hex.EncodeToString(sum[:])}) {
		t.Errorf("configuration %s", files[manifest[0].Config])
	}
	headers, contents := entries(t, layer)
	if h := headers["usr/local/bin/a"]; h == nil || h.Mode != 0o755 || string(contents[h.Name]) != "a program" {
		t.Errorf("program: %+v", h)
	}
	if h := headers["bin/b"]; h == nil || h.Typeflag != tar.TypeSymlink || h.Linkname != "/usr/local/bin/a" {
		t.Errorf("link: %+v", h)
	}
	for name, mode := range map[string]int64{"tmp/": 0o1777, "usr/": 0o755, "usr/local/": 0o755, "usr/local/bin/": 0o755, "bin/": 0o755} {
		if h := headers[name]; h == nil || h.Typeflag != tar.TypeDir || h.Mode != mode {
			t.Errorf("directory %s: %+v", name, h)
		}
	}
}

func TestAdd_LibrariesAreThoseOfTheProgram(t *testing.T) {
	s := spec{name: "a:1"}
	if err := s.add(t.Context(), []string{"/bin/cat=/cat"}, true); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.files, func(f file) bool { return strings.Contains(f.path, "libc.so") && f.path == f.source }) {
		t.Errorf("no libc in %v", s.files)
	}
}

func TestAdd_RejectsOtherArguments(t *testing.T) {
	for _, arguments := range [][]string{nil, {"program"}, {"program=bin/a"}, {"bin/a@/b"}} {
		if err := (&spec{name: "a:1"}).add(t.Context(), arguments, false); err == nil {
			t.Errorf("%q are accepted", arguments)
		}
	}
	if err := (&spec{}).add(t.Context(), []string{"a=/a"}, false); err == nil {
		t.Error("an image without a name is accepted")
	}
}
