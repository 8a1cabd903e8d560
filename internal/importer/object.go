package importer

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Object is a Kubernetes object in a file.
type Object struct {
	Node

	Kind, Namespace, Name string
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

// Objects returns the objects of one API group in the files, which have one of the kinds. It notes the others, and reports if there is no
// such object. An object of one of the kinds in another group is not imported: projects have renamed their groups. An object without a
// namespace is in the namespace default.
func Objects(files []policyfile.File, out *Result, group string, kinds ...string) (found []*Object) {
	for _, file := range files {
		var list []Node
		for _, n := range Read(file, out) {
			list = append(list, items(n)...)
		}
		for _, n := range list {
			o, apiVersion := parseObject(n)
			switch objectGroup, _, _ := strings.Cut(apiVersion, "/"); {
			case !slices.Contains(kinds, o.Kind) || objectGroup == v1alpha1.GroupVersion.Group:
				n.Report(Note, "skipped: %s of %s", o.Kind, apiVersion)
				continue
			case objectGroup != group:
				n.Report(NotImported, "%s of %s is not in the API group %s; set apiVersion to this group if the fields are the same, or remove the object",
					o.Kind, apiVersion, group)
				continue
			}
			found = append(found, o)
		}
	}
	if len(found) == 0 && len(files) > 0 {
		out.Add(Place{files[0].Name, 1}, Invalid, "no file has an object of kind %s in %s", strings.Join(kinds, " or "), group)
	}
	return found
}

// items returns the items of a List, or the object itself.
func items(n Node) []Node {
	fields := n.Fields("an object")
	for _, f := range fields {
		if f.Key == "kind" && strings.HasSuffix(f.Value.Text("kind"), "List") {
			for _, f := range fields {
				if f.Key == "items" {
					return f.Value.Items("objects")
				}
			}
		}
	}
	return []Node{n}
}

func parseObject(n Node) (o *Object, apiVersion string) {
	o = &Object{Node: n, Namespace: policyfile.DefaultNamespace, fields: n.Fields("an object")}
	for _, f := range o.fields {
		switch f.Key {
		case "apiVersion":
			apiVersion = f.Value.Text(f.Key)
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
	return o, apiVersion
}
