package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// file has the results of the mutants of a package, of all runs since it was deleted.
func (r *runner) file(folder string) string {
	return filepath.Join(r.root, "dist", "mutation", strings.ReplaceAll(folder, "/", "-")+".json")
}

// results returns the results of earlier runs by the key of the mutant.
func (r *runner) results(packages []string) (map[string]*Mutant, error) {
	results := map[string]*Mutant{}
	for _, p := range packages {
		data, err := os.ReadFile(r.file(p))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the results of earlier runs: %w", err)
		}
		var mutants []*Mutant
		if err := json.Unmarshal(data, &mutants); err != nil {
			return nil, fmt.Errorf("read %s: %w", r.file(p), err)
		}
		for _, m := range mutants {
			results[m.key()] = m
		}
	}
	return results, nil
}

// complete sets the status of mutants without one to that of an earlier run.
func complete(mutants []*Mutant, earlier map[string]*Mutant) {
	for _, m := range mutants {
		if last := earlier[m.key()]; last != nil && m.Status == "" {
			m.Status, m.Killer = last.Status, last.Killer
		}
	}
}

// save adds the results to those of earlier runs. It drops the results of mutants that no longer exist.
func (r *runner) save(all []*Mutant, earlier map[string]*Mutant, packages []string) error {
	for _, p := range packages {
		known := []*Mutant{}
		for _, m := range all {
			if m.Package == p && m.Status != "" {
				known = append(known, m)
			} else if last := earlier[m.key()]; m.Package == p && last != nil {
				known = append(known, last)
			}
		}
		data, err := json.MarshalIndent(known, "", " ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(r.file(p)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(r.file(p), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
