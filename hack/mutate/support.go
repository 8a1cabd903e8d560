package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// supportFile returns the file of the package in folder with the functions that instrument uses. It also replaces embedded
// scripts: those in a variable, and those that the package reads from a variable of type fs.FS. That works if no variable of the package is
// computed from a script.
func supportFile(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var scripts bytes.Buffer
	name, replace := "", `panic("no script is named " + name)`
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range regexp.MustCompile(`(?m)^\s*//go:embed (\w+\.lua)\n\s*(?:var )?(\w+) string$`).FindAllSubmatch(source, -1) {
			fmt.Fprintf(&scripts, "\t\t%q: &%s,\n", match[1], match[2])
		}
		if match := regexp.MustCompile(`(?m)^\t(?:var )?(\w+)\s+fs\.FS = `).FindSubmatch(source); match != nil {
			replace = fmt.Sprintf("%s = mutantFiles{%[1]s, mutantfstest.MapFS{name: {Data: text}}}", match[1])
		}
		if match := regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(source); match != nil {
			name = string(match[1])
		}
	}
	text := strings.NewReplacer("PACKAGE", name, "SCRIPTS", scripts.String(), "REPLACE", replace,
		"ENV_ID", mutantID, "ENV_NAME", scriptName, "ENV_FILE", scriptFile).Replace(support)
	return []byte(text), nil
}

const support = `package PACKAGE

import (
	mutantcmp "cmp"
	mutantfs "io/fs"
	mutantos "os"
	mutantstrconv "strconv"
	mutantfstest "testing/fstest"
)

// mutantFiles has the files of FS, of which one is changed.
type mutantFiles struct {
	mutantfs.FS

	changed mutantfstest.MapFS
}

func (f mutantFiles) Open(name string) (mutantfs.File, error) {
	if file, err := f.changed.Open(name); err == nil {
		return file, nil
	}
	return f.FS.Open(name)
}

var mutantID = func() int { id, _ := mutantstrconv.Atoi(mutantos.Getenv("ENV_ID")); return id }()

func mutantOn(id int) bool { return id == mutantID }

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface { mutantInteger | ~float32 | ~float64 }

func mutantSign[T mutantNumber](id int, x T) T {
	if mutantOn(id) {
		return x
	}
	return -x
}

func mutantOrder[T mutantcmp.Ordered](op string, boundary, negation int, x, y T) bool {
	if mutantOn(boundary) {
		op = map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[op]
	}
	result := false
	switch op {
	case "<":
		result = x < y
	case "<=":
		result = x <= y
	case ">":
		result = x > y
	case ">=":
		result = x >= y
	}
	return mutantOn(negation) != result
}

func mutantLogic(op string, id int, x bool, y func() bool) bool {
	if (op == "&&") != mutantOn(id) {
		return x && y()
	}
	return x || y()
}

func mutantArithmetic[T mutantNumber](op string, id int, x, y T) T {
	if mutantOn(id) {
		op = map[string]string{"+": "-", "-": "+", "*": "/", "/": "*"}[op]
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	return x / y
}

func mutantRemainder[T mutantInteger](_ string, id int, x, y T) T {
	if mutantOn(id) {
		return x * y
	}
	return x % y
}

func init() {
	name := mutantos.Getenv("ENV_NAME")
	if name == "" {
		return
	}
	text, err := mutantos.ReadFile(mutantos.Getenv("ENV_FILE"))
	if err != nil {
		panic(err)
	}
	if script := map[string]*string{
SCRIPTS	}[name]; script != nil {
		*script = string(text)
		return
	}
	REPLACE
}
`
