package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/terminal"
)

// version is set by the linker for releases: -ldflags "-X github.com/weir-dev/weir/cmd/internal/cli.version=v0.1.0". The linker can only set
// variables.
var version string

// Version returns the version of a release, and "" of another build.
func Version() string { return version }

// versionCommand returns the command version of a program.
func versionCommand(program string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, commit and platform of this build",
		Args:  NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			build, _ := debug.ReadBuildInfo()
			_, err := terminal.Println(cmd.OutOrStdout(), describeBuild(program, version, build))
			return err
		},
	}
}

// describeBuild returns, for example, "weir-operator v0.1.0 (commit 1a2b3c4d5e6f, modified), go1.26.0 linux/amd64". The version from the
// linker takes precedence over the version in the build info.
func describeBuild(program, linked string, build *debug.BuildInfo) string {
	name, commit := linked, ""
	if build != nil {
		if name == "" {
			name = build.Main.Version
		}
		commit = describeCommit(build.Settings)
	}
	if name == "" {
		name = "(devel)"
	}
	return fmt.Sprintf("%s %s%s, %s %s/%s", program, name, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func describeCommit(settings []debug.BuildSetting) string {
	var revision, modified string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	if revision == "" {
		return ""
	}
	return " (commit " + revision + modified + ")"
}
