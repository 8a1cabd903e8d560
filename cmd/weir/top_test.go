package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
)

func TestTop_PrintsOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	base, _ := serveWithAdmin(t, "unix:"+path, "")
	for range 5 {
		check(t, base, acme)
	}
	status, stdout, stderr := runWithInput(t, "", "top", "--admin", "unix:"+path)
	for _, want := range []string{
		"5 requests decided, 3 denials by policies",
		"MOST DENIED  POLICY       DENIALS  ERROR\nacme         shop/tenant  3        0\n",
		"BUSIEST  POLICY       ALLOWED  ERROR\nacme     shop/tenant  2        0\n",
		"shop/tenant  3       2        0          0          Enforce\n",
		"memory  5          100.0%\n",
		"check     5          ",
	} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, %s, want %q in\n%s", status, stderr, want, stdout)
		}
	}
	status, stdout, stderr = runWithInput(t, "", "top", "--once", "-o", "json", "--policy", "shop/tenant", "--admin", "unix:"+path)
	var top admin.Top
	if err := json.Unmarshal([]byte(stdout), &top); err != nil || status != 0 || top.Denied.Identifiers[0].Requests != 3 {
		t.Errorf("status %d, %s%v: %s", status, stderr, err, stdout)
	}
}

func TestTop_ReportsUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"top":                                         "--admin is required",
		"top acme --admin unix:/x":                    "unexpected argument",
		"top --admin unix:/x -o xml":                  `--output "xml" is invalid`,
		"top --admin unix:/x --interval 1ms":          "must be at least 100ms",
		"top --admin unix:/x --limit -1":              "must be from 1 to 1000",
		"top --admin unix:/nowhere --limit 0 -o json": "does not answer",
	} {
		if status, _, stderr := runWithInput(t, "", strings.Fields(args)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}
