package httplimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-dev/weir/go/httplimit"
)

// go doc does not show the fields of an alias, so its comment lists those that programs can rely on.
func TestTypes_HaveTheFieldsThatTheirCommentsList(t *testing.T) {
	aliases := map[string]reflect.Type{
		"Check": reflect.TypeFor[httplimit.Check](), "Request": reflect.TypeFor[httplimit.Request](), "Entry": reflect.TypeFor[httplimit.Entry](),
		"Override": reflect.TypeFor[httplimit.Override](), "Answer": reflect.TypeFor[httplimit.Answer](), "Result": reflect.TypeFor[httplimit.Result](),
		"Rule": reflect.TypeFor[httplimit.Rule](), "Denial": reflect.TypeFor[httplimit.Denial](), "Problem": reflect.TypeFor[httplimit.Problem](),
	}
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^  - (\w+) ([^:\n]+)`)
	packages := regexp.MustCompile(`\w+\.`)
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.TypeSpec)
		if !is {
			return true
		}
		name, fields := spec.Name.Name, listed.FindAllStringSubmatch(spec.Doc.Text(), -1)
		alias, known := aliases[name]
		delete(aliases, name)
		if known == (len(fields) == 0) {
			t.Errorf("%s: the comment lists %d fields, and the test knows the type: %v", name, len(fields), known)
		}
		for _, listed := range fields {
			field, found := alias.FieldByName(listed[1])
			if !found {
				t.Errorf("%s has no field %s", name, listed[1])
			} else if got := strings.ReplaceAll(packages.ReplaceAllString(field.Type.String(), ""), "interface {}", "any"); got != withoutLink(listed[2]) {
				t.Errorf("%s: the comment lists %s %s, and the field is %s", name, listed[1], listed[2], got)
			}
		}
		return true
	})
	for name := range aliases {
		t.Errorf("types.go has no %s", name)
	}
}

// withoutLink returns the name of a type without the brackets of a link to it.
func withoutLink(text string) string {
	if name, is := strings.CutPrefix(text, "["); is && strings.HasSuffix(name, "]") {
		return strings.TrimSuffix(name, "]")
	}
	return text
}
