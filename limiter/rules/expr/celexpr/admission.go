package celexpr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/weir-dev/weir/limiter/rules"
)

// The names of the CEL types that only expressions over writes to the Kubernetes API have.
const (
	resourceName = "resource"
	kindName     = "kind"
	userInfoName = "userInfo"
)

// admissionRequest is a KubernetesRequest as a CEL value with the fields of an AdmissionRequest. Objects are decoded at most once, when
// an expression first reads them.
type admissionRequest struct {
	*rules.KubernetesRequest

	object, oldObject, options lazyJSON
}

// The parts of an admissionRequest that are CEL objects.
type (
	admissionResource admissionRequest
	admissionKind     admissionRequest
	admissionUser     admissionRequest
)

func (w *admissionRequest) set(r *rules.KubernetesRequest) {
	w.KubernetesRequest = r
	w.object.encoded, w.oldObject.encoded, w.options.encoded = r.Object, r.OldObject, r.Options
}

func admissionFields() []field[admissionRequest] {
	objectType := func(name string) *types.Type { return types.NewObjectType(name) }
	always := func(*admissionRequest) bool { return true }
	return []field[admissionRequest]{
		{"operation", types.StringType, func(w *admissionRequest) any { return w.Operation }, func(w *admissionRequest) bool { return w.Operation != "" }},
		{"resource", objectType(resourceName), func(w *admissionRequest) any { return (*admissionResource)(w) }, always},
		{"subResource", types.StringType, func(w *admissionRequest) any { return w.Subresource }, func(w *admissionRequest) bool { return w.Subresource != "" }},
		{"kind", objectType(kindName), func(w *admissionRequest) any { return (*admissionKind)(w) }, always},
		{"namespace", types.StringType, func(w *admissionRequest) any { return w.Namespace }, func(w *admissionRequest) bool { return w.Namespace != "" }},
		{"name", types.StringType, func(w *admissionRequest) any { return w.Name }, func(w *admissionRequest) bool { return w.Name != "" }},
		{"userInfo", objectType(userInfoName), func(w *admissionRequest) any { return (*admissionUser)(w) }, always},
		{"object", types.DynType, func(w *admissionRequest) any { return &w.object }, func(w *admissionRequest) bool { return !w.object.isNull() }},
		{"oldObject", types.DynType, func(w *admissionRequest) any { return &w.oldObject }, func(w *admissionRequest) bool { return !w.oldObject.isNull() }},
		{"options", types.DynType, func(w *admissionRequest) any { return &w.options }, func(w *admissionRequest) bool { return !w.options.isNull() }},
		{"dryRun", types.BoolType, func(w *admissionRequest) any { return w.DryRun }, func(w *admissionRequest) bool { return w.DryRun }},
	}
}

func resourceFields() []field[admissionResource] {
	return []field[admissionResource]{
		{"group", types.StringType, func(w *admissionResource) any { return w.Group }, func(w *admissionResource) bool { return w.Group != "" }},
		{"version", types.StringType, func(w *admissionResource) any { return w.Version }, func(w *admissionResource) bool { return w.Version != "" }},
		{"resource", types.StringType, func(w *admissionResource) any { return w.Resource }, func(w *admissionResource) bool { return w.Resource != "" }},
	}
}

func kindFields() []field[admissionKind] {
	return []field[admissionKind]{
		{"kind", types.StringType, func(w *admissionKind) any { return w.Kind }, func(w *admissionKind) bool { return w.Kind != "" }},
	}
}

func userInfoFields() []field[admissionUser] {
	texts := types.NewListType(types.StringType)
	return []field[admissionUser]{
		{"username", types.StringType, func(w *admissionUser) any { return w.User }, func(w *admissionUser) bool { return w.User != "" }},
		{"groups", texts, func(w *admissionUser) any { return w.Groups }, func(w *admissionUser) bool { return len(w.Groups) > 0 }},
		{
			"extra", types.NewMapType(types.StringType, texts),
			func(w *admissionUser) any { return w.Extra }, func(w *admissionUser) bool { return len(w.Extra) > 0 },
		},
	}
}

// lazyJSON is JSON that is decoded when it is first read. It is not safe for concurrent use.
type lazyJSON struct {
	encoded []byte
	decoded ref.Val // nil until the first read
}

// values returns the maximum number of values in the JSON.
func (d *lazyJSON) values() int {
	return 1 + bytes.Count(d.encoded, []byte(",")) + bytes.Count(d.encoded, []byte("[")) + bytes.Count(d.encoded, []byte("{"))
}

func (d *lazyJSON) isNull() bool { return len(d.encoded) == 0 || string(d.encoded) == "null" }

// value returns the decoded value: null if there is no JSON, or a CEL error if the JSON is invalid.
func (d *lazyJSON) value(a adapter) ref.Val {
	if d.decoded == nil {
		d.decoded = d.decode(a)
	}
	return d.decoded
}

// The bounds of an object that expressions can read. It is decoded once for all policies, which takes up to three milliseconds.
const (
	maxObject       = 256 << 10 // bytes
	maxObjectValues = 8192
)

func (d *lazyJSON) decode(a adapter) ref.Val {
	if d.isNull() {
		return types.NullValue
	}
	if len(d.encoded) > maxObject || d.values() > maxObjectValues {
		return types.WrapErr(errOverBudget)
	}
	decoder := json.NewDecoder(bytes.NewReader(d.encoded))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.WrapErr(fmt.Errorf("decode an object of the request: %w", err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return types.NewErr("decode an object of the request: unexpected data after the JSON value")
	}
	return a.NativeToValue(value)
}
