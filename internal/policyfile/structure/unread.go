package structure

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// unreadMetadata describes the metadata that Weir does not read. An API server validates it, with these rules:
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/
func unreadMetadata() *schema {
	anyText, flag := &schema{Type: "string"}, &schema{Type: "boolean"}
	required := &schema{Type: "string", MinLength: new(1)}
	moment, qualified := &schema{Type: "string", form: isMoment}, &schema{Type: "string", form: isQualifiedName}
	return &schema{Type: "object", Properties: map[string]*schema{
		"annotations":                {Type: "object", AdditionalProperties: anyText, keys: isAnnotationKey},
		"creationTimestamp":          moment,
		"deletionGracePeriodSeconds": {Type: "integer"},
		"deletionTimestamp":          moment,
		"finalizers":                 {Type: "array", Items: qualified},
		"generateName":               {Type: "string", form: isNamePrefix},
		"generation":                 {Type: "integer", Minimum: new(int64(0))},
		"managedFields": {Type: "array", Items: &schema{Type: "object", Required: []string{"operation"}, Properties: map[string]*schema{
			"apiVersion": anyText,
			"fieldsType": {Type: "string", Enum: []json.RawMessage{[]byte(`""`), []byte(`"FieldsV1"`)}},
			"fieldsV1":   {}, // of any type
			"manager":    {Type: "string", form: isFieldManager},
			"operation":  {Type: "string", Enum: []json.RawMessage{[]byte(`"Apply"`), []byte(`"Update"`)}},
			"subresource": {Type: "string", form: func(text string) error {
				return atMost(text, 256)
			}},
			"time": moment,
		}}},
		"ownerReferences": {Type: "array", Items: &schema{
			Type: "object", Required: []string{"apiVersion", "kind", "name", "uid"}, Properties: map[string]*schema{
				"apiVersion":         {Type: "string", form: isGroupVersion},
				"blockOwnerDeletion": flag,
				"controller":         flag,
				"kind":               required,
				"name":               required,
				"uid":                required,
			},
		}},
		"resourceVersion": anyText,
		"selfLink":        anyText,
		"uid":             anyText,
	}}
}

// maxAnnotations bounds the annotations of an object, in bytes.
const maxAnnotations = 256 << 10

// unread validates the metadata that Weir does not read.
func (v validator) unread(given map[string]any) {
	v.validate("metadata", given, unreadMetadata())
	size := 0
	annotations, _ := given["annotations"].(map[string]any)
	for key, value := range annotations {
		text, _ := value.(string)
		size += len(key) + len(text)
	}
	if size > maxAnnotations {
		v.reportf("metadata.annotations", "must have at most %d bytes together, and have %d", maxAnnotations, size)
	}
	controllers := 0
	owners, _ := given["ownerReferences"].([]any)
	for i := range owners {
		owner, _ := owners[i].(map[string]any)
		if owner["apiVersion"] == "v1" && owner["kind"] == "Event" {
			v.reportf(fmt.Sprintf("metadata.ownerReferences[%d]", i), "must not be an Event of v1, which cannot own objects")
		}
		if owner["controller"] == true {
			controllers++
		}
	}
	if controllers > 1 {
		v.reportf("metadata.ownerReferences", "must have at most 1 controller, and have %d", controllers)
	}
}

func isMoment(text string) error {
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return errors.New("must be a time such as 2026-01-31T12:00:00Z")
	}
	return nil
}

// isAnnotationKey ignores case, unlike the keys of labels.
func isAnnotationKey(text string) error { return isQualifiedName(strings.ToLower(text)) }

func isNamePrefix(text string) error {
	whole := text
	if len(whole) > 1 && strings.HasSuffix(whole, "-") { // as an API server checks it
		whole = whole[:len(whole)-2] + "a"
	}
	if text != "" && (len(whole) > 253 || !objectName.MatchString(whole)) {
		return errors.New("must be at most 253 lower-case letters, digits, dots and hyphens")
	}
	return nil
}

func isFieldManager(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("must be printable characters")
	}
	return atMost(text, 128)
}

func isGroupVersion(text string) error {
	group, version, hasGroup := strings.Cut(text, "/")
	if text == "" || strings.Contains(version, "/") || hasGroup && version == "" || text == "/" || group == "" && !hasGroup {
		return errors.New("must be a version such as v1, or a group, a slash and a version such as apps/v1")
	}
	return nil
}

func atMost(text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("must have at most %d bytes, and has %d", most, len(text))
	}
	return nil
}
