package policyfile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/lintrule"
)

var (
	// decimal is a number that every reader of YAML and every person reads the same.
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	// leadingZero is a number with a leading zero. Without prefix, YAML 1.1 reads it in base 8, and YAML 1.2 in base 10.
	leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]*$`)
)

// number is a number in a document that is not written in decimal digits alone.
type number struct {
	field string
	text  string // in the document
	value string // as kubectl reads it
}

// describe returns what the number is, and what to write.
func (n number) describe() string {
	message := fmt.Sprintf("%s is the number %s for kubectl; write %s", n.text, n.value, n.value)
	if meant := n.inBase10(); meant != n.value {
		message = fmt.Sprintf("%s is the number %s, because kubectl reads a leading zero as base 8, and other programs as base 10; write %s, or %s if that is meant",
			n.text, n.value, n.value, meant)
	}
	return message
}

// inBase10 returns the value of the digits in base 10, if the number can be read in base 8 or 10, and the value otherwise.
func (n number) inBase10() string {
	if !leadingZero.MatchString(n.text) {
		return n.value
	}
	read, err := strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 10, 64)
	if err != nil {
		return n.value
	}
	return strconv.FormatInt(read, 10)
}

// unusualNumbers returns the numbers of the object that are not in decimal digits alone, such as 010, 0x10, 1_000, 1e3 and 1.0.
func (o *object) unusualNumbers() (found []number) {
	var walk func(node *yaml.Node, parent *place)
	walk = func(node *yaml.Node, parent *place) {
		switch node.Kind {
		case yaml.ScalarNode:
			if value, isNumber := readNumber(node); isNumber && parent != nil {
				found = append(found, number{field: parent.field(), text: node.Value, value: value})
			}
		case yaml.SequenceNode:
			for i, item := range node.Content {
				walk(item, &place{parent: parent, index: i})
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				key, value := node.Content[i], node.Content[i+1]
				if key.Tag == "!!merge" { // its fields are those of the mapping
					walk(value, parent)
					continue
				}
				walk(value, &place{parent: parent, name: key.Value, isName: true})
			}
		}
	}
	walk(o.node, nil)
	return found
}

// readNumber returns the value that kubectl reads. It does not for numbers in decimal digits, and what is no number.
func readNumber(node *yaml.Node) (value string, isNumber bool) {
	if tag := node.ShortTag(); tag != "!!int" && tag != "!!float" || decimal.MatchString(node.Value) {
		return "", false
	}
	converted, err := k8syaml.YAMLToJSON([]byte(node.Value))
	if err != nil || bytes.HasPrefix(converted, []byte{'"'}) {
		return "", false
	}
	return strings.TrimSpace(string(converted)), true
}

// numberWarnings returns a warning for each number that is not in decimal digits alone, without fields that have a problem.
func (o *object) numberWarnings(known []Problem) (problems []Problem) {
	for _, n := range o.unusualNumbers() {
		p := o.problem(lintrule.UnusualNumber, n.field, n.describe())
		if !slices.ContainsFunc(known, func(k Problem) bool { return k.File == p.File && k.Line == p.Line && k.Column == p.Column }) {
			problems = append(problems, p)
		}
	}
	return problems
}

// numberProblems returns a problem for each number that is another one in base 10.
func (o *object) numberProblems() (problems []Problem) {
	for _, n := range o.unusualNumbers() {
		if n.inBase10() != n.value {
			problems = append(problems, o.problem(lintrule.InvalidValue, n.field, n.describe()))
		}
	}
	return problems
}
