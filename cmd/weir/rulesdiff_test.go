package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
)

func TestRulesDiff_ComparesFilesWithALimiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	serveWithAdmin(t, "unix:"+path, "")
	other := "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: bank, name: x}\nspec: {axis: IP, limit: 1, window: 1m}\n"
	for name, test := range map[string]struct {
		text   string
		status int
		want   string
	}{
		"the same":                   {tenantPolicy("2"), 0, ""},
		"another limit":              {tenantPolicy("3"), 1, "shop/tenant  units  2     3"},
		"a policy that is not there": {tenantPolicy("2") + other, 1, "bank/x  -      absent  present"},
		"another namespace":          {other, 1, "bank/x  -      absent  present"},
		"an invalid policy":          {tenantPolicy("-1"), 2, ""},
	} {
		file := filepath.Join(t.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := runWithInput(t, "", "rules", "diff", "--policies", file, "--admin", "unix:"+path)
		if status != test.status || !strings.Contains(stdout, test.want) || test.want == "" && stdout != "" {
			t.Errorf("%s: status %d, stdout %s, stderr %s", name, status, stdout, stderr)
		}
	}
}

func TestRulesDiff_ReportsUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"rules diff --policies x --revision y --admin unix:/x": "exclude each other",
		"rules diff --hash-key k --admin unix:/x":              "--hash-key is used only with --policies",
		"rules diff --admin unix:/x":                           "has only one rule set",
		"rules diff --policies x -o xml --admin unix:/x":       `--output "xml" is invalid`,
		"rules diff --policies x --admin unix:/nowhere":        "does not answer",
		"rules diff --policies /none":                          "--admin is required",
	} {
		if status, _, stderr := runWithInput(t, "", strings.Fields(args)...); status != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}
