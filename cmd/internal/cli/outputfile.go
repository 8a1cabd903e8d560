package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// WriteFile writes a file that the command line names. A file that exists is replaced only by complete content, and keeps its place behind a symbolic
// link. A pipe or a device is written to. The error names the file.
func WriteFile(path string, content func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s was not written: %w", path, err)
		}
	}()
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a directory: name a file")
	case err == nil && !info.Mode().IsRegular(): // to replace it would remove it: as root, also /dev/full or /dev/stdout
		file, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(content(file), file.Close())
	case err == nil:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return replaceFile(path, content)
}

// replaceFile writes a file in one step, so that it is complete or unchanged.
func replaceFile(path string, content func(io.Writer) error) error {
	directory := filepath.Dir(path)
	if _, err := os.Stat(directory); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s does not exist: create it", directory)
	}
	file, err := createIn(directory)
	if err != nil {
		return err
	}
	err = errors.Join(content(file), file.Chmod(0o644), file.Sync()) // readable by other steps of a pipeline
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// createIn creates a temporary file in a directory. The error has the directory, and not the name of the file.
func createIn(directory string) (*os.File, error) {
	file, err := os.CreateTemp(directory, ".weir-*")
	if inPath, is := errors.AsType[*fs.PathError](err); is {
		return nil, fmt.Errorf("no file can be created in the directory %s: %w: change its permissions, or name a file elsewhere", directory, inPath.Err)
	}
	return file, err
}

// CheckOutput returns an error if a file to write cannot be written, or is one of the inputs of the command: files, patterns, and directories with YAML
// files. A command checks its outputs before it begins to work. "" is no file, "-" no input, and an error as an output.
func CheckOutput(path string, inputs ...string) error {
	switch path {
	case "":
		return nil
	case "-":
		return errors.New(`"-" is not standard output here: name a file`)
	}
	if directory := filepath.Dir(path); !isDirectory(directory) {
		return fmt.Errorf("%s cannot be written: the directory %s does not exist: create it", path, directory)
	}
	if isDirectory(path) {
		return fmt.Errorf("%s cannot be written: it is a directory: name a file", path)
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil // a device
	}
	place := path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		place = target // see WriteFile
	}
	probe, createErr := createIn(filepath.Dir(place))
	if createErr != nil {
		return fmt.Errorf("%s cannot be written: %w", path, createErr)
	}
	_, _ = probe.Close(), os.Remove(probe.Name())
	if err != nil {
		return nil //nolint:nilerr // a new file
	}
	for _, input := range inputs {
		if isInput(path, info, input) {
			return fmt.Errorf("%s is an input of the command (%s), and writing would replace it: name another file", path, input)
		}
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isInput reports whether a file is an input. Of a directory, only YAML files are: reports in JSON are often written next to what they are about.
func isInput(path string, info fs.FileInfo, input string) bool {
	if input == "" || input == "-" {
		return false
	}
	if isDirectory(input) {
		below, err := within(input, path)
		return err == nil && below && slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(path)))
	}
	matches, err := filepath.Glob(input)
	if err != nil || len(matches) == 0 {
		matches = []string{input}
	}
	return slices.ContainsFunc(matches, func(match string) bool {
		other, err := os.Stat(match)
		return err == nil && os.SameFile(info, other)
	})
}

// within reports whether a file is below a directory, also through a symbolic link in it. Both exist.
func within(directory, path string) (bool, error) {
	if relative, err := filepath.Rel(directory, path); err == nil && filepath.IsLocal(relative) {
		return true, nil
	}
	absolute := func(path string) (string, error) {
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", err
		}
		return filepath.Abs(path)
	}
	directory, err := absolute(directory)
	if err != nil {
		return false, err
	}
	if path, err = absolute(path); err != nil {
		return false, err
	}
	relative, err := filepath.Rel(directory, path)
	return err == nil && filepath.IsLocal(relative), err
}
