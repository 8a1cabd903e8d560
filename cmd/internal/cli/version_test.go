package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestDescribeBuild_FormatsVersionAndCommit(t *testing.T) {
	here := ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "1a2b3c4d5e6f7a8b9c0d"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	tests := map[string]struct {
		linked string
		build  *debug.BuildInfo
		want   string
	}{
		"nothing known":               {"", nil, "weir (devel)"},
		"go install":                  {"", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "weir v0.1.0"},
		"a release":                   {"v0.2.0", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{commit}}, "weir v0.2.0 (commit 1a2b3c4d5e6f)"},
		"a working tree with changes": {"", &debug.BuildInfo{Settings: []debug.BuildSetting{commit, modified}}, "weir (devel) (commit 1a2b3c4d5e6f, modified)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := describeBuild("weir", test.linked, test.build); got != test.want+here {
				t.Errorf("%q, want %q", got, test.want+here)
			}
		})
	}
}
