package exempt

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// isCleanup reports whether the write is part of a deletion: an update of an object that is being deleted, or an update that only removes
// finalizers. If it were denied, the object, and its namespace, could not be deleted.
func isCleanup(w *rules.KubernetesRequest) bool {
	if w.Operation != "UPDATE" || !mentions(w.OldObject, "deletionTimestamp") && !mentions(w.OldObject, "finalizers") {
		return false
	}
	var oldObject, newObject map[string]any
	if json.Unmarshal(w.OldObject, &oldObject) != nil {
		return false
	}
	oldMetadata, _ := oldObject["metadata"].(map[string]any)
	if oldMetadata["deletionTimestamp"] != nil {
		return true
	}
	had, _ := textsOf(oldMetadata["finalizers"])
	if len(had) == 0 || json.Unmarshal(w.Object, &newObject) != nil {
		return false
	}
	newMetadata, _ := newObject["metadata"].(map[string]any)
	has, valid := textsOf(newMetadata["finalizers"])
	if !valid || len(has) >= len(had) || !isSubsequence(has, had) {
		return false
	}
	for _, metadata := range []map[string]any{oldMetadata, newMetadata} {
		for _, field := range []string{"finalizers", "managedFields", "resourceVersion", "generation"} { // the API server changes the others too
			delete(metadata, field)
		}
	}
	return reflect.DeepEqual(oldObject, newObject)
}

// mentions reports whether the object may have the field. It avoids decoding objects that do not.
func mentions(object []byte, field string) bool { return bytes.Contains(object, []byte(`"`+field+`"`)) }

// textsOf returns the texts in a list, which may be nil. It returns false for anything else.
func textsOf(list any) ([]string, bool) {
	values, isList := list.([]any)
	texts := make([]string, len(values))
	for i, value := range values {
		text, isText := value.(string)
		if !isText {
			return nil, false
		}
		texts[i] = text
	}
	return texts, isList || list == nil
}

// isSubsequence reports whether list is all, in this order, without some of its values.
func isSubsequence(list, sequence []string) bool {
	for _, value := range sequence {
		if len(list) > 0 && list[0] == value {
			list = list[1:]
		}
	}
	return len(list) == 0
}
