package importer

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/internal/policyfile"
)

// Read parses the documents of a file, without empty ones. It reports invalid YAML to out.
func Read(file policyfile.File, out *Result) []Node {
	var nodes []Node
	if strings.HasSuffix(file.Name, ".toml") {
		out.Add(Place{file.Name, 1}, Invalid, "TOML is not read; write the configuration as YAML")
		return nil
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
