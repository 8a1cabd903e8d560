package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

func TestCompleteFlags_CompletesWhatTheUserHasBegun(t *testing.T) {
	for typed, want := range map[string]string{"": "json\ntable\n:4\n", "t": "table\n:4\n", "x": ":4\n"} {
		sub := &cobra.Command{Use: "rules", Run: func(*cobra.Command, []string) {}}
		sub.Flags().String("output", "", "output format")
		CompleteFlags(sub, map[string]Values{"output": Fixed("table", "json", "-a", "$(id)")})
		root := &cobra.Command{Use: "weir"}
		root.AddCommand(sub)
		var out bytes.Buffer
		if status := Run(root, []string{cobra.ShellCompRequestCmd, "rules", "--output", typed}, &out, &bytes.Buffer{}); status != 0 || out.String() != want {
			t.Errorf("%q: status %d, %q, want %q", typed, status, out.String(), want)
		}
	}
}
