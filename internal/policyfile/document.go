package policyfile

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile/hint"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// object is one API object in a file: its content as an API server reads it, and its YAML node.
type object struct {
	file    string
	lines   int // of the file before the document
	node    *yaml.Node
	content map[string]any
	fields  *fieldIndex // of the document

	namespaceIsDefault bool              // the file has no namespace
	annotations        map[string]string // the reasons for which findings are suppressed, by rule
	ignored            map[string]any    // the annotations themselves: a schema may remove them from the content
}

// problem returns a problem of a field, with the line of the field.
func (o *object) problem(rule, field, message string) Problem {
	at := o.fields.nearest(o.node, field)
	p := newProblem(rule, o.file, o.lines+at.Line, o.policy(), field, message)
	p.Column = at.Column
	return p
}

func (o *object) line(field string) int { return o.lines + o.fields.nearest(o.node, field).Line }

// value returns the value of a field, for a hint.
func (o *object) value(path []string) hint.Value {
	v := hint.Value{Decoded: any(o.content)}
	for _, step := range path {
		switch parent := v.Decoded.(type) {
		case map[string]any:
			v.Decoded = parent[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(parent) {
				return hint.Value{}
			}
			v.Decoded = parent[i]
		default:
			return hint.Value{}
		}
	}
	node := o.node
	for _, step := range path {
		if _, node = o.fields.child(node, step); node == nil {
			return v
		}
	}
	if node.Kind == yaml.ScalarNode {
		v.Raw = node.Value
	}
	return v
}

// improve returns a message about a field with a hint.
func (o *object) improve(field, message string) string {
	path := steps(field)
	if len(path) == 0 {
		return message
	}
	return hint.Improve(o.text("kind"), path, message, o.value(path))
}

func (o *object) text(key string) string {
	s, _ := o.content[key].(string)
	return s
}

func (o *object) metadata(key string) string {
	metadata, _ := o.content["metadata"].(map[string]any)
	s, _ := metadata[key].(string)
	return s
}

// policy returns the name of the policy, "namespace/name" or "_cluster/name", or "" if the object has no name.
func (o *object) policy() string {
	namespace, name := o.metadata("namespace"), o.metadata("name")
	switch {
	case name != "" && o.text("kind") == clusterPolicyKind:
		return policyname.Join(policyname.Cluster, name)
	case name == "" || namespace == "":
		return name
	default:
		return policyname.Join(namespace, name)
	}
}

// parse returns the objects of a file, including the items of lists, the JSON that is no object of the Kubernetes API, and a problem for each invalid
// document.
func parse(file File, left *bounds) (objects []*object, skipped []Skipped, problems []Problem) {
	for c := range documents(string(file.Content)) {
		o, err := c.parse(file.Name, left)
		if errors.Is(err, errNotOurs) {
			skipped = append(skipped, Skipped{File: file.Name, Line: c.lines + 1, Kind: "JSON file"})
			continue
		}
		if err != nil {
			line, message := c.locate(err)
			problems = append(problems, newProblem(lintrule.InvalidDocument, file.Name, line, "", "", message))
			if left.exceeded {
				break
			}
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
	return objects, skipped, problems
}

// errNotOurs is the error of JSON without apiVersion and kind. Directories have such files of other programs, for example package.json.
var errNotOurs = errors.New("not an object of the Kubernetes API")

// chunk is the text of one document, and the number of lines before it.
type chunk struct {
	text  string
	lines int
}

// documents splits a file into documents as kubectl does, at lines that begin with three dashes. It leaves out documents that have only comments.
func documents(content string) iter.Seq[chunk] {
	return func(yield func(chunk) bool) {
		begin, end, start, count := 0, 0, 0, 0 // offsets and lines
		isEmpty := true
		for line := range strings.Lines(content) {
			count++
			rest, isSeparator := strings.CutPrefix(line, "---")
			if rest = strings.TrimSpace(rest); !isSeparator || (rest != "" && rest[0] != '#') {
				isEmpty = isEmpty && (rest == "" || rest[0] == '#')
				end += len(line)
				continue
			}
			if !isEmpty && !yield(chunk{content[begin:end], start}) {
				return
			}
			end += len(line)
			begin, start, isEmpty = end, count, true
		}
		if !isEmpty {
			yield(chunk{content[begin:end], start})
		}
	}
}

// parse returns the object of the document, or nil if the document has only comments. It takes what it costs from left.
func (c chunk) parse(file string, left *bounds) (*object, error) {
	if err := left.take(c.text); err != nil {
		return nil, err
	}
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
	if err := left.takeAliases(document.Content[0], len(c.text)); err != nil {
		return nil, err
	}
	o := &object{file: file, lines: c.lines, node: document.Content[0], fields: &fieldIndex{}}
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
	o.content, ok = content.(map[string]any)
	if filepath.Ext(file) == ".json" && o.text("apiVersion") == "" && o.text("kind") == "" {
		return nil, errNotOurs
	}
	if !ok {
		return nil, fmt.Errorf("line %d: a document must be an object with apiVersion and kind", o.node.Line)
	}
	return o, nil
}

var lineInError = regexp.MustCompile(`^line (\d+): `)

// locate returns the line number in an error of the document, or the first line of the document if the error has no line number.
func (c chunk) locate(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := lineInError.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		line, message = max(line, 1), message[len(m[0]):]
	} else {
		line = 1
	}
	if tab := c.tab(); tab > 0 && tab <= line+1 { // the parser can have noticed it one line later
		return c.lines + tab, "a tab: YAML needs spaces for indentation; replace the tab by spaces"
	}
	if strings.Contains(c.text, "{{") {
		message += "; the document has {{, so that it can be a template: check its output, for example helm template CHART | weir lint -"
	}
	return c.lines + line, message
}

// tab returns the number of the first line with a tab in its indentation, 0 without one.
func (c chunk) tab() int {
	number := 0
	for line := range strings.Lines(c.text) {
		number++
		indentation := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if strings.Contains(indentation, "\t") && strings.TrimSpace(line) != "" {
			return number
		}
	}
	return 0
}

// items returns the objects of a list.
func (o *object) items() (objects []*object, problems []Problem) {
	items, _ := o.content["items"].([]any)
	for i := range items {
		field := fmt.Sprintf("items[%d]", i)
		content, ok := items[i].(map[string]any)
		if !ok {
			problems = append(problems, o.problem(lintrule.InvalidDocument, field, "a list item must be an object with apiVersion and kind"))
			continue
		}
		objects = append(objects, &object{file: o.file, lines: o.lines, node: o.fields.valueAt(o.node, field), content: content, fields: o.fields})
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
		metadata["namespace"], o.namespaceIsDefault = namespace, true
	}
}

// dropNamespace removes the namespace, as an API server does for a cluster-scoped object.
func (o *object) dropNamespace() {
	if metadata, ok := o.content["metadata"].(map[string]any); ok {
		delete(metadata, "namespace")
	}
}

// maxDuplicates bounds the problems of one object that repeats fields.
const maxDuplicates = 100

// duplicates returns a problem for each field that occurs twice in a mapping.
func (o *object) duplicates() []Problem {
	var problems []Problem
	var walk func(node *yaml.Node, parent *place)
	walk = func(node *yaml.Node, parent *place) {
		switch node.Kind {
		case yaml.SequenceNode:
			for i, item := range node.Content {
				walk(item, &place{parent: parent, index: i})
			}
		case yaml.MappingNode:
			seen := make(map[string]bool, len(node.Content)/2)
			for i := 0; i+1 < len(node.Content); i += 2 {
				key, value := node.Content[i], node.Content[i+1]
				child := &place{parent: parent, name: key.Value, isName: true}
				if seen[key.Value] && len(problems) < maxDuplicates {
					problems = append(problems, newProblem(lintrule.DuplicateField, o.file, o.lines+key.Line, o.policy(), child.field(), "duplicate field"))
				}
				seen[key.Value] = true
				walk(value, child)
			}
		}
	}
	walk(o.node, nil)
	return problems
}

// place is where a node is. Its text is made only for problems: in a deep document, the texts of all nodes are much longer than the document.
type place struct {
	parent *place
	name   string
	index  int
	isName bool // not index
}

// field returns, for example, "spec.tiers[0].name".
func (p *place) field() string {
	var steps []string
	for ; p != nil; p = p.parent {
		if !p.isName {
			steps = append(steps, fmt.Sprintf("[%d]", p.index))
			continue
		}
		steps = append(steps, "."+p.name)
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}
