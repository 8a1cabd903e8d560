package ask

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
)

// AddOutput adds the flag --output of a command that prints one object.
func AddOutput(cmd *cobra.Command, output *string) { addFormats(cmd, output, explain.Formats()) }

// addListOutput adds the flag --output of a command that prints a list.
func addListOutput(cmd *cobra.Command, output *string) {
	addFormats(cmd, output, explain.ListFormats())
}

func addFormats(cmd *cobra.Command, output *string, formats []string) {
	cmd.Flags().StringVarP(output, "output", "o", explain.Table, "output format: "+strings.Join(formats, ", "))
	cli.CompleteFlags(cmd, map[string]cli.Values{"output": cli.Fixed(formats...)})
}

// ValidateOutput validates the flag of [AddOutput].
func ValidateOutput(output string) error { return validateFormat(output, explain.Formats()) }

func validateListOutput(output string) error { return validateFormat(output, explain.ListFormats()) }

func validateFormat(output string, formats []string) error {
	if !slices.Contains(formats, output) {
		return cli.UsageError(fmt.Errorf("--output %q is invalid: must be one of %s", output, strings.Join(formats, ", ")))
	}
	return nil
}
