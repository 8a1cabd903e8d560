package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
)

// kongAttachments are the objects that name plugins, by the names of the plugins: "namespace/name". The map must not be nil.
type kongAttachments map[string][]*kongAttachment

// kongAttachment is an object that names a plugin: an Ingress, an HTTPRoute, a Service or a consumer.
type kongAttachment struct {
	*importer.Object

	rules []kongRule // of an Ingress or an HTTPRoute
}

// kongRule is a host and a path. An empty host is every host.
type kongRule struct {
	host, path, pathType string
	methods              string // separated by spaces, empty for all
	unsupported          string // what the rule compares in addition, which is not imported
}

// add keeps an object that names plugins, and reports whether it does.
func (a kongAttachments) add(o *importer.Object) bool {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	var rules []kongRule
	switch group + " " + o.Kind {
	case "networking.k8s.io Ingress":
		rules = rulesOf(o)
	case "gateway.networking.k8s.io HTTPRoute":
		return a.addRoute(o)
	case "v1 Service", "configuration.konghq.com KongConsumer", "configuration.konghq.com KongConsumerGroup":
	default:
		return false
	}
	return a.addNamed(o, rules)
}

// addNamed keeps an object for the plugins in its annotation.
func (a kongAttachments) addNamed(o *importer.Object, rules []kongRule) bool {
	names := strings.FieldsFunc(metadataText(o, "annotations", "konghq.com/plugins"), func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range names {
		key := o.Namespace + "/" + name
		a[key] = append(a[key], &kongAttachment{Object: o, rules: rules})
	}
	return len(names) > 0
}

// addRoute keeps an HTTPRoute, whose rules can name plugins, too.
func (a kongAttachments) addRoute(o *importer.Object) bool {
	spec, _ := o.Field("spec")
	hosts := []string{""}
	var rules []kongRule
	byPlugin := map[string][]kongRule{}
	fields := spec.Value.Fields("spec")
	for _, f := range fields {
		if f.Key == "hostnames" && len(f.Value.Items(f.Key)) > 0 {
			hosts = nil
			for _, n := range f.Value.Items(f.Key) {
				hosts = append(hosts, n.Text(f.Key))
			}
		}
	}
	for _, f := range fields {
		if f.Key != "rules" {
			continue
		}
		for _, n := range f.Value.Items(f.Key) {
			matches, plugins := routeRule(n)
			for _, host := range hosts {
				for _, r := range matches {
					r.host = host
					rules = append(rules, r)
					for _, plugin := range plugins {
						byPlugin[plugin] = append(byPlugin[plugin], r)
					}
				}
			}
		}
	}
	if len(rules) == 0 {
		for _, host := range hosts {
			rules = append(rules, kongRule{host: host, pathType: "Prefix"})
		}
	}
	for plugin, rules := range byPlugin {
		key := o.Namespace + "/" + plugin
		a[key] = append(a[key], &kongAttachment{Object: o, rules: rules})
	}
	return a.addNamed(o, rules) || len(byPlugin) > 0
}

// routeRule returns the matches of a rule of an HTTPRoute, without hosts, and the plugins that its filters name.
func routeRule(n importer.Node) (rules []kongRule, plugins []string) {
	for _, f := range n.Fields("a rule") {
		switch f.Key {
		case "matches":
			for _, m := range f.Value.Items(f.Key) {
				rules = append(rules, routeMatch(m))
			}
		case "filters":
			for _, filter := range f.Value.Items(f.Key) {
				for _, field := range filter.Fields("a filter") {
					if field.Key == "extensionRef" {
						plugins = append(plugins, kongPluginIn(field.Value)...)
					}
				}
			}
		}
	}
	if len(rules) == 0 {
		rules = []kongRule{{pathType: "Prefix"}}
	}
	return rules, plugins
}

// kongPluginIn returns the name of the plugin in a reference.
func kongPluginIn(reference importer.Node) []string {
	kind, name := "", ""
	for _, f := range reference.Fields("extensionRef") {
		switch f.Key {
		case "kind":
			kind = f.Value.Text(f.Key)
		case "name":
			name = f.Value.Text(f.Key)
		}
	}
	if kind != "KongPlugin" {
		return nil
	}
	return []string{name}
}

func routeMatch(n importer.Node) kongRule {
	r := kongRule{pathType: "Prefix"}
	for _, f := range n.Fields("a match") {
		switch f.Key {
		case "path":
			pathType := "PathPrefix"
			for _, p := range f.Value.Fields("path") {
				switch p.Key {
				case "type":
					pathType = p.Value.Text(p.Key)
				case "value":
					r.path = p.Value.Text(p.Key)
				}
			}
			switch pathType {
			case "PathPrefix":
			case "Exact":
				r.pathType = "Exact"
			default:
				r.unsupported = "path of type " + pathType
			}
		case "method":
			r.methods = f.Value.Text(f.Key)
		default:
			r.unsupported = f.Key
		}
	}
	return r
}

// kongScope is what a plugin applies to.
type kongScope struct {
	match    *v1alpha1.HTTPMatch // nil for all requests
	rules    []kongRule          // of the objects that name the plugin, if they are known
	isGlobal bool                // the plugin applies to all requests that have no other
}

// of returns what the objects that name a plugin match, and whether a policy can have it. It reports the differences.
func (a kongAttachments) of(plugin *kongPlugin) (scope kongScope, ok bool) {
	var attached []*kongAttachment
	for _, key := range slices.Sorted(maps.Keys(a)) {
		namespace, name, _ := strings.Cut(key, "/")
		if name == plugin.Name && (namespace == plugin.Namespace || plugin.isCluster) {
			attached = append(attached, a[key]...)
		}
	}
	var rules []kongRule
	var names []string
	isGlobal := plugin.isCluster && metadataText(plugin.Object, "labels", "global") == "true"
	isWhole := isGlobal
	for _, o := range attached {
		switch o.Kind {
		case "KongConsumer", "KongConsumerGroup":
			o.Report(importer.NotImported, "the plugin %s applies to the requests of %s %s; write a policy with a condition on the header or claim of the consumer",
				plugin.Name, o.Kind, o.Name)
			return kongScope{}, false
		case "Service":
			isWhole = true
			o.Report(importer.Difference, "the plugin %s applies to the requests for the Service %s, and its policies to all requests of their domain; add match.http "+
				"with the routes of the Service", plugin.Name, o.Name)
			continue
		}
		names = append(names, o.Kind+" "+o.Name)
		rules = append(rules, o.rules...)
		if !supported(o.Object, o.rules) {
			return kongScope{}, false
		}
	}
	switch {
	case isWhole:
		return kongScope{isGlobal: isGlobal}, true
	case len(names) == 0:
		plugin.Report(importer.Difference, "the policies apply to all requests of their domain, because no Ingress or HTTPRoute in the files names the plugin in "+
			"the annotation konghq.com/plugins; add the Ingress, or match.http")
		return kongScope{}, true
	}
	return merged(plugin.Object, strings.Join(names, ", "), rules), true
}

// supported reports whether a policy can have the rules. It reports what no policy has, and what differs.
func supported(o *importer.Object, rules []kongRule) bool {
	ok := true
	for _, r := range rules {
		switch {
		case strings.HasPrefix(r.path, "/~"), strings.HasPrefix(r.path, "~"):
			o.Report(importer.NotImported, "path %s is a regular expression of Kong; write a policy with match.http.paths of type RegularExpression", r.path)
			ok = false
		case r.unsupported != "":
			o.Report(importer.NotImported, "%s of a route: no policy is written; write one with the condition in match.http", r.unsupported)
			ok = false
		case r.pathType != "Exact" && r.pathType != "Prefix" && r.path != "" && r.path != "/":
			o.Report(importer.Difference, "path %s is a prefix of the text in Kong, and of path segments in the policy (PathPrefix): /a matches /a/b, and not /ab",
				r.path)
		}
	}
	return ok
}

// merged returns a scope for the rules of the objects that have a plugin.
func merged(plugin *importer.Object, names string, all []kongRule) kongScope {
	var rules []kongRule
	for _, r := range all {
		if !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	if len(rules) > 1 {
		plugin.Report(importer.Difference, "Kong counts each route of %s alone; the policies count all of them together", names)
	}
	match := matchOf(rules)
	if len(match.Hosts)+len(match.Paths)+len(match.Methods) == 0 && match.Expression == nil { // every request
		match = nil
	}
	return kongScope{match: match, rules: rules}
}

// matchOf returns a match for rules: lists of hosts and paths if these have all combinations, or an expression.
func matchOf(rules []kongRule) *v1alpha1.HTTPMatch {
	var hosts []string
	var paths []kongRule
	sameMethods := true
	for _, r := range rules {
		sameMethods = sameMethods && r.methods == rules[0].methods
		if !slices.Contains(hosts, r.host) {
			hosts = append(hosts, r.host)
		}
		path := kongRule{path: r.path, pathType: r.pathType}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if !sameMethods || len(hosts)*len(paths) != len(rules) || len(hosts) > 1 && slices.Contains(hosts, "") {
		return &v1alpha1.HTTPMatch{Expression: new(v1alpha1.Expression(expressionFor(rules)))}
	}
	match := &v1alpha1.HTTPMatch{}
	for method := range strings.FieldsSeq(rules[0].methods) {
		match.Methods = append(match.Methods, v1alpha1.Method(method))
	}
	for _, host := range hosts {
		if host != "" {
			match.Hosts = append(match.Hosts, v1alpha1.Host(host))
		}
	}
	for _, p := range paths {
		switch {
		case p.pathType == "Exact":
			match.Paths = append(match.Paths, v1alpha1.PathMatch{Type: v1alpha1.PathExact, Value: p.path})
		case p.path != "" && p.path != "/":
			match.Paths = append(match.Paths, v1alpha1.PathMatch{Type: v1alpha1.PathPrefix, Value: strings.TrimSuffix(p.path, "/")})
		case len(paths) > 1: // one of them is every path
			match.Paths = nil
			return match
		}
	}
	return match
}

// expressionFor returns an expression for rules whose hosts have different paths.
func expressionFor(rules []kongRule) string {
	var alternatives []string
	for _, r := range rules {
		var conditions []string
		switch {
		case strings.HasPrefix(r.host, "*."):
			conditions = append(conditions, fmt.Sprintf("request.host.endsWith(%q)", r.host[1:]))
		case r.host != "":
			conditions = append(conditions, fmt.Sprintf("request.host == %q", r.host))
		}
		if methods := strings.Fields(r.methods); len(methods) > 0 {
			conditions = append(conditions, fmt.Sprintf("request.method in [%s]", `"`+strings.Join(methods, `", "`)+`"`))
		}
		switch prefix := strings.TrimSuffix(r.path, "/"); {
		case r.pathType == "Exact":
			conditions = append(conditions, fmt.Sprintf("request.path == %q", r.path))
		case prefix != "":
			conditions = append(conditions, fmt.Sprintf("(request.path == %q || request.path.startsWith(%q))", prefix, prefix+"/"))
		}
		if len(conditions) == 0 {
			return "true"
		}
		alternatives = append(alternatives, "("+strings.Join(conditions, " && ")+")")
	}
	return strings.Join(alternatives, " || ")
}

// reportBroader reports the plugins next to others for some of their requests: Kong uses the most specific one only. It takes linear time.
func reportBroader(plugins []*kongPlugin) {
	type place struct {
		namespace string // "" is any
		rule      kongRule
	}
	narrowest, specific := map[place]*kongPlugin{}, map[string]*kongPlugin{} // the latter by namespace
	for _, k := range plugins {
		for _, namespace := range []string{k.Namespace, ""} {
			if !k.scope.isGlobal {
				specific[namespace] = k
			}
			for _, rule := range k.scope.rules {
				at := place{namespace, rule}
				if other := narrowest[at]; other == nil || len(k.scope.rules) < len(other.scope.rules) {
					narrowest[at] = k
				}
			}
		}
	}
	for _, k := range plugins {
		namespace := k.Namespace
		if k.isCluster {
			namespace = ""
		}
		var other *kongPlugin
		if k.scope.isGlobal {
			other = specific[namespace]
		}
		for _, rule := range k.scope.rules {
			if n := narrowest[place{namespace, rule}]; len(n.scope.rules) < len(k.scope.rules) {
				other = n
			}
		}
		if other != nil {
			k.Report(importer.Difference, "Kong does not apply this plugin to the requests of a more specific one, such as %s; the policies apply to them, too",
				strings.Join(other.path, " "))
		}
	}
}

// metadataText returns an annotation or a label of an object.
func metadataText(o *importer.Object, of, name string) string {
	metadata, _ := o.Field("metadata")
	for _, f := range metadata.Value.Fields("metadata") {
		if f.Key != of {
			continue
		}
		for _, a := range f.Value.Fields(of) {
			if a.Key == name {
				return a.Value.Text(name)
			}
		}
	}
	return ""
}

// rulesOf returns the hosts and paths of an Ingress. Without rules, it is every request.
func rulesOf(o *importer.Object) (rules []kongRule) {
	spec, _ := o.Field("spec")
	for _, f := range spec.Value.Fields("spec") {
		if f.Key != "rules" {
			continue
		}
		for _, n := range f.Value.Items("rules") {
			rules = append(rules, ruleOf(n)...)
		}
	}
	if len(rules) == 0 {
		return []kongRule{{pathType: "Prefix"}}
	}
	return rules
}

func ruleOf(n importer.Node) (rules []kongRule) {
	host := ""
	for _, f := range n.Fields("a rule") {
		switch f.Key {
		case "host":
			host = f.Value.Text(f.Key)
		case "http":
			for _, h := range f.Value.Fields("http") {
				for _, p := range h.Value.Items("paths") {
					r := kongRule{pathType: "ImplementationSpecific"}
					for _, field := range p.Fields("a path") {
						switch field.Key {
						case "path":
							r.path = field.Value.Text(field.Key)
						case "pathType":
							r.pathType = field.Value.Text(field.Key)
						}
					}
					rules = append(rules, r)
				}
			}
		}
	}
	if len(rules) == 0 {
		rules = []kongRule{{pathType: "Prefix"}}
	}
	for i := range rules {
		rules[i].host = host
	}
	return rules
}
