package apischema

import (
	"runtime"
	"strings"
	"testing"

	"github.com/weir-dev/weir/config/crd"
)

func TestNewSchema_RejectsAnInvalidCRD(t *testing.T) {
	for definition, want := range map[string]string{
		"spec: [":                        "parse the CRD",
		"spec: {group: a, colour: blue}": "parse the CRD",
		"metadata: {name: x}":            "CRD x has no version v1alpha1",
		strings.ReplaceAll(crd.RateLimitPolicies(), "name: v1alpha1", "name: v9"): "has no version v1alpha1",
	} {
		if _, err := newSchema(definition, "v1alpha1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// A process that reloads files now and then does not keep the schemas meanwhile.
func TestNew_KeepsNoSchemas(t *testing.T) {
	schema, err := New()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if parsed.schemas.Value() == nil {
		t.Error("schemas in use are not shared")
	}
	runtime.KeepAlive(schema)
	runtime.GC()
	if parsed.schemas.Value() != nil {
		t.Error("the schemas are in memory without a user")
	}
}
