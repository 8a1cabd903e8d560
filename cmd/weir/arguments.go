package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments refuses what stands behind a command that takes flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("%s takes no argument, and %q is one; see %s --help", cmd.Name(), args[0], cmd.CommandPath()))
}

// noUnknownCommand refuses a word that is no command of cmd, and names those that it may have been meant for.
func noUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usageError(fmt.Errorf("there is no command %q; %s", args[0], hint))
}
