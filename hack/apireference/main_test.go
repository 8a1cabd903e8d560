package main

import (
	"bytes"
	"strings"
	"testing"
)

const definition = `
spec:
  group: example.com
  names: {kind: Thing, categories: [all], shortNames: [th]}
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: Thing is an example.
        properties:
          metadata: {type: object}
          spec:
            description: spec is the desired state.
            required: [mode]
            properties:
              size: {type: integer, default: 2, minimum: 1, maximum: 9, description: size is a number.}
              mode: {type: string, enum: [A, B], description: mode is a|b.}
              hosts: {type: array, minItems: 1, x-kubernetes-list-type: set, items: {type: string, maxLength: 5}}
              labels: {type: object, maxProperties: 3, additionalProperties: {type: string}}
              parts:
                type: array
                description: parts lists parts.
                items:
                  type: object
                  properties: {name: {type: string}}
                  x-kubernetes-validations: [{rule: "true", message: name must be short, fieldPath: .name}]
`

func TestWrite_PrintsTypesDefaultsAndRules(t *testing.T) {
	var out bytes.Buffer
	if err := write(&out, definition); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`apiVersion: example.com/v1`, `kind: Thing`. Scope: Namespaced. Short name: `th`. Category: `all`.",
		"| `mode` | string |  | required<br>one of `A`, `B` | mode is a\\|b. |\n| `hosts`",
		"| `hosts` | string array |  | at least 1 items<br>no duplicates<br>each: at most 5 characters |  |",
		"| `labels` | map of string |  | at most 3 entries |  |",
		"| `size` | integer | `2` | 1 to 9 | size is a number. |",
		"### Thing: spec.parts[]\n\nparts lists parts.\n\nRules:\n\n- `name`: name must be short.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, &out)
		}
	}
}

func TestWrite_RejectsWhatIsNotYAML(t *testing.T) {
	if err := write(new(bytes.Buffer), "\t"); err == nil {
		t.Error("no error")
	}
}
