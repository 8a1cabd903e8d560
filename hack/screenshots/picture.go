package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const (
	width = 1600 // pixels
	// rowHeight and border are sizes of Grafana, in pixels: of one row of the grid with its gap, and around the grid.
	rowHeight, border = 38, 24
	// rendering is the time that Chromium gives a page. It does not pass while the page waits for the network.
	rendering = 30 * time.Second
)

// picture is a dashboard, or its first sections.
type picture struct {
	file, uid string
	sections  int // 0: all
	variables url.Values
}

func pictures() []picture {
	return []picture{
		{file: "overview.png", uid: "weir-overview"},
		{file: "overview-decisions.png", uid: "weir-overview", sections: 2},
		{file: "policy.png", uid: "weir-policy", variables: url.Values{"var-policy": {"shop/per-tenant"}}},
		{file: "redis.png", uid: "weir-redis"},
		{file: "kubernetes.png", uid: "weir-kubernetes"},
	}
}

// take writes a picture of the minutes before end to the directory out.
func (r *rig) take(ctx context.Context, p picture, end time.Time, out string) error {
	height, err := p.height()
	if err != nil {
		return err
	}
	// Not relative to now: the clock of the page runs ahead, and Prometheus has no samples of the future.
	query := url.Values{"from": {milliseconds(end.Add(-duration))}, "to": {milliseconds(end)}, "theme": {"light"}}
	address := r.grafana.url + "/d/" + p.uid + "?kiosk&" + query.Encode() + "&" + p.variables.Encode()
	raw := filepath.Join(r.dir, p.file)
	// Without --no-sandbox, Chromium does not run as root. The page is that of the Grafana started above.
	err = command(ctx, r.tools.chromium, "--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
		"--user-data-dir="+filepath.Join(r.dir, "chromium"), fmt.Sprintf("--window-size=%d,%d", width, height),
		"--virtual-time-budget="+strconv.FormatInt(rendering.Milliseconds(), 10), "--screenshot="+raw, address)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	return command(ctx, r.tools.pngquant, "--force", "--strip", "--speed=1", "--quality=60-95", "--output="+filepath.Join(out, p.file), raw)
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// height returns the height of the picture in pixels.
func (p picture) height() (int, error) {
	root, err := fixture.ModuleRoot()
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(root, "config", "grafana", p.uid+".json"))
	if err != nil {
		return 0, err
	}
	var dashboard struct {
		Panels []struct {
			Type string `json:"type"`
			Grid struct {
				Y int `json:"y"`
				H int `json:"h"`
			} `json:"gridPos"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return 0, fmt.Errorf("%s: %w", p.uid, err)
	}
	bottom, sections := 0, 0
	for _, panel := range dashboard.Panels {
		if panel.Type == "row" {
			sections++
		}
		if p.sections == 0 || sections <= p.sections {
			bottom = max(bottom, panel.Grid.Y+panel.Grid.H)
		}
	}
	return bottom*rowHeight + border, nil
}

func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
