//go:build unix

package report_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-dev/weir/internal/replay/report"
)

// limitFileSize makes writes beyond a size fail until the end of the test, as on a full disk.
func limitFileSize(t *testing.T, bytes uint64) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Skip(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
		t.Skip(err)
	}
}

func TestWriteFile_AFullDiskLeavesNoPart(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "report.html")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	limitFileSize(t, 10_000)
	err := report.WriteFile(path, full())
	if err == nil || !strings.Contains(err.Error(), "the report was not written to "+path) {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "before" {
		t.Errorf("%q, %v", content, err)
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 1 {
		t.Errorf("files %v", entries)
	}
}
