// Package structure validates the structure of policies and Limiters: types, unknown and required fields, and bounds. With the compiler, which validates
// all other rules of the API, it rejects the same policies as package apischema, in a hundredth of the code. Of Limiters, which no compiler reads, it accepts
// some whose fields contradict one another. Its messages are its own.
package structure

import (
	_ "embed" // for the structure
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed structure.json
var encoded []byte

// schema is a part of a structural schema of a CRD. Without a type, it accepts every value.
type schema struct {
	Type                 string             `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Required             []string           `json:"required"`
	Enum                 []json.RawMessage  `json:"enum"`
	Minimum              *int64             `json:"minimum"`
	Maximum              *int64             `json:"maximum"`
	MinLength            *int               `json:"minLength"` // in characters
	MaxLength            *int               `json:"maxLength"`
	MinItems             *int               `json:"minItems"`
	MaxItems             *int               `json:"maxItems"`
	MinProperties        *int               `json:"minProperties"`
	MaxProperties        *int               `json:"maxProperties"`
	ListType             string             `json:"x-kubernetes-list-type"`
	ListMapKeys          []string           `json:"x-kubernetes-list-map-keys"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	Pattern              string             `json:"pattern"`
	Unit                 string             `json:"unit"` // what a string measures: "duration", "percentage" or ""

	form func(text string) error // of a string, nil if it has any form
	keys func(text string) error // the form of the keys of additionalProperties

	check func(value any) error // of a value of any type, nil if every value is valid
}

// limiterKind is the kind of Limiters.
const limiterKind = "Limiter"

// Schema validates policies and Limiters. The zero value is ready to use.
type Schema struct{}

var schemas = sync.OnceValue(func() map[string]*schema { //nolint:gochecknoglobals // decoded once
	var byKind map[string]*schema
	if err := json.Unmarshal(encoded, &byKind); err != nil {
		panic(fmt.Sprintf("the structure of policies: %v", err)) // generated with the program
	}
	return byKind
})

// Admit reports what is invalid in the structure of a policy or a Limiter and removes its status, which only controllers write. It reports nothing about
// other kinds.
func (Schema) Admit(kind string, content map[string]any, report func(field, message string)) {
	spec := schemas()[kind]
	if spec == nil {
		return
	}
	v := validator{report}
	if status := content["status"]; status != nil { // its fields may be those of a newer controller
		v.validate("status", status, &schema{Type: "object", AdditionalProperties: &schema{}})
	}
	delete(content, "status")
	for name := range content {
		if name != "apiVersion" && name != "kind" && name != "metadata" && name != "spec" {
			v.report(name, unknownField)
		}
	}
	v.metadata(content["metadata"])
	if kind == limiterKind {
		v.limiterName(content["metadata"])
	}
	if content["spec"] == nil {
		content["spec"] = map[string]any{} // its required fields are missing
	}
	v.validate("spec", content["spec"], spec)
}

// IsComplete returns false: the compiler validates the other rules.
func (Schema) IsComplete() bool { return false }
