package objects

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
)

// kongAttachments are the Ingresses that name plugins, by the names of the plugins: "namespace/name". The map must not be nil.
type kongAttachments map[string][]*kongIngress

// kongIngress is an Ingress with the annotation konghq.com/plugins.
type kongIngress struct {
	*importer.Object

	rules []kongRule
}

// kongRule is a host and a path of an Ingress. An empty host is every host.
type kongRule struct{ host, path, pathType string }

// add keeps an Ingress that names plugins, and reports whether it does.
func (a kongAttachments) add(o *importer.Object, apiVersion string) bool {
	if o.Kind != "Ingress" || apiVersion != "networking.k8s.io/v1" {
		return false
	}
	names := strings.FieldsFunc(annotation(o, "konghq.com/plugins"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		return false
	}
	ingress := &kongIngress{Object: o, rules: rulesOf(o)}
	for _, name := range names {
		key := o.Namespace + "/" + name
		a[key] = append(a[key], ingress)
	}
	return true
}

// of returns what the Ingresses that name a plugin match, nil without an Ingress. It reports the differences.
func (a kongAttachments) of(plugin *importer.Object) *v1alpha1.HTTPMatch {
	var ingresses []*kongIngress
	for key, list := range a {
		namespace, name, _ := strings.Cut(key, "/")
		if name == plugin.Name && (namespace == plugin.Namespace || plugin.Kind == "KongClusterPlugin") {
			ingresses = append(ingresses, list...)
		}
	}
	if len(ingresses) == 0 {
		return nil
	}
	var rules []kongRule
	var names []string
	for _, ingress := range ingresses {
		names = append(names, ingress.Name)
		for _, r := range ingress.rules {
			if strings.HasPrefix(r.path, "/~") {
				ingress.Report(importer.NotImported, "path %s is a regular expression of Kong; write match.http.paths with type RegularExpression in the policy", r.path)
				continue
			}
			if r.pathType != "Exact" && r.pathType != "Prefix" {
				ingress.Report(importer.Difference, "path %s has the type %s, which is imported as PathPrefix: /a then matches /a/b, and not /ab as in Kong",
					r.path, r.pathType)
			}
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	if len(rules) > 1 {
		slices.Sort(names)
		plugin.Report(importer.Difference, "Kong counts each route of Ingress %s alone; the policies count all of them together", strings.Join(names, ", "))
	}
	return matchOf(rules)
}

// matchOf returns a match for rules: lists of hosts and paths if these have all combinations, or an expression.
func matchOf(rules []kongRule) *v1alpha1.HTTPMatch {
	var hosts []string
	var paths []kongRule
	for _, r := range rules {
		if !slices.Contains(hosts, r.host) {
			hosts = append(hosts, r.host)
		}
		path := kongRule{path: r.path, pathType: r.pathType}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if len(hosts)*len(paths) != len(rules) || len(hosts) > 1 && slices.Contains(hosts, "") {
		return &v1alpha1.HTTPMatch{Expression: new(v1alpha1.Expression(expressionFor(rules)))}
	}
	match := &v1alpha1.HTTPMatch{}
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

func annotation(o *importer.Object, name string) string {
	metadata, _ := o.Field("metadata")
	for _, f := range metadata.Value.Fields("metadata") {
		if f.Key != "annotations" {
			continue
		}
		for _, a := range f.Value.Fields("annotations") {
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
