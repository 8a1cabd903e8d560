package importer

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Object is a Kubernetes object in a file, or another document.
type Object struct {
	Node

	Kind, Namespace, Name string
	APIVersion            string
	fields                []Field
}

// Field returns a field of the object, and whether the object has it.
func (o *Object) Field(key string) (Field, bool) {
	for _, f := range o.fields {
		if f.Key == key {
			return f, true
		}
	}
	return Field{}, false
}

// Body returns the fields of the object that its kind defines: all but apiVersion, kind, metadata and status.
func (o *Object) Body() (fields []Field) {
	for _, f := range o.fields {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, f.Key) {
			fields = append(fields, f)
		}
	}
	return fields
}

// Format describes the objects that an importer reads.
type Format struct {
	Group  string
	Former []string // other names of the group, whose objects have the same fields
	Kinds  []string
	// Content is a field of each object, which references to it do not have. The default is metadata.
	Content string
	// Other is called for each other object, and for documents that are not objects. If it is nil, all of them are skipped.
	Other func(o *Object) Use
}

// Use is what an importer does with an object of another kind.
type Use int

const (
	// Skipped is an object that is noted.
	Skipped Use = iota
	// Used is an object that an importer uses for other objects.
	Used
	// Imported is an object that has limits.
	Imported
)

// Objects returns the objects of one API group in the files, which have one of the kinds. It notes the others, and reports if there is no
// such object. An object of one of the kinds in another group is not imported: projects have renamed their groups. An object without a
// namespace is in the namespace default.
func Objects(files []policyfile.File, out *Result, group string, kinds ...string) []*Object {
	return Format{Group: group, Kinds: kinds}.Objects(files, out)
}

// Objects is [Objects] for a format. It also finds the objects inside of other documents, such as the values of a Helm chart.
func (f Format) Objects(files []policyfile.File, out *Result) []*Object {
	r := objectReader{Format: f, defined: map[string]Place{}}
	for _, file := range files {
		for _, n := range Read(file, out) {
			r.document(n)
		}
	}
	if len(r.found) == 0 && !r.hasLimits && len(files) > 0 {
		out.Add(Place{files[0].Name, 1}, Invalid, "no file has an object of kind %s in %s", strings.Join(f.Kinds, " or "), f.Group)
	}
	return r.found
}

// objectReader finds the objects of a format.
type objectReader struct {
	Format

	found     []*Object
	defined   map[string]Place // by kind, namespace and name
	hasLimits bool             // a document has limits that are not objects of the format
}

// document reads one document, or an item of a list.
func (r *objectReader) document(n Node) {
	if list, isList := items(n); isList {
		for _, item := range list {
			r.document(item)
		}
		return
	}
	o := parseObject(n)
	if r.object(o) {
		return
	}
	inside := false
	for _, part := range n.yaml.Content {
		for _, found := range (Node{n.document, part}).With("apiVersion", "kind", cmp.Or(r.Content, "metadata")) {
			inside = r.object(parseObject(found)) || inside
		}
	}
	what := o.Kind + " of " + o.APIVersion
	if o.Kind == "" && o.APIVersion == "" {
		var keys []string
		for _, f := range o.fields {
			keys = append(keys, f.Key)
		}
		what = "a document without apiVersion and kind, with the fields " + strings.Join(keys, ", ")
	}
	if inside {
		n.Report(Note, "only the objects inside are read: %s", what)
		return
	}
	n.Report(Note, "skipped: %s", what)
}

// object reports whether the importer reads an object.
func (r *objectReader) object(o *Object) bool {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	switch {
	case !slices.Contains(r.Kinds, o.Kind):
		use := Skipped
		if r.Other != nil {
			use = r.Other(o)
		}
		r.hasLimits = r.hasLimits || use == Imported
		return use != Skipped
	case group == v1alpha1.GroupVersion.Group:
		return false
	case group != r.Group && !slices.Contains(r.Former, group):
		o.Report(NotImported, "%s of %s is not in the API group %s; set apiVersion to this group if the fields are the same, or remove the object",
			o.Kind, o.APIVersion, r.Group)
		r.hasLimits = true
		return true
	}
	o.checkNames()
	name := o.Kind + " " + o.Namespace + "/" + o.Name
	if first, isDefined := r.defined[name]; isDefined && o.Name != "" {
		o.Report(Invalid, "%s is already defined at %s:%d; remove one of them", name, first.File, first.Line)
		return true
	}
	r.defined[name] = o.Place()
	r.found = append(r.found, o)
	return true
}

// checkNames reports names that no object can have.
func (o *Object) checkNames() {
	metadata, _ := o.Field("metadata")
	for _, f := range metadata.Value.Fields("metadata") {
		if f.Key == "name" || f.Key == "namespace" {
			f.Value.Name("metadata." + f.Key)
		}
	}
}

// items returns the items of a List, or of a list, and whether the value is one.
func items(n Node) (list []Node, isList bool) {
	if n.yaml.Kind == yaml.SequenceNode {
		return n.Items("objects"), true
	}
	if kind := textOf(n.yaml, "kind"); strings.HasSuffix(kind, "List") && n.Has("items") {
		for _, f := range n.Fields("an object") {
			if f.Key == "items" {
				return f.Value.Items("objects"), true
			}
		}
	}
	return nil, false
}

func parseObject(n Node) *Object {
	o := &Object{Node: n, Namespace: policyfile.DefaultNamespace, fields: n.Fields("an object")}
	for _, f := range o.fields {
		switch f.Key {
		case "apiVersion":
			o.APIVersion = f.Value.Text(f.Key)
		case "kind":
			o.Kind = f.Value.Text(f.Key)
		case "metadata":
			for _, f := range f.Value.Fields("metadata") {
				switch f.Key {
				case "name":
					o.Name = f.Value.Text(f.Key)
				case "namespace":
					o.Namespace = f.Value.Text(f.Key)
				}
			}
		}
	}
	return o
}
