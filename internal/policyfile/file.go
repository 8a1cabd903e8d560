package policyfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the content of a file, and its name in problems.
type File struct {
	Name    string
	Content []byte
}

// Read reads files. A path is a file, a directory, whose *.yaml and *.yml files are read recursively in sorted order, or "-" for stdin. Each
// file is read once. In directories, Read skips names that begin with a dot, because those belong to editors and version control, and in
// a mounted ConfigMap they are a second copy of every file. It also skips pipes and sockets, because reading them may not end.
func Read(stdin io.Reader, paths ...string) ([]File, error) {
	var files []File
	for _, path := range paths {
		names := []string{path}
		if path != "-" {
			var err error
			if names, err = expand(filepath.Clean(path)); err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
		}
		for _, name := range names {
			if slices.ContainsFunc(files, func(f File) bool { return f.Name == name }) {
				continue
			}
			content, err := readOne(stdin, name)
			if err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
			files = append(files, File{Name: name, Content: content})
		}
	}
	return files, nil
}

func readOne(stdin io.Reader, name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	if stdin == nil {
		return nil, fmt.Errorf("%q: standard input is not available", name)
	}
	return io.ReadAll(stdin)
}

// expand returns the policy files of a directory in lexical order, or a file's own name.
func expand(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	// The trailing separator makes WalkDir enter a directory that is reached through a symbolic link.
	err = filepath.WalkDir(path+string(filepath.Separator), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if isHidden(name, path) {
				return filepath.SkipDir
			}
		case !isHidden(name, path) && isPolicyFile(name):
			return keepRegular(&names, filepath.Clean(name))
		}
		return nil
	})
	return names, err
}

// keepRegular appends the name of a regular file. A broken symbolic link is an error, because a policy is missing.
func keepRegular(names *[]string, name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		*names = append(*names, name)
	}
	return nil
}

// isHidden reports whether a name below root is hidden. The root itself is never hidden.
func isHidden(name, root string) bool {
	return filepath.Clean(name) != root && strings.HasPrefix(filepath.Base(name), ".")
}

func isPolicyFile(name string) bool {
	extension := filepath.Ext(name)
	return extension == ".yaml" || extension == ".yml"
}
