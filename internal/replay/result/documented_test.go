package result_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-dev/weir/internal/replay/result"
)

// names adds the JSON names of the fields of a type, and of those that it contains.
func names(of reflect.Type, to map[string]bool) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		names(of.Elem(), to)
	case reflect.Struct:
		if of.PkgPath() == "time" {
			return
		}
		for field := range of.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				to[name] = true
			} else if !field.Anonymous {
				to["of "+of.Name()+"."+field.Name] = true // has no name in JSON
			}
			names(field.Type, to)
		}
	default:
	}
}

func TestResult_IsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	names(reflect.TypeFor[result.Result](), fields)
	if len(fields) < 70 {
		t.Fatalf("%d fields: %v", len(fields), fields)
	}
	for name := range fields {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/replay.md does not describe %s", name)
		}
	}
}
