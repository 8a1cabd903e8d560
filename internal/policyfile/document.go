package policyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	k8sjson "sigs.k8s.io/json"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile/hint"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// object is one API object in a file: its content as an API server reads it, and its YAML node.
type object struct {
	file    string
	lines   int // of the file before the document
	node    *yaml.Node
	content map[string]any
	fields  *fieldIndex // of the document
	written any         // see asWritten

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
	v := hint.Value{Decoded: at(o.content, path)}
	switch v.Decoded.(type) {
	case map[string]any, []any:
		v.Decoded = at(o.asWritten(), path)
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

// at returns what is at a path of names and indexes in decoded JSON, nil without it.
func at(value any, path []string) any {
	for _, step := range path {
		switch parent := value.(type) {
		case map[string]any:
			value = parent[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(parent) {
				return nil
			}
			value = parent[i]
		default:
			return nil
		}
	}
	return value
}

// asWritten returns the content before a schema removes unknown fields from it. It is decoded only for messages.
func (o *object) asWritten() any {
	if o.written != nil {
		return o.written
	}
	o.written = o.content
	var decoded any
	if o.node.Decode(&decoded) != nil {
		return o.written
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		return o.written
	}
	var written any
	if k8sjson.UnmarshalCaseSensitivePreserveInts(encoded, &written) == nil {
		o.written = written
	}
	return o.written
}

// improve returns a message about a field with a hint.
func (o *object) improve(field, message string) string {
	path := steps(field)
	if len(path) == 0 {
		return message
	}
	if kind, exists := structure.Kind(o.text("kind")); exists {
		return hint.Improve(kind, path, message, o.value(path))
	}
	return message
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
		if o != nil {
			found, invalid := o.unwrap()
			objects, problems = append(objects, found...), append(problems, invalid...)
		}
	}
	return objects, skipped, problems
}

// errNotOurs is the error of JSON that is not about Weir, without apiVersion and kind. Directories have such files of other programs, for example package.json.
var errNotOurs = errors.New("not an object of the Kubernetes API")

// isOfOthers reports whether a document without apiVersion and kind is one of another program. A policy with a misspelled apiVersion, or in
// a JSON array, has the group.
func (c chunk) isOfOthers(file string) bool {
	return filepath.Ext(file) == ".json" && !strings.Contains(c.text, apiGroup)
}

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
	document, err := c.decode(file)
	if err != nil {
		return nil, err
	}
	if document.Kind == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil //nolint:nilnil // a document with only comments has no object
	}
	if err := left.takeAliases(document.Content[0], len(c.text)); err != nil {
		return nil, err
	}
	if err := convertible(document.Content[0]); err != nil {
		return nil, err
	}
	o := &object{file: file, lines: c.lines, node: document.Content[0], fields: &fieldIndex{}}
	// The conversion of kubectl determines the content (for example, it reads "on" as a bool). yaml/v3 only provides line numbers.
	asJSON, err := k8syaml.YAMLToJSON([]byte(c.text))
	if err != nil {
		return nil, err
	}
	var content any
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(asJSON, &content); err != nil {
		return nil, err
	}
	var ok bool
	o.content, ok = content.(map[string]any)
	if o.text("apiVersion") == "" && o.text("kind") == "" && c.isOfOthers(file) {
		return nil, errNotOurs
	}
	if !ok {
		return nil, fmt.Errorf("line %d: a document must be an object with apiVersion and kind, and is the %s", o.node.Line, hint.Describe(content))
	}
	return o, nil
}

// decode returns the only YAML document of the chunk. Parsers ignore what follows it: a document after a line with three dots, and a second object in JSON.
func (c chunk) decode(file string) (document yaml.Node, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(c.text))
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil // nothing but comments
		}
		return document, err
	}
	var second yaml.Node
	err = decoder.Decode(&second)
	if errors.Is(err, io.EOF) {
		return document, nil
	}
	line := second.Line
	if err != nil {
		line, _ = lineOf(err)
	}
	if filepath.Ext(file) == ".json" {
		return document, fmt.Errorf("line %d: something follows the object; write one object in a file, or a List with the objects as items", line)
	}
	return document, fmt.Errorf("line %d: something follows the document; write a line with three dashes (---) before another one", line)
}

// lineOf returns the line of an error of the YAML library, 1 without one, and the message without it.
func lineOf(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	m := lineInError.FindStringSubmatch(message)
	if m == nil {
		return 1, message
	}
	line, _ = strconv.Atoi(m[1])
	if message = message[len(m[0]):]; parserError.MatchString(message) {
		line++
	}
	return max(line, 1), message
}

// convertible returns an error for what YAML can express, and JSON cannot.
func convertible(node *yaml.Node) error {
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!float" && notFinite.MatchString(node.Value):
		return fmt.Errorf("line %d: %s is not a finite number; write digits, or the text in quotes", node.Line, node.Value)
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if key := node.Content[i]; key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode {
				return fmt.Errorf("line %d: the name of a field must be a text, and is an object or a list", key.Line)
			}
		}
	}
	for _, child := range node.Content {
		if err := convertible(child); err != nil {
			return err
		}
	}
	return nil
}

var notFinite = regexp.MustCompile(`^[-+]?\.(?i)(inf|nan)$`)

var (
	lineInError = regexp.MustCompile(`^line (\d+): `)
	// parserError is an error of the parser. Its line counts from 0, and those of other errors from 1.
	parserError = regexp.MustCompile(`^did not find expected (<document start>|node content|key|'-' indicator|',' or '[]}]')`)
	// unknownAnchor is an error without a line.
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// locate returns the line number in an error of the document, or the first line of the document if the error has no line number.
func (c chunk) locate(err error) (line int, message string) {
	line, message = lineOf(err)
	line = min(line, 1+strings.Count(strings.TrimSuffix(c.text, "\n"), "\n")) // the parser can notice it at the end
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		before, _, _ := strings.Cut(c.text, "*"+m[1])
		line = 1 + strings.Count(before, "\n")
		message = fmt.Sprintf("the alias *%s refers to no anchor of the document; write &%s before a value, or the text in quotes", m[1], m[1])
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

// unwrap returns the object, or the objects of a list, also of lists in it.
func (o *object) unwrap() (objects []*object, problems []Problem) {
	if o.text("apiVersion") != "v1" || o.text("kind") != "List" {
		return []*object{o}, nil
	}
	items, isList := o.content["items"].([]any)
	if !isList {
		message := "a List must have items, a list of objects"
		if found := o.content["items"]; found != nil {
			message += ", and they are the " + hint.Describe(found)
		}
		return nil, []Problem{o.problem(lintrule.InvalidDocument, "items", message+hint.Misspelled(o.content, "items"))}
	}
	for i := range items {
		field := fmt.Sprintf("items[%d]", i)
		content, ok := items[i].(map[string]any)
		if !ok {
			problems = append(problems, o.problem(lintrule.InvalidDocument, field,
				"a list item must be an object with apiVersion and kind, and is the "+hint.Describe(items[i])))
			continue
		}
		item := &object{file: o.file, lines: o.lines, node: o.fields.valueAt(o.node, field), content: content, fields: o.fields}
		found, invalid := item.unwrap()
		objects, problems = append(objects, found...), append(problems, invalid...)
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
					message := "duplicate field"
					if parent == nil && key.Value == "apiVersion" {
						message += "; a second document begins with a line ---"
					}
					problems = append(problems, newProblem(lintrule.DuplicateField, o.file, o.lines+key.Line, o.policy(), child.field(), message))
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
