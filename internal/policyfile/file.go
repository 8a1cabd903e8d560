package policyfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// File is the content of a file, and its name in problems.
type File struct {
	Name    string
	Content []byte
}

// Read reads files. A path is a file, a directory, whose *.yaml, *.yml and *.json files are read recursively in sorted order, or "-" for stdin. Each
// file is read once. In directories, Read skips names that begin with a dot, because those belong to editors and version control, and in
// a mounted ConfigMap they are a second copy of every file. It also skips pipes and sockets, because reading them may not end. A path that
// names one is an error, except with stdin for the process's own, such as /dev/stdin or <(kustomize build) of a shell. Files that are too large are an
// error, see [MaxFile] and [MaxFiles].
func Read(stdin io.Reader, paths ...string) ([]File, error) {
	var files []File
	read, size := map[string]bool{}, 0
	for _, path := range paths {
		names := []string{path}
		if path != "-" {
			var err error
			if names, err = expand(filepath.Clean(path)); err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
		}
		for _, name := range names {
			if read[name] {
				continue
			}
			read[name] = true
			content, err := readOne(stdin, name)
			if err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
			if size += len(content); size > MaxFiles {
				return nil, fmt.Errorf("read policies: %s: the files are larger than %d MiB together; read fewer of them", name, MaxFiles>>20)
			}
			files = append(files, File{Name: name, Content: content})
		}
	}
	return files, nil
}

// MaxFile and MaxFiles are the largest sizes of one file and of all files together, in bytes. A policy has about 500 bytes.
const (
	MaxFile  = 16 << 20
	MaxFiles = 64 << 20
)

func readOne(stdin io.Reader, name string) ([]byte, error) {
	reader := stdin
	switch {
	case name != "-":
		file, err := open(name, stdin != nil)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		reader = file
	case stdin == nil:
		return nil, fmt.Errorf("%q: standard input is not available", name)
	}
	content, err := io.ReadAll(io.LimitReader(reader, MaxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > MaxFile:
		return nil, fmt.Errorf("%s: is larger than %d MiB; split it", name, MaxFile>>20)
	}
	return content, nil
}

// open opens a regular file, or also an open file of the process.
func open(name string, withOpenFiles bool) (*os.File, error) {
	if withOpenFiles && (name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/")) {
		return os.Open(name)
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without the flag, it waits until a program writes to a pipe
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file; write the policies to a file", name)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
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
	return extension == ".yaml" || extension == ".yml" || extension == ".json"
}
