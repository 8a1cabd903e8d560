// Program image writes a container image of programs on this machine, without Docker: an archive that docker load, ctr images import and
// similar commands read.
//
//	go run ./hack/image -name NAME:TAG -out FILE [-entrypoint PATH] [-libraries] [SOURCE=PATH…] [PATH@TARGET…]
//
// SOURCE=PATH copies a file of this machine to PATH in the image, where it is executable. PATH@TARGET is a symbolic link to TARGET.
package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/weir-dev/weir/hack/command"
)

// user runs the programs. It has no permissions on files of other users.
const user = "65532:65532"

// spec is an image to write.
type spec struct {
	name       string
	entrypoint string
	files      []file
}

// file is a file of the image, or a symbolic link to target.
type file struct{ path, source, target string }

func main() {
	var s spec
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	flags.StringVar(&s.name, "name", "", "name and tag of the image")
	flags.StringVar(&s.entrypoint, "entrypoint", "", "path of the program to run")
	out := flags.String("out", "", "file to write")
	libraries := flags.Bool("libraries", false, "also copy the shared libraries of the files, to their paths on this machine")
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	command.Main("image", func(ctx context.Context) error {
		if err := s.add(ctx, flags.Args(), *libraries); err != nil {
			return err
		}
		return s.writeFile(*out)
	})
}

// add adds the files of the arguments.
func (s *spec) add(ctx context.Context, arguments []string, libraries bool) error {
	for _, argument := range arguments {
		source, at, isFile := strings.Cut(argument, "=")
		link, target, isLink := strings.Cut(argument, "@")
		switch {
		case isFile && path.IsAbs(at):
			s.files = append(s.files, file{path: at, source: source})
		case isLink && path.IsAbs(link):
			s.files = append(s.files, file{path: link, target: target})
		default:
			return fmt.Errorf("%q is invalid: must be SOURCE=PATH or PATH@TARGET, with an absolute PATH", argument)
		}
	}
	if s.name == "" || len(s.files) == 0 {
		return errors.New("set -name, and name files")
	}
	if libraries {
		return s.addLibraries(ctx)
	}
	return nil
}

// addLibraries adds the shared libraries of the files.
func (s *spec) addLibraries(ctx context.Context) error {
	for _, f := range slices.Clone(s.files) {
		if f.source == "" {
			continue
		}
		listed, err := exec.CommandContext(ctx, "ldd", f.source).Output()
		if err != nil {
			return fmt.Errorf("ldd %s: %w", f.source, err)
		}
		for _, library := range regexp.MustCompile(`(?:^|\s)(/\S+)`).FindAllStringSubmatch(string(listed), -1) {
			if at := library[1]; !slices.ContainsFunc(s.files, func(f file) bool { return f.path == at }) {
				s.files = append(s.files, file{path: at, source: at})
			}
		}
	}
	return nil
}

// writeFile writes the archive to a file.
func (s *spec) writeFile(name string) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return s.write(out)
}

// write writes the archive: the layer, the configuration, and the manifest that names both.
func (s *spec) write(out io.Writer) (err error) {
	// The archive needs the size and the hash of the layer first. The layer can be larger than the memory, so it is a file.
	layer, err := os.CreateTemp("", "weir-image-")
	if err != nil {
		return fmt.Errorf("create the layer: %w", err)
	}
	defer func() { err = errors.Join(err, layer.Close(), os.Remove(layer.Name())) }()
	hash := sha256.New()
	if err := s.writeLayer(io.MultiWriter(layer, hash)); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("read the layer: %w", err)
	}
	config, err := s.config(hex.EncodeToString(hash.Sum(nil)))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{"Config": configName, "RepoTags": []string{s.name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	archive := tar.NewWriter(out)
	for _, part := range []struct {
		name    string
		size    int64
		content io.Reader
	}{
		{configName, int64(len(config)), strings.NewReader(string(config))},
		{"layer.tar", size, layer},
		{"manifest.json", int64(len(manifest)), strings.NewReader(string(manifest))},
	} {
		if err := archive.WriteHeader(&tar.Header{Name: part.name, Size: part.size, Mode: 0o644}); err != nil {
			return fmt.Errorf("write %s: %w", part.name, err)
		}
		if _, err := io.Copy(archive, part.content); err != nil {
			return fmt.Errorf("write %s: %w", part.name, err)
		}
	}
	return archive.Close()
}

// config returns the configuration of the image.
func (s *spec) config(layerHash string) ([]byte, error) {
	run := map[string]any{"User": user}
	if s.entrypoint != "" {
		run["Entrypoint"] = []string{s.entrypoint}
	}
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": run,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerHash}},
	})
}

// writeLayer writes the files and their directories. Everyone can write to /tmp.
func (s *spec) writeLayer(out io.Writer) error {
	layer := tar.NewWriter(out)
	made := map[string]bool{"/": true}
	if err := writeDirectory(layer, "/tmp", 0o1777, made); err != nil {
		return err
	}
	for _, f := range s.files {
		err := writeDirectory(layer, path.Dir(f.path), 0o755, made)
		if err == nil && f.target != "" {
			err = layer.WriteHeader(&tar.Header{Name: relative(f.path), Typeflag: tar.TypeSymlink, Linkname: f.target, Mode: 0o777})
		} else if err == nil {
			err = copyFile(layer, f)
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", f.path, err)
		}
	}
	return layer.Close()
}

func relative(absolute string) string { return strings.TrimPrefix(absolute, "/") }

// writeDirectory writes a directory and its parents, unless they are in made.
func writeDirectory(layer *tar.Writer, at string, mode int64, made map[string]bool) error {
	if made[at] {
		return nil
	}
	made[at] = true
	if err := writeDirectory(layer, path.Dir(at), 0o755, made); err != nil {
		return err
	}
	return layer.WriteHeader(&tar.Header{Name: relative(at) + "/", Typeflag: tar.TypeDir, Mode: mode})
}

func copyFile(layer *tar.Writer, f file) error {
	in, err := os.Open(f.source) // follows a symbolic link
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := layer.WriteHeader(&tar.Header{Name: relative(f.path), Size: info.Size(), Mode: 0o755}); err != nil {
		return err
	}
	_, err = io.Copy(layer, in)
	return err
}
