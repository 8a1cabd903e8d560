package main

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

func TestMeasure_GivesBothSidesTurnsOnRealServers(t *testing.T) {
	dir := t.TempDir()
	binary, err := fixture.BuildWeir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	all := loads()
	w, err := newWorld(t.Context(), dir, [2]side{{name: "base", binary: binary}, {name: "head", binary: binary}}, all)
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 2
	measured, err := w.measure(t.Context(), settings{rounds: rounds, slice: 60 * time.Millisecond, keys: 100}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		for side, samples := range measured[l.name] {
			if len(samples) != rounds {
				t.Errorf("%s, side %d: %d turns, want %d", l.name, side, len(samples), rounds)
			}
			for _, s := range samples {
				if known := l.values == 1; known && s.Allowed > 1 || !known && s.Denied > 0 {
					t.Errorf("%s, side %d: %d allowed, %d denied", l.name, side, s.Allowed, s.Denied)
				}
			}
		}
	}
}
