package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		"top --kubeconfig /none":                      "read the kubeconfig",
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

// screen is a terminal that ends the command after its second update.
type screen struct {
	text strings.Builder
	end  context.CancelFunc
}

func (s *screen) Write(p []byte) (int, error) {
	if strings.Count(s.text.String(), eraseScreen) == 1 && bytes.Contains(p, []byte(eraseScreen)) {
		s.end()
	}
	return s.text.Write(p)
}

func TestTop_UpdatesATerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	base, _ := serveWithAdmin(t, "unix:"+path, "")
	for range 3 {
		check(t, base, acme)
	}
	f := &topFlags{endpoint: adminClientFlags{address: "unix:" + path}, interval: 100 * time.Millisecond}
	ctx, end := context.WithCancel(t.Context())
	out := &screen{end: end}
	if err := watchTop(ctx, f, out, func() (int, int, error) { return 30, 8, nil }); err != nil {
		t.Fatal(err)
	}
	text, entered := strings.CutPrefix(out.text.String(), enterScreen)
	text, left := strings.CutSuffix(text, leaveScreen)
	updates := strings.Split(text, eraseScreen)
	if !entered || !left || len(updates) != 3 || updates[0] != "" {
		t.Fatalf("%q", out.text.String())
	}
	lines := strings.Split(updates[2], "\r\n")
	if len(lines) != 8 || len(lines[0]) != 30 || lines[3] != "acme         shop/tenant  1   " {
		t.Errorf("%q, want 8 lines of 30 characters", lines)
	}
	failing := &topFlags{endpoint: adminClientFlags{address: "unix:/nowhere"}, interval: time.Second}
	if err := watchTop(t.Context(), failing, &bytes.Buffer{}, func() (int, int, error) { return 0, 0, errors.New("no size") }); err == nil {
		t.Error("a limiter that does not answer from the beginning is no error")
	}
}
