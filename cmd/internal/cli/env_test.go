package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestApplyEnvironment_SetsFlags(t *testing.T) {
	tests := map[string]struct {
		args        []string
		environment map[string]string
		want        time.Duration
		wantErr     string
	}{
		"neither flag nor variable": {want: time.Second},
		"the variable":              {environment: map[string]string{"WEIR_REDIS_TIMEOUT": "2s"}, want: 2 * time.Second},
		"the flag takes precedence": {
			args: []string{"--redis-timeout=3s"}, environment: map[string]string{"WEIR_REDIS_TIMEOUT": "2s"}, want: 3 * time.Second,
		},
		"an empty variable is not set": {environment: map[string]string{"WEIR_REDIS_TIMEOUT": ""}, want: time.Second},
		"the error names an invalid variable": {
			environment: map[string]string{"WEIR_REDIS_TIMEOUT": "soon"},
			wantErr:     `environment variable WEIR_REDIS_TIMEOUT: --redis-timeout "soon" is invalid: must be a duration with a unit, for example 5s`,
		},
		"a flag overrides an invalid variable": {
			args: []string{"--redis-timeout=3s"}, environment: map[string]string{"WEIR_REDIS_TIMEOUT": "soon"}, want: 3 * time.Second,
		},
		"help has no variable": {environment: map[string]string{"WEIR_HELP": "true"}, want: time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			flags := pflag.NewFlagSet("weir", pflag.ContinueOnError)
			got := flags.Duration("redis-timeout", time.Second, "")
			help := flags.Bool("help", false, "")
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			err := applyEnvironment(flags, func(name string) (string, bool) {
				value, ok := test.environment[name]
				return value, ok
			})
			var text string
			if err != nil {
				text = err.Error()
			}
			if *got != test.want || text != test.wantErr || *help {
				t.Errorf("%v, %q, want %v, %q", *got, text, test.want, test.wantErr)
			}
		})
	}
}

func TestDescribeEnvironment_NamesEachVariableOnce(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := strings.Count(f.Usage, "(env "+Variable(f.Name)+")"); n != 1 {
				t.Errorf("%s --%s: %d times in %q", cmd.CommandPath(), f.Name, n, f.Usage)
			}
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	root, sub := &cobra.Command{Use: "weir"}, &cobra.Command{Use: "serve"}
	sub.Flags().String("listen", "", "address to listen on")
	root.AddCommand(sub)
	check(Complete(root))
}
