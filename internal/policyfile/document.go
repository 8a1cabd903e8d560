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

// object is one API object of a file: its content as an API server would read it, and the text it came from.
type object struct {
	file    string
	lines   int // of the file before the document
	node    *yaml.Node
	content map[string]any
}

// problem is a problem with a field of the object, at the field's line.
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

// policy is the object's name, "namespace/name" or "cluster/name"; empty if it has none.
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

// parse returns the objects of a file, those of lists one by one, and a problem for each document that is none.
func parse(file File) (objects []*object, problems []Problem) {
	for _, c := range split(string(file.Content)) {
		found, err := c.parse(file.Name)
		if err != nil {
			line, message := c.locate(err)
			problems = append(problems, Problem{File: file.Name, Line: line, Message: message})
			continue
		}
		for _, o := range found {
			if o.text("apiVersion") != "v1" || o.text("kind") != "List" {
				objects = append(objects, o)
				continue
			}
			items, faults := o.items()
			objects, problems = append(objects, items...), append(problems, faults...)
		}
	}
	return objects, problems
}

// chunk is the text of one document and the number of lines before it.
type chunk struct {
	text  string
	lines int
}

// split cuts a file where kubectl does: at lines that begin with three dashes.
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

// parse returns the document's object, none if there is nothing but comments.
func (c chunk) parse(file string) ([]*object, error) {
	count := 0
	for line := range strings.Lines(c.text) {
		count++
		if strings.HasPrefix(line, "---") {
			return nil, fmt.Errorf("line %d: only a comment may follow the dashes that separate documents", count)
		}
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(c.text), &document); err != nil {
		return nil, err
	}
	if document.Kind == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil
	}
	o := &object{file: file, lines: c.lines, node: document.Content[0]}
	// kubectl's own conversion decides what the text means ("on" is a truth value to it); yaml/v3 only says where.
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
	return []*object{o}, nil
}

// locate returns the line of the file that an error about the document speaks of, its first if it does not say.
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
			problems = append(problems, o.problem(field, "an item must be an object with apiVersion and kind"))
			continue
		}
		objects = append(objects, &object{file: o.file, lines: o.lines, node: valueAt(o.node, field), content: content})
	}
	return objects, problems
}

// setNamespace fills in the namespace of an object that names none.
func (o *object) setNamespace(namespace string) {
	if o.content["metadata"] == nil {
		o.content["metadata"] = map[string]any{}
	}
	metadata, ok := o.content["metadata"].(map[string]any)
	if ok && (metadata["namespace"] == nil || metadata["namespace"] == "") {
		metadata["namespace"] = namespace
	}
}

// dropNamespace takes the namespace away, as an API server does from an object that belongs to none.
func (o *object) dropNamespace() {
	if metadata, ok := o.content["metadata"].(map[string]any); ok {
		delete(metadata, "namespace")
	}
}

// duplicates returns a problem for each field that stands twice in a mapping.
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
