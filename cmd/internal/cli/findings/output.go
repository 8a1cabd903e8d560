package findings

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weir-dev/weir/cmd/internal/cli"
)

// Output is a format, and the file that it is written to. Without a file it is standard output.
type Output struct{ Format, File string }

// ParseOutputs parses values of --output: FORMAT or FORMAT=FILE. Only one of them can be for standard output, and no file can be one
// of the inputs of the command, see [cli.CheckOutput].
func ParseOutputs(values, formats []string, inputs ...string) (outputs []Output, err error) {
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
		if err := cli.CheckOutput(file, inputs...); err != nil {
			return nil, fmt.Errorf("--output %q is invalid: %w", value, err)
		}
		outputs = append(outputs, Output{format, file})
	}
	return outputs, nil
}

// To writes the file, or standard output without one. A file is complete or unchanged, see [cli.WriteFile].
func (o Output) To(stdout io.Writer, content func(io.Writer) error) error {
	if o.File == "" {
		return content(stdout)
	}
	return cli.WriteFile(o.File, content)
}
