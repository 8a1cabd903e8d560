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
	return ObjectsWith(files, out, func(*Object, string) bool { return false }, group, kinds...)
}

// ObjectsWith is [Objects] for an importer that uses objects of other kinds, too: those that uses accepts are not skipped.
func ObjectsWith(files []policyfile.File, out *Result, uses func(o *Object, apiVersion string) bool, group string, kinds ...string) (found []*Object) {
	for _, file := range files {
		var list []Node
		for _, n := range Read(file, out) {
			list = append(list, items(n)...)
		}
		for _, n := range list {
			o, apiVersion := parseObject(n)
			if o.Kind == "" && apiVersion == "" {
				o.reportNoObject()
				continue
			}
			if !slices.Contains(kinds, o.Kind) && uses(o, apiVersion) {
				continue
			}
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

// reportNoObject reports a document that is not a Kubernetes object, and the rate limits in it.
func (o *Object) reportNoObject() {
	var limits []limitPlace
	var what, remedy string
	switch {
	case o.has("_format_version"):
		what, remedy = "a configuration of decK", "; write each as a KongPlugin to import it"
		limits = plugins(o.fields, "")
	case o.has("http") || o.has("tcp") || o.has("tls"):
		what, remedy = "a configuration of the file provider of Traefik", "; write each as a Middleware to import it"
		limits = middlewares(o.fields)
	default:
		var keys []string
		for _, f := range o.fields {
			keys = append(keys, f.Key)
		}
		o.Report(Note, "skipped: a document without apiVersion and kind, with the fields %s", strings.Join(keys, ", "))
		return
	}
	o.Report(NotImported, "%s is not read, only Kubernetes objects are%s", what, remedy)
	for _, l := range limits {
		o.out.Add(l.place, NotImported, "%s is skipped", l.name)
	}
}

func (o *Object) has(key string) bool {
	_, has := o.Field(key)
	return has
}

// limitPlace is a rate limit in a document that is not read.
type limitPlace struct {
	place Place
	name  string
}

// plugins returns the rate limits in a configuration of decK: plugins of the whole, of services, routes, consumers and their groups.
func plugins(fields []Field, of string) (found []limitPlace) {
	for _, f := range fields {
		switch f.Key {
		case "plugins":
			for _, n := range f.Value.Items("plugins") {
				if name := nameIn(n); strings.Contains(strings.ReplaceAll(name, "-", ""), "ratelimiting") {
					found = append(found, limitPlace{n.Place(), "plugin " + name + of})
				}
			}
		case "services", "routes", "consumers", "consumer_groups":
			for _, n := range f.Value.Items(f.Key) {
				found = append(found, plugins(n.Fields(f.Key), " of "+strings.TrimSuffix(strings.ReplaceAll(f.Key, "_", " "), "s")+" "+nameIn(n)+of)...)
			}
		}
	}
	return found
}

func nameIn(n Node) string {
	for _, f := range n.Fields("an object") {
		if f.Key == "name" || f.Key == "username" {
			return f.Value.Text(f.Key)
		}
	}
	return ""
}

// middlewares returns the rate limits in a dynamic configuration of Traefik.
func middlewares(fields []Field) (found []limitPlace) {
	for _, protocol := range fields {
		if protocol.Key != "http" && protocol.Key != "tcp" {
			continue
		}
		for _, section := range protocol.Value.Fields(protocol.Key) {
			if section.Key != "middlewares" {
				continue
			}
			for _, m := range section.Value.Fields("middlewares") {
				for _, kind := range m.Value.Fields("a middleware") {
					if kind.Key == "rateLimit" || kind.Key == "inFlightReq" || kind.Key == "inFlightConn" {
						found = append(found, limitPlace{m.Place, "middleware " + m.Key + " (" + kind.Key + ")"})
					}
				}
			}
		}
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
