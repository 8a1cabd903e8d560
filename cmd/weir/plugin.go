package main

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

// Names under which kubectl finds a plugin and its completion on the PATH. Both can be links to weir.
const (
	pluginName     = "kubectl-weir"
	completionName = "kubectl_complete-weir"
)

// pluginArguments returns the arguments of a command line. kubectl runs the completion with the words that the user has typed.
func pluginArguments(line []string) []string {
	if filepath.Base(line[0]) == completionName {
		return slices.Concat([]string{cobra.ShellCompRequestCmd}, line[1:])
	}
	return arguments(line)
}

// asPlugin makes the help and the errors of root name the command as the user has typed it.
func asPlugin(root *cobra.Command, program string) {
	if name := filepath.Base(program); name == pluginName || name == completionName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weir"}
	}
}
