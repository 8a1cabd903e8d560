package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse_ReadsFlags(t *testing.T) {
	s, err := parse([]string{"-rounds", "3", "-slice", "200ms", "-callers", "1, 8", "-only", "zset|Token", "-parts", "memory"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.rounds != 3 || s.slice != 200*time.Millisecond || !slices.Equal(s.callers, []int{1, 8}) || s.keys != 500_000 {
		t.Errorf("%+v", s)
	}
	if s.measures(partThroughput) || !s.measures(partMemory) {
		t.Errorf("parts %q", s.parts)
	}
	var names []string
	for _, c := range selectContenders(contenders(), s.only) {
		names = append(names, c.name)
	}
	if want := []string{"weir/TokenBucket", zsetGoRedis, zsetRueidis, "zset/autopipeline"}; !slices.Equal(names, want) {
		t.Errorf("selected %q, want %q", names, want)
	}
}

func TestParse_NamesTheInvalidFlag(t *testing.T) {
	for _, args := range []string{
		"-rounds=0", "-slice=0s", "-keys=0", "-keys=10000000", "-callers=", "-callers=1,x", "-callers=0", "-only=(", "-parts=cpu",
	} {
		name, _, _ := strings.Cut(args, "=")
		if _, err := parse([]string{args}, io.Discard); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := parse([]string{"zset"}, io.Discard); err == nil {
		t.Error("no error for an argument that is not a flag")
	}
}

func TestParse_PrintsHelp(t *testing.T) {
	var b strings.Builder
	if _, err := parse([]string{"--help"}, &b); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, word := range []string{"go run -C hack/bench .", "-rounds", "-only", "-strict", "redis-server"} {
		if !strings.Contains(b.String(), word) {
			t.Errorf("no %s in:\n%s", word, b.String())
		}
	}
}
