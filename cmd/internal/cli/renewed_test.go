package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestRenewed_KeepsItsContentWhileTheFileIsWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "number")
	number := NewRenewed(file, func() (int, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(text))
	})
	write := func(text string, age time.Duration) {
		t.Helper()
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(age time.Duration) {
		t.Helper()
		at := time.Now().Add(-age)
		if err := errors.Join(os.RemoveAll(file), os.Chtimes(dir, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		change func()
		want   int // 0 is an error
	}{
		"renewed":                   {func() { write("2", 0) }, 2},
		"truncated":                 {func() { write("", 0) }, 1},
		"half written":              {func() { write("2x", time.Second) }, 1},
		"deleted":                   {func() { remove(0) }, 1},
		"emptied some time ago":     {func() { write("", 6*time.Second) }, 0},
		"deleted some time ago":     {func() { remove(6 * time.Second) }, 0},
		"emptied in the far future": {func() { write("", -time.Hour) }, 0},
		"gone with its directory":   {func() { _ = os.RemoveAll(dir) }, 0},
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write("1", time.Hour)
		if got, err := number.Get(); got != 1 || err != nil {
			t.Fatalf("%s: %d, %v before", name, got, err)
		}
		test.change()
		if got, err := number.Get(); got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: %d, %v; want %d", name, got, err, test.want)
		}
	}
}

func TestRenewed_ReportsAFileThatWasNeverUsable(t *testing.T) {
	number := NewRenewed(filepath.Join(t.TempDir(), "absent"), func() (int, error) { return 0, os.ErrNotExist })
	if _, err := number.Get(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
