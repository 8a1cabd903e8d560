package objects

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/importer"
)

// deckReader reads configurations of decK, which have services, routes and plugins inside of each other or with references by name.
type deckReader struct {
	out     *importer.Result
	rules   map[string][]kongRule // of services and routes, by "service shop" or "route search"
	plugins []*kongPlugin
}

// add reads a configuration, and reports whether a document is one. Its plugins have no namespace, as objects without one.
func (d *deckReader) add(o *importer.Object) bool {
	fields := o.Body()
	isDeck := slices.ContainsFunc(fields, func(f importer.Field) bool {
		return f.Key == "_format_version" || slices.Contains([]string{"services", "routes", "plugins", "consumers"}, f.Key) && f.Value.IsList()
	})
	if o.Kind != "" || o.APIVersion != "" || !isDeck {
		return false
	}
	d.entities(o, fields, "", "")
	return true
}

// entities reads services, routes, consumers and plugins. They belong to the service, and to what else is named, such as "route search".
func (d *deckReader) entities(o *importer.Object, fields []importer.Field, service, of string) {
	for _, f := range fields {
		switch f.Key {
		case "services":
			for i, n := range f.Value.Items("services") {
				name := "service " + deckName(n, i)
				d.entities(o, n.Fields("a service"), name, name)
			}
		case "routes":
			for i, n := range f.Value.Items("routes") {
				route := n.Fields("a route")
				name, parent := "route "+deckName(n, i), service
				if reference := deckReference(route, "service"); reference != "" {
					parent = "service " + reference
				}
				rules := deckRules(route)
				d.rules[name] = append(d.rules[name], rules...)
				if parent != "" {
					d.rules[parent] = append(d.rules[parent], rules...)
				}
				d.entities(o, route, "", name)
			}
		case "consumers", "consumer_groups":
			for i, n := range f.Value.Items(f.Key) {
				d.entities(o, n.Fields("a consumer"), "", "consumer "+deckName(n, i))
			}
		case "plugins":
			for _, n := range f.Value.Items("plugins") {
				d.plugin(o, n, of)
			}
		}
	}
}

func (d *deckReader) plugin(o *importer.Object, n importer.Node, of string) {
	fields := n.Fields("a plugin")
	for _, kind := range []string{"consumer", "service", "route"} { // a route is more specific
		if reference := deckReference(fields, kind); reference != "" && of == "" {
			of = kind + " " + reference
		}
	}
	plugin := *o
	plugin.Node = n
	k := &kongPlugin{Object: &plugin, path: []string{"rate-limiting"}, fields: fields}
	if of != "" {
		k.path = append(k.path, of)
	}
	for _, f := range fields {
		switch f.Key {
		case "name":
			k.name = f
		case "enabled":
			if !f.Value.IsNull() && !f.Value.Bool(f.Key) {
				k.disabled = f
			}
		}
	}
	k.find = func(k *kongPlugin) (kongScope, bool) { return d.scope(k, of) }
	d.plugins = append(d.plugins, k)
}

// scope returns what a plugin of a service or a route applies to, after all of them are read.
func (d *deckReader) scope(k *kongPlugin, of string) (scope kongScope, ok bool) {
	switch rules := d.rules[of]; {
	case of == "":
		return kongScope{isGlobal: true}, true
	case strings.HasPrefix(of, "consumer "):
		k.Report(importer.NotImported, "the plugin applies to %s; write a policy with a condition on the header or claim of the consumer", of)
		return kongScope{}, false
	case len(rules) == 0:
		k.Report(importer.NotImported, "%s has no route in the files; add its routes", of)
		return kongScope{}, false
	case !supported(k.Object, rules):
		return kongScope{}, false
	default:
		return merged(k.Object, of, rules), true
	}
}

// deckRules returns the hosts and paths of a route.
func deckRules(fields []importer.Field) (rules []kongRule) {
	all := kongRule{pathType: "of Kong"}
	hosts, paths := []string{""}, []string{""}
	for _, f := range fields {
		switch f.Key {
		case "hosts":
			hosts = textsOr(f, hosts)
		case "paths":
			paths = textsOr(f, paths)
		case "methods":
			all.methods = strings.Join(textsOr(f, nil), " ")
		case "headers", "snis", "sources", "destinations", "expression":
			if !f.Value.IsNull() {
				all.unsupported = f.Key
			}
		}
	}
	for _, host := range hosts {
		for _, path := range paths {
			r := all
			r.host, r.path = host, path
			if strings.HasSuffix(host, "*") {
				r.unsupported = "host " + host
			}
			rules = append(rules, r)
		}
	}
	return rules
}

// textsOr returns the texts of a list, or others if there are no texts.
func textsOr(f importer.Field, others []string) (texts []string) {
	for _, n := range f.Value.Items(f.Key) {
		texts = append(texts, n.Text(f.Key))
	}
	if len(texts) == 0 {
		return others
	}
	return texts
}

// deckName returns the name of a service, a route or a consumer, or its number.
func deckName(n importer.Node, i int) string {
	for _, f := range n.Fields("an entity") {
		if f.Key == "name" || f.Key == "username" {
			return f.Value.Text(f.Key)
		}
	}
	return fmt.Sprintf("%d in line %d", i+1, n.Place().Line)
}

// deckReference returns the name or the id in a field such as service, which is a text or a mapping.
func deckReference(fields []importer.Field, key string) string {
	for _, f := range fields {
		if f.Key != key || f.Value.IsNull() {
			continue
		}
		if !f.Value.Has() {
			return f.Value.Text(key)
		}
		for _, inner := range f.Value.Fields(key) {
			if inner.Key == "name" || inner.Key == "id" {
				return inner.Value.Text(inner.Key)
			}
		}
	}
	return ""
}
