package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
)

// The environment variables that switch on one mutant of a test program.
const (
	mutantID   = "WEIR_MUTANT"        // the number of a mutant of a Go file
	scriptName = "WEIR_MUTANT_SCRIPT" // the name of a Lua script, and
	scriptFile = "WEIR_MUTANT_FILE"   // the file with the mutant of it
)

// schema is a package with all of its mutants: one build serves all of them, and an environment variable switches one on.
// A mutant that does not compile in this form has no id. It needs a build of its own.
type schema struct {
	root, folder string
	overlay      string // file for go build -overlay
}

// newSchema writes the package with its mutants to temporary, and sets the ids of mutants. build builds a program with an
// overlay, to find the mutants that do not compile.
func newSchema(root, folder, temporary string, mutants []*Mutant, build func(overlay string) ([]byte, error)) (*schema, error) {
	s := &schema{root: root, folder: folder, overlay: filepath.Join(temporary, "schema.json")}
	id := 0
	for _, m := range mutants {
		if !m.isLua() {
			id++
			m.id = id
		}
	}
	for {
		if err := s.write(temporary, mutants); err != nil {
			return nil, err
		}
		output, err := build(s.overlay)
		if err == nil {
			return s, nil
		}
		if !forget(mutants, folder, output) {
			return nil, fmt.Errorf("build the tests of %s: %w\n%s", folder, err, output)
		}
	}
}

// forget removes the ids of the mutants at the lines with compile errors: of the smallest sites. It returns false if no
// line has a mutant.
func forget(mutants []*Mutant, folder string, output []byte) bool {
	found := false
	for _, match := range regexp.MustCompile(`(?m)(?:schema-)?([\w.]+\.go):(\d+)(?::\d+)?: (?:missing return$)?`).FindAllSubmatch(output, -1) {
		line, err := strconv.Atoi(string(match[2]))
		if err != nil {
			continue
		}
		file, smallest := path.Join(folder, string(match[1])), 1<<30
		at := func(m *Mutant) bool { return m.id != 0 && m.File == file && m.firstLine <= line && line <= m.lastLine }
		for _, m := range mutants {
			if at(m) {
				smallest = min(smallest, m.lastLine-m.firstLine)
			}
		}
		for _, m := range mutants {
			if at(m) && m.lastLine-m.firstLine == smallest {
				m.id, found = 0, true
			}
		}
		if m := lastBreak(mutants, file, line); m != nil && smallest == 1<<30 && bytes.HasSuffix(match[0], []byte("missing return")) {
			m.id, found = 0, true
		}
	}
	return found
}

// lastBreak returns the last mutant before a line that leaves a loop in place of continuing it. A function that ends with a loop must not
// leave it, and the compiler reports that at the end of the function.
func lastBreak(mutants []*Mutant, file string, line int) (last *Mutant) {
	for _, m := range mutants {
		if m.id != 0 && m.File == file && m.Rule == "INVERT_LOOPCTRL" && m.lastLine < line && (last == nil || m.lastLine > last.lastLine) {
			last = m
		}
	}
	return last
}

// write writes the changed files and the overlay.
func (s *schema) write(temporary string, mutants []*Mutant) error {
	replace := map[string]string{}
	add := func(name string, text []byte) error {
		changed := filepath.Join(temporary, "schema-"+name)
		replace[filepath.Join(s.root, s.folder, name)] = changed
		return os.WriteFile(changed, text, 0o600) //nolint:gosec // the name of a file of the package, in a temporary folder
	}
	byFile := map[string][]*Mutant{}
	for _, m := range mutants {
		if m.id != 0 {
			byFile[m.File] = append(byFile[m.File], m)
		}
	}
	for file, here := range byFile {
		source, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		text, err := instrument(file, source, here)
		if err != nil {
			return err
		}
		if err := add(filepath.Base(file), text); err != nil {
			return err
		}
	}
	support, err := supportFile(filepath.Join(s.root, s.folder))
	if err != nil {
		return err
	}
	if err := add("zz_mutants.go", support); err != nil {
		return err
	}
	return writeOverlay(s.overlay, replace)
}

// writeOverlay writes the file for go build -overlay.
func writeOverlay(file string, replace map[string]string) error {
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
