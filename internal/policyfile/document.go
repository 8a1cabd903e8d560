package policyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// object is one API object in a file: its content as an API server reads it, and its YAML node.
type object struct {
	file    string
	lines   int // of the file before the document
	node    *yaml.Node
	content map[string]any
}

// problem returns a problem of a field, with the line of the field.
func (o *object) problem(field, message string) Problem {
	return Problem{File: o.file, Line: o.line(field), Policy: o.policy(), Field: field, Message: message}
}

func (o *object) line(field string) int { return o.lines + nearest(o.node, field).Line }

func (o *object) text(key string) string {
	s, _ := o.content[key].(string)
	return s
}

func (o *object) metadata(key string) string {
	metadata, _ := o.content["metadata"].(map[string]any)
	s, _ := metadata[key].(string)
	return s
}

// policy returns the name of the policy, "namespace/name" or "cluster/name", or "" if the object has no name.
func (o *object) policy() string {
	namespace, name := o.metadata("namespace"), o.metadata("name")
	switch {
	case name != "" && o.text("kind") == clusterPolicyKind:
		return compile.ClusterName(&v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case name == "" || namespace == "":
		return name
	default:
		return namespace + "/" + name
	}
}

// parse returns the objects of a file, including the items of lists, and a problem for each invalid document.
func parse(file File) (objects []*object, problems []Problem) {
	for _, c := range split(string(file.Content)) {
		o, err := c.parse(file.Name)
		if err != nil {
			line, message := c.locate(err)
			problems = append(problems, Problem{File: file.Name, Line: line, Message: message})
			continue
		}
		switch {
		case o == nil:
		case o.text("apiVersion") == "v1" && o.text("kind") == "List":
			items, fieldErrors := o.items()
			objects, problems = append(objects, items...), append(problems, fieldErrors...)
		default:
			objects = append(objects, o)
		}
	}
	return objects, problems
}

// chunk is the text of one document, and the number of lines before it.
type chunk struct {
	text  string
	lines int
}

// split splits a file into documents as kubectl does, at lines that begin with three dashes.
func split(content string) []chunk {
	var chunks []chunk
	var text strings.Builder
	start, count := 0, 0
	for line := range strings.Lines(content) {
		count++
		rest, isSeparator := strings.CutPrefix(line, "---")
		if rest = strings.TrimSpace(rest); !isSeparator || (rest != "" && rest[0] != '#') {
			text.WriteString(line)
			continue
		}
		chunks = append(chunks, chunk{text.String(), start})
		text.Reset()
		start = count
	}
	return append(chunks, chunk{text.String(), start})
}

// parse returns the object of the document, or nil if the document has only comments.
func (c chunk) parse(file string) (*object, error) {
	count := 0
	for line := range strings.Lines(c.text) {
		count++
		if strings.HasPrefix(line, "---") {
			return nil, fmt.Errorf("line %d: a document separator (---) must not be followed by anything but a comment", count)
		}
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(c.text), &document); err != nil {
		return nil, err
	}
	if document.Kind == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil //nolint:nilnil // a document with only comments has no object
	}
	o := &object{file: file, lines: c.lines, node: document.Content[0]}
	// The conversion of kubectl determines the content (for example, it reads "on" as a bool). yaml/v3 only provides line numbers.
	asJSON, err := k8syaml.YAMLToJSON([]byte(c.text))
	if err != nil {
		return nil, err
	}
	var content any
	if err := json.UnmarshalCaseSensitivePreserveInts(asJSON, &content); err != nil {
		return nil, err
	}
	var ok bool
	if o.content, ok = content.(map[string]any); !ok {
		return nil, fmt.Errorf("line %d: a document must be an object with apiVersion and kind", o.node.Line)
	}
	return o, nil
}

// locate returns the line number in an error of the document, or the first line of the document if the error has no line number.
func (c chunk) locate(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		return c.lines + max(line, 1), message[len(m[0]):]
	}
	return c.lines + 1, message
}

// items returns the objects of a list.
func (o *object) items() (objects []*object, problems []Problem) {
	items, _ := o.content["items"].([]any)
	for i := range items {
		field := fmt.Sprintf("items[%d]", i)
		content, ok := items[i].(map[string]any)
		if !ok {
			problems = append(problems, o.problem(field, "a list item must be an object with apiVersion and kind"))
			continue
		}
		objects = append(objects, &object{file: o.file, lines: o.lines, node: valueAt(o.node, field), content: content})
	}
	return objects, problems
}

// setNamespace sets the namespace of an object that does not have one.
func (o *object) setNamespace(namespace string) {
	if o.content["metadata"] == nil {
		o.content["metadata"] = map[string]any{}
	}
	metadata, ok := o.content["metadata"].(map[string]any)
	if ok && (metadata["namespace"] == nil || metadata["namespace"] == "") {
		metadata["namespace"] = namespace
	}
}

// dropNamespace removes the namespace, as an API server does for a cluster-scoped object.
func (o *object) dropNamespace() {
	if metadata, ok := o.content["metadata"].(map[string]any); ok {
		delete(metadata, "namespace")
	}
}

// duplicates returns a problem for each field that occurs twice in a mapping.
func (o *object) duplicates() []Problem {
	var problems []Problem
	var walk func(node *yaml.Node, field string)
	walk = func(node *yaml.Node, field string) {
		switch node.Kind {
		case yaml.SequenceNode:
			for i, item := range node.Content {
				walk(item, fmt.Sprintf("%s[%d]", field, i))
			}
		case yaml.MappingNode:
			var seen []string
			for i := 0; i+1 < len(node.Content); i += 2 {
				key, value := node.Content[i], node.Content[i+1]
				child := strings.TrimPrefix(field+"."+key.Value, ".")
				if slices.Contains(seen, key.Value) {
					problems = append(problems, Problem{
						File: o.file, Line: o.lines + key.Line, Policy: o.policy(), Field: child, Message: "duplicate field",
					})
				}
				seen = append(seen, key.Value)
				walk(value, child)
			}
		}
	}
	walk(o.node, "")
	return problems
}
