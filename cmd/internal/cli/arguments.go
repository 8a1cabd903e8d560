package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArguments rejects arguments of a command that accepts only flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return UsageError(fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath()))
}

// NoUnknownCommand rejects an unknown command and suggests commands with similar names.
func NoUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return UsageError(fmt.Errorf("unknown command %q; %s", args[0], hint))
}

// flagError is the usage error for an error of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	return UsageError(fmt.Errorf("%w; see %s --help", describeFlagError(err), cmd.CommandPath()))
}

// describeFlagError rewords errors of the flag parser for which Weir has a better text.
func describeFlagError(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		return fmt.Errorf("unknown flag --%s", unknown.GetSpecifiedName())
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("--%s %q is invalid: must be a duration with a unit, for example 5s", invalid.GetFlag().Name, invalid.GetValue())
	}
	return err
}
