package exempt

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/weir-dev/weir/limiter/rules"
)

// isCleanup reports whether the write is part of a deletion: an update of an object that is being deleted, or an update that only removes
// finalizers. If it were denied, the object, and its namespace, could not be deleted.
func isCleanup(w *rules.KubernetesRequest) bool {
	if w.Operation != "UPDATE" || !mentions(w.OldObject, "deletionTimestamp") && !mentions(w.OldObject, "finalizers") {
		return false
	}
	var before, after map[string]any
	if json.Unmarshal(w.OldObject, &before) != nil {
		return false
	}
	was, _ := before["metadata"].(map[string]any)
	if was["deletionTimestamp"] != nil {
		return true
	}
	had, _ := textsOf(was["finalizers"])
	if len(had) == 0 || json.Unmarshal(w.Object, &after) != nil {
		return false
	}
	is, _ := after["metadata"].(map[string]any)
	has, valid := textsOf(is["finalizers"])
	if !valid || len(has) >= len(had) || !isSubsequence(has, had) {
		return false
	}
	for _, metadata := range []map[string]any{was, is} {
		for _, field := range []string{"finalizers", "managedFields", "resourceVersion", "generation"} { // the API server changes the others too
			delete(metadata, field)
		}
	}
	return reflect.DeepEqual(before, after)
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
func isSubsequence(list, all []string) bool {
	for _, value := range all {
		if len(list) > 0 && list[0] == value {
			list = list[1:]
		}
	}
	return len(list) == 0
}
