package gitops

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestStates_CoverEveryConditionAndReason(t *testing.T) {
	types, reasons := constants(t)
	var used struct{ types, reasons []string }
	all, _ := states(t)
	for _, state := range all {
		conditions, _, err := unstructured.NestedSlice(state.object().Object, "status", "conditions")
		must(t, err)
		for _, c := range conditions {
			kind, _, _ := unstructured.NestedString(c.(map[string]any), "type")     //nolint:forcetypeassert // a condition is an object
			reason, _, _ := unstructured.NestedString(c.(map[string]any), "reason") //nolint:forcetypeassert // as above
			used.types, used.reasons = append(used.types, kind), append(used.reasons, reason)
			if !slices.Contains(types, kind) || !slices.Contains(reasons, reason) {
				t.Errorf("%s: the API has no condition %s with reason %s", state.name, kind, reason)
			}
		}
	}
	for _, kind := range types {
		if !slices.Contains(used.types, kind) {
			t.Errorf("no state has the condition %s", kind)
		}
	}
	for _, reason := range reasons {
		if !slices.Contains(used.reasons, reason) {
			t.Errorf("no state has the reason %s", reason)
		}
	}
}

// constants returns the condition types and the reasons in api/v1alpha1.
func constants(t *testing.T) (types, reasons []string) {
	t.Helper()
	compiled := values(t, nil, "api", "v1alpha1", "policyapi", "reasons.go")
	for name, value := range values(t, compiled, "api", "v1alpha1", "conditions.go") {
		switch {
		case strings.HasPrefix(name, "Condition"):
			types = append(types, value)
		case strings.HasPrefix(name, "Reason"):
			reasons = append(reasons, value)
		}
	}
	if len(types) == 0 || len(reasons) == 0 {
		t.Fatal("conditions.go has no constants Condition… and Reason…")
	}
	slices.Sort(types)
	slices.Sort(reasons)
	return types, reasons
}

// values returns the constants of a file by name. A value is a literal, or the constant of package policyapi with that name.
func values(t *testing.T, policyapi map[string]string, path ...string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), repositoryPath(t, path...), nil, 0)
	must(t, err)
	found := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		name := spec.Names[0].Name
		switch value := spec.Values[0].(type) {
		case *ast.BasicLit:
			found[name], err = strconv.Unquote(value.Value)
			must(t, err)
		case *ast.SelectorExpr:
			text, known := policyapi[value.Sel.Name]
			if !known {
				t.Fatalf("the value of %s is %s, which package policyapi does not have", name, value.Sel.Name)
			}
			found[name] = text
		default:
			t.Fatalf("the value of %s is neither a literal nor a constant of package policyapi", name)
		}
		return true
	})
	return found
}
