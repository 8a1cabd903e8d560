package policyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// finder finds files, each of them once, whatever number of names and symbolic links lead to it.
type finder struct {
	found map[string]bool // files and directories, by absolute names without symbolic links
	root  string          // the directory that is searched, absolute and without symbolic links
	names []string        // of its files
	links []string        // symbolic links to follow

	extensions []string // of the files that are read in directories
}

func (f *finder) isWanted(name string) bool { return slices.Contains(f.extensions, filepath.Ext(name)) }

// find returns the file, or the policy files of the directory and its subdirectories in lexical order. It follows symbolic links: to directories, too,
// as mounted volumes and repositories of several teams have. It skips the files that an earlier find has found.
func (f *finder) find(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, ReadError(path, err)
	}
	target, err := resolve(path)
	switch {
	case err == nil:
	case info.IsDir():
		return nil, ReadError(path, err)
	default:
		target = path // an open file of the process, such as /dev/stdin, can have no name
	}
	f.root, f.names, f.links = target, nil, nil
	if !info.IsDir() {
		f.add(path, target)
		return f.names, nil
	}
	if err := f.walk(path, target); err != nil {
		return nil, err
	}
	// Links come last: a file that is in the directory and also behind a link keeps its own name.
	for len(f.links) > 0 {
		name := f.links[0]
		f.links = f.links[1:]
		if err := f.follow(name); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.names, func(a, b string) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return f.names, nil
}

// sortKey orders the files of a directory before the files whose names begin with its name.
func sortKey(name string) string { return strings.ReplaceAll(name, string(filepath.Separator), "\x00") }

// resolve returns the absolute name without symbolic links.
func resolve(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(target)
}

// add adds a file, if no name of it was found before.
func (f *finder) add(name, target string) {
	if !f.found[target] {
		f.found[target] = true
		f.names = append(f.names, name)
	}
}

// walk adds the files of a directory, and collects its links. target is its name without links.
func (f *finder) walk(name, target string) error {
	if f.found[target] {
		return nil
	}
	f.found[target] = true
	entries, err := os.ReadDir(name)
	if err != nil {
		return ReadError(name, err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		child, childTarget := filepath.Join(name, entry.Name()), filepath.Join(target, entry.Name())
		switch {
		case entry.IsDir():
			if err := f.walk(child, childTarget); err != nil {
				return err
			}
		case entry.Type()&fs.ModeSymlink != 0:
			f.links = append(f.links, child)
		case entry.Type().IsRegular() && f.isWanted(child):
			f.add(child, childTarget)
		}
	}
	return nil
}

// follow adds what a symbolic link in a directory leads to. A link that leads to no file is an error if it can be one to policies, because they are missing.
func (f *finder) follow(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		if extension := filepath.Ext(name); extension != "" && !f.isWanted(name) {
			return nil
		}
		return ReadError(name, err)
	}
	if !info.IsDir() && (!info.Mode().IsRegular() || !f.isWanted(name)) {
		return nil
	}
	target, err := resolve(name)
	switch {
	case err != nil:
		return ReadError(name, err)
	case !info.IsDir():
		f.add(name, target)
		return nil
	case f.root != target && strings.HasPrefix(f.root, strings.TrimSuffix(target, string(filepath.Separator))+string(filepath.Separator)):
		return fmt.Errorf("%s is a symbolic link to %s, which contains the directory that is read: remove the link, or name %s", name, target, target)
	}
	return f.walk(name, target)
}

// ReadError describes why a file or a directory cannot be read, and what to do.
func ReadError(name string, err error) error {
	cause := err
	if inPath, is := errors.AsType[*fs.PathError](err); is {
		cause = inPath.Err
	}
	switch target, notLink := os.Readlink(name); {
	case errors.Is(err, fs.ErrNotExist) && notLink == nil:
		return unreadable{fmt.Sprintf("%s is a symbolic link to %s, which does not exist: correct or remove the link", name, target), err}
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(name, "*?["):
		return unreadable{fmt.Sprintf("no file matches %s: check the directory and the pattern", name), err}
	case errors.Is(err, fs.ErrNotExist):
		return unreadable{name + " does not exist: check the name, and the directory that the command runs in", err}
	case errors.Is(err, fs.ErrPermission):
		return unreadable{name + " cannot be read: permission denied: give this user the permission to read it", err}
	default:
		return unreadable{fmt.Sprintf("%s cannot be read: %v", name, cause), err}
	}
}

// unreadable is an error with a message of its own.
type unreadable struct {
	message string
	cause   error
}

func (u unreadable) Error() string { return u.message }
func (u unreadable) Unwrap() error { return u.cause }
