package importer

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/internal/importer/toml"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Read parses the documents of a file, without empty ones. It reports invalid YAML to out.
func Read(file policyfile.File, out *Result) []Node {
	var nodes []Node
	if root, err := readTOML(file); err != nil {
		out.Add(Place{file.Name, err.Line}, Invalid, "invalid TOML: %s", err.Message)
		return nil
	} else if root != nil {
		return []Node{{&document{file: file.Name, out: out}, root}}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(file.Content))
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		switch {
		case errors.Is(err, io.EOF):
			return nodes
		case err != nil:
			line, message := locate(err)
			if bytes.Contains(file.Content, []byte("{{")) {
				message += "; if the file is a template, render it first, for example with helm template"
			}
			out.Add(Place{file.Name, line}, Invalid, "invalid YAML: %s", message)
			return nodes
		}
		if root.Kind != yaml.DocumentNode || len(root.Content) == 0 {
			continue
		}
		if n := (Node{&document{file: file.Name, out: out}, root.Content[0]}); !n.IsNull() {
			nodes = append(nodes, n)
		}
	}
}

// readTOML returns the document of a TOML file, nil for another file. The standard input has no name: it is TOML if it is no YAML.
func readTOML(file policyfile.File) (*yaml.Node, *toml.SyntaxError) {
	isTOML := strings.EqualFold(filepath.Ext(file.Name), ".toml")
	if !isTOML && file.Name != "-" {
		return nil, nil
	}
	if !isTOML && isYAML(file.Content) {
		return nil, nil
	}
	root, err := toml.Parse(file.Content)
	if invalid, is := errors.AsType[*toml.SyntaxError](err); is && isTOML {
		return nil, invalid
	}
	return root, nil // without a root, the parser of YAML reports what is wrong
}

// isYAML reports whether all documents of a text are YAML: the first lines of TOML can be.
func isYAML(content []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		}
	}
}

var lineInError = regexp.MustCompile(`^line (\d+): `)

// locate returns the line in an error of the YAML parser, or 1.
func locate(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := lineInError.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		return max(line, 1), message[len(m[0]):]
	}
	return 1, message
}
