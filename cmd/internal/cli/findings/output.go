package findings

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Output is a format, and the file that it is written to. Without a file it is standard output.
type Output struct{ Format, File string }

// ParseOutputs parses values of --output: FORMAT or FORMAT=FILE. Only one of them can be for standard output.
func ParseOutputs(values, formats []string) (outputs []Output, err error) {
	onStdout := ""
	for _, value := range values {
		format, file, hasFile := strings.Cut(value, "=")
		switch {
		case !slices.Contains(formats, format):
			return nil, fmt.Errorf("--output %q is invalid: must be one of %s, optionally with =FILE", value, strings.Join(formats, ", "))
		case hasFile && file == "":
			return nil, fmt.Errorf("--output %q has no name of a file", value)
		case !hasFile && onStdout != "":
			return nil, fmt.Errorf("--output %s and --output %s are both for standard output: name a file for one of them, such as %s=FILE", onStdout, format, format)
		case !hasFile:
			onStdout = format
		}
		outputs = append(outputs, Output{format, file})
	}
	return outputs, nil
}

// To writes the file, or standard output without one. A file is complete or unchanged.
func (o Output) To(stdout io.Writer, content func(io.Writer) error) error {
	if o.File == "" {
		return content(stdout)
	}
	return o.write(content)
}

// write writes the file in one step, so that a file is complete or unchanged.
func (o Output) write(content func(io.Writer) error) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", o.File, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
			err = fmt.Errorf("write %s: %w", o.File, err)
		}
	}()
	err = content(temporary)
	if chmod := temporary.Chmod(0o644); err == nil { //nolint:mnd // readable by other steps
		err = chmod
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), o.File)
}
