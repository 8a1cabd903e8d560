package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds the time that a shell waits for values. Without an answer, it completes nothing.
const completionTimeout = 3 * time.Second

// Values returns the values that a shell completes, for flags that were parsed before.
type Values func(ctx context.Context) []string

// Completion returns a function that completes the values that begin with what the user has typed. There are no values after an error: a
// message would disturb the command line.
func Completion(values Values) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if err := applyEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		found := values(ctx)
		slices.Sort(found)
		found = slices.DeleteFunc(slices.Compact(found), func(v string) bool {
			return !strings.HasPrefix(v, typed) || !isPlain(v)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// isPlain reports whether a shell takes a value as it is. Shells insert the common beginning of several completions without quotes, and execute
// $(…) and other syntax in it. Clients choose identifiers, so all other values are left out.
func isPlain(value string) bool {
	const marks = "._:/@=+,-"
	return !strings.HasPrefix(value, "-") && !strings.ContainsFunc(value, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	})
}

// Fixed returns values that are always the same.
func Fixed(list ...string) Values {
	return func(context.Context) []string { return slices.Clone(list) }
}

// CompleteFlags registers completions of flags by name. The flags must exist.
func CompleteFlags(cmd *cobra.Command, flags map[string]Values) {
	for name, values := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, Completion(values)); err != nil {
			panic("weir: complete a flag: " + err.Error())
		}
	}
}

// OnlyFirst completes the first argument. The command accepts no other.
func OnlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}
