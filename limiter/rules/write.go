package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// What expressions over a write to the Kubernetes API speak of, beside request.
const (
	resourceName = "resource"
	kindName     = "kind"
	userInfoName = "userInfo"
)

// write is a KubernetesRequest as expressions see it: an AdmissionRequest. The objects are decoded when the first expression
// asks, and once.
type write struct {
	*KubernetesRequest

	object, oldObject, options document
}

// Parts of a write.
type (
	writeResource write
	writeKind     write
	writeUser     write
)

func (w *write) of(r *KubernetesRequest) {
	w.KubernetesRequest = r
	w.object.encoded, w.oldObject.encoded, w.options.encoded = r.Object, r.OldObject, r.Options
}

func writeFields() []field[write] {
	of := func(name string) *types.Type { return types.NewObjectType(name) }
	always := func(*write) bool { return true }
	return []field[write]{
		{"operation", types.StringType, func(w *write) any { return w.Operation }, func(w *write) bool { return w.Operation != "" }},
		{"resource", of(resourceName), func(w *write) any { return (*writeResource)(w) }, always},
		{"subResource", types.StringType, func(w *write) any { return w.Subresource }, func(w *write) bool { return w.Subresource != "" }},
		{"kind", of(kindName), func(w *write) any { return (*writeKind)(w) }, always},
		{"namespace", types.StringType, func(w *write) any { return w.Namespace }, func(w *write) bool { return w.Namespace != "" }},
		{"name", types.StringType, func(w *write) any { return w.Name }, func(w *write) bool { return w.Name != "" }},
		{"userInfo", of(userInfoName), func(w *write) any { return (*writeUser)(w) }, always},
		{"object", types.DynType, func(w *write) any { return &w.object }, func(w *write) bool { return !w.object.isNull() }},
		{"oldObject", types.DynType, func(w *write) any { return &w.oldObject }, func(w *write) bool { return !w.oldObject.isNull() }},
		{"options", types.DynType, func(w *write) any { return &w.options }, func(w *write) bool { return !w.options.isNull() }},
		{"dryRun", types.BoolType, func(w *write) any { return w.DryRun }, func(w *write) bool { return w.DryRun }},
	}
}

func resourceFields() []field[writeResource] {
	return []field[writeResource]{
		{"group", types.StringType, func(w *writeResource) any { return w.Group }, func(w *writeResource) bool { return w.Group != "" }},
		{"version", types.StringType, func(w *writeResource) any { return w.Version }, func(w *writeResource) bool { return w.Version != "" }},
		{"resource", types.StringType, func(w *writeResource) any { return w.Resource }, func(w *writeResource) bool { return w.Resource != "" }},
	}
}

func kindFields() []field[writeKind] {
	return []field[writeKind]{
		{"kind", types.StringType, func(w *writeKind) any { return w.Kind }, func(w *writeKind) bool { return w.Kind != "" }},
	}
}

func userInfoFields() []field[writeUser] {
	texts := types.NewListType(types.StringType)
	return []field[writeUser]{
		{"username", types.StringType, func(w *writeUser) any { return w.User }, func(w *writeUser) bool { return w.User != "" }},
		{"groups", texts, func(w *writeUser) any { return w.Groups }, func(w *writeUser) bool { return len(w.Groups) > 0 }},
		{
			"extra", types.NewMapType(types.StringType, texts),
			func(w *writeUser) any { return w.Extra }, func(w *writeUser) bool { return len(w.Extra) > 0 },
		},
	}
}

// document is JSON that is decoded when it is asked for. Like the activation that it is part of it is not for concurrent use.
type document struct {
	encoded []byte
	decoded ref.Val // nil until it is asked for
}

func (d *document) isNull() bool { return len(d.encoded) == 0 || string(d.encoded) == "null" }

// value is what d says: null where there is none, an error of CEL for what is no JSON.
func (d *document) value(a adapter) ref.Val {
	if d.decoded == nil {
		d.decoded = d.decode(a)
	}
	return d.decoded
}

func (d *document) decode(a adapter) ref.Val {
	if d.isNull() {
		return types.NullValue
	}
	decoder := json.NewDecoder(bytes.NewReader(d.encoded))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.WrapErr(fmt.Errorf("decode an object of the request: %w", err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return types.NewErr("decode an object of the request: something follows it")
	}
	return a.NativeToValue(value)
}
