package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments rejects arguments of a command that accepts only flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("%s: unexpected argument %q; see %s --help", cmd.Name(), args[0], cmd.CommandPath()))
}

// noUnknownCommand rejects an unknown command and suggests commands with similar names.
func noUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usageError(fmt.Errorf("unknown command %q; %s", args[0], hint))
}
