package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/google/pprof/profile"
)

// profiler takes a CPU profile of the turns of Weir only. The zero profiler takes no profile.
type profiler struct {
	path  string
	turns []*profile.Profile
}

// during takes a profile of a turn of the contender with that name.
func (p *profiler) during(name string, turn func() (sample, error)) (sample, error) {
	if p.path == "" || !strings.HasPrefix(name, weirPrefix) {
		return turn()
	}
	var taken bytes.Buffer
	if err := pprof.StartCPUProfile(&taken); err != nil {
		return sample{}, fmt.Errorf("profile: %w", err)
	}
	got, errTurn := turn()
	pprof.StopCPUProfile()
	parsed, errParse := profile.Parse(&taken)
	p.turns = append(p.turns, parsed)
	return got, errors.Join(errTurn, errParse)
}

// write merges and writes the profiles of all turns.
func (p *profiler) write() error {
	if len(p.turns) == 0 {
		return nil
	}
	merged, err := profile.Merge(p.turns)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	file, err := os.Create(p.path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return errors.Join(merged.Write(file), file.Close())
}
