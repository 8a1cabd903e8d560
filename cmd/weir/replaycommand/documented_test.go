package replaycommand_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/hack/accesslog/traffic"
)

// The guide shows what the commands print for its policy and the log of its generator.
func TestGuide_ShowsWhatTheCommandPrints(t *testing.T) {
	text, err := os.ReadFile("../../../docs/how-to/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	var log bytes.Buffer
	if err := traffic.Write(&log, traffic.Options{Lines: 100_000, Clients: 5000, Seed: 1, Length: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(write(t, "public-ip.yaml", string(policy[1]))))
	if err := os.WriteFile("access.log", log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n\\$ weir (replay --policies public-ip.yaml [^\n]*)\n(.*?)```").FindAllSubmatch(text, -1) {
		status, stdout, stderr := weir(strings.Fields(string(block[1]))...)
		if ran++; status != 0 || !strings.Contains(stdout, string(block[2])) {
			t.Errorf("weir %s: status %d %s\nprints:\n%s\nthe guide shows:\n%s", block[1], status, stderr, stdout, block[2])
		}
	}
	if ran != 2 {
		t.Errorf("%d commands ran, want 2", ran)
	}
}
