package policyfile

import (
	"errors"
	"fmt"
	"io"
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
// file is read once, also if several symbolic links lead to it. In directories, Read follows links to directories. It skips names that begin with a dot,
// because those belong to editors and version control, and in a mounted ConfigMap they are a second copy of every file. It also skips pipes and sockets,
// because reading them may not end. A path that names one is an error, except with stdin for the process's own, such as /dev/stdin or
// <(kustomize build) of a shell. Files that are too large are an error, see [MaxFile] and [MaxFiles].
func Read(stdin io.Reader, paths ...string) ([]File, error) { return ReadAlso(nil, stdin, paths...) }

// ReadAlso is [Read], and also reads files with other extensions in directories, such as ".toml".
func ReadAlso(extensions []string, stdin io.Reader, paths ...string) ([]File, error) {
	var files []File
	found, size, hasStdin := finder{found: map[string]bool{}, extensions: append([]string{".yaml", ".yml", ".json"}, extensions...)}, 0, false
	for _, path := range paths {
		var names []string
		switch {
		case path != "-":
			var err error
			if names, err = found.find(filepath.Clean(path)); err != nil {
				return nil, err
			}
		case !hasStdin:
			names, hasStdin = []string{path}, true
		}
		for _, name := range names {
			content, err := readOne(stdin, name)
			if err != nil {
				return nil, err
			}
			if size += len(content); size > MaxFiles {
				return nil, fmt.Errorf("%s: the files are larger than %d MiB together; read fewer of them", name, MaxFiles>>20)
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
		return nil, errors.New(`"-": standard input is not available here; name a file`)
	}
	content, err := io.ReadAll(io.LimitReader(reader, MaxFile+1))
	switch {
	case err != nil:
		return nil, ReadError(name, err)
	case len(content) > MaxFile:
		return nil, fmt.Errorf("%s is larger than %d MiB; split it", name, MaxFile>>20)
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
		return nil, ReadError(name, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file; write the policies to a file", name)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
