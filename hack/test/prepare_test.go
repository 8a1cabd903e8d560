package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// The tests read the path, and the time and the size of the programs in it: the same programs must not make Go run them again.
func TestKeep_NamesTheFolderByTheHashOfThePrograms(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "programs")
	if err := os.Mkdir(from, 0o700); err != nil {
		t.Fatal(err)
	}
	copied := func(a, b string) (string, time.Time) {
		write(t, filepath.Join(from, "a"), a)
		write(t, filepath.Join(from, "b"), b)
		path, err := keep(from, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(path, "b"))
		if err != nil || info.Mode().Perm()&0o100 == 0 {
			t.Fatalf("%v, %v: want a program", info, err)
		}
		return path, info.ModTime()
	}
	first, began := copied("1", "2")
	if again, at := copied("1", "2"); again != first || !at.Equal(began) {
		t.Errorf("%s of %v for the same programs, want %s of %v", again, at, first, began)
	}
	if other, _ := copied("1", "3"); other == first {
		t.Errorf("%s for other programs", other)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: want the programs and one copy", entries, err)
	}
}

func TestStream_EndsTheGroupOfAnInterruptedProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := false
	// The second process keeps the output open.
	err := stream(ctx, command(ctx, nil, "sh", "-c", "echo begun; sleep 600 & sleep 600"), func([]byte) { began = true; cancel() }, func([]byte) {})
	if !began || !errors.Is(err, context.Canceled) {
		t.Errorf("begun %t, error %v; want it canceled", began, err)
	}
}

func TestStream_ReportsTheProgramThatFailed(t *testing.T) {
	var stderr string
	err := stream(t.Context(), command(t.Context(), nil, "sh", "-c", "echo wrong >&2; exit 3"), func([]byte) {}, func(line []byte) { stderr += string(line) })
	if err == nil || stderr != "wrong" {
		t.Errorf("error %v, stderr %q", err, stderr)
	}
}
