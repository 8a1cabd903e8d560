package policyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile/hint"
	"github.com/weir-dev/weir/internal/policyfile/structure"
)

// Document is a document of a file, for commands with kinds of their own: tests and scenarios.
type Document struct {
	// APIVersion and Kind are empty if the document does not have them.
	APIVersion, Kind string
	// Text is the document, or the one around an item of a List.
	Text string
	// Invalid is why the document cannot be read, nil if it can. The other fields but Text are then empty.
	Invalid *Problem

	object *object
}

// Documents returns the documents of a file, including the items of lists. It skips those that have only comments, and JSON of other programs.
func Documents(file File) (all []*Document) {
	left := newBounds()
	for c := range documents(string(file.Content)) {
		invalid := func(p Problem) { all = append(all, &Document{Text: c.text, Invalid: &p}) }
		o, err := c.parse(file.Name, left)
		switch {
		case errors.Is(err, errNotOurs):
			continue
		case err != nil:
			line, message := c.locate(err)
			invalid(newProblem(lintrule.InvalidDocument, file.Name, line, "", "", message))
			continue
		case o == nil:
			continue
		}
		objects, problems := o.unwrap()
		for _, p := range problems {
			invalid(p)
		}
		for _, o := range objects {
			all = append(all, &Document{APIVersion: o.text("apiVersion"), Kind: o.text("kind"), Text: c.text, object: o})
		}
	}
	return all
}

// MeantKind returns the message about a kind or version of the group cli.weir.dev that does not exist, "" if it exists or the document is of another group.
func (d *Document) MeantKind() string {
	group, _, _ := strings.Cut(d.APIVersion, "/")
	isTest := group == testGroup || d.Kind == testKind
	switch {
	case d.Invalid != nil || !isTest || d.APIVersion == testVersion && d.Kind == testKind:
		return ""
	case d.APIVersion == "" || d.Kind == "":
		return d.object.problem("", "", incomplete(d.object)).String()
	}
	field, message := unknownKind(d.object)
	return d.object.problem("", field, message).String()
}

// Problem returns a problem of a field of the document, such as "tests[0].name", with its line.
func (d *Document) Problem(field, message string) Problem {
	return d.object.problem(lintrule.InvalidValue, field, message)
}

// Decode decodes the document into a Go value, see [structure.Of]. It returns all problems: unknown and duplicate fields, types, and values.
func (d *Document) Decode(into any) []Problem {
	o, fields := d.object, structure.Of(reflect.TypeOf(into).Elem())
	problems := append(o.duplicates(), o.numberProblems()...)
	fields.Validate("", o.content, func(field, message string) {
		path := steps(field)
		if message != unknownField {
			problems = append(problems, o.problem(lintrule.InvalidValue, field, hint.Improve(fields, path, message, o.value(path))))
			return
		}
		if meant := hint.Unknown(fields, path); meant != "" {
			message += "; " + meant
		}
		problems = append(problems, o.problem(lintrule.UnknownField, field, message))
	})
	if len(problems) > 0 {
		return problems
	}
	encoded, err := json.Marshal(o.content)
	if err == nil {
		err = json.Unmarshal(encoded, into)
	}
	if err != nil {
		return []Problem{o.problem(lintrule.InvalidValue, "", err.Error())}
	}
	return nil
}

// Errors returns problems as one error with a line for each, nil without one. It has at most maxErrors of them.
func Errors(problems []Problem) error {
	const maxErrors = 20
	var lines []string
	for i := range problems {
		if i == maxErrors {
			lines = append(lines, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		lines = append(lines, problems[i].String())
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}
