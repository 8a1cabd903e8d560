package objects

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// eventKey returns the key of a limit of type SourceAndObject: the source of the event and the object that it is about. The two API groups of
// Events have different names for them. The plugin does not read reportingController.
func eventKey() string {
	return `request.resource.group == "" ? ` + eventFields("source", "involvedObject") + ` : ` + eventFields("deprecatedSource", "regarding")
}

func eventFields(source, object string) string {
	fields := []string{source + ".component", source + ".host"}
	for _, name := range []string{"kind", "namespace", "name", "uid", "apiVersion"} {
		fields = append(fields, object+"."+name)
	}
	for i, field := range fields {
		fields[i] = `request.object.?` + field + `.orValue("")`
	}
	return "[" + strings.Join(fields, ", ") + `].join("/")`
}

// EventRateLimit converts the configuration of the admission plugin EventRateLimit of the Kubernetes API server.
func EventRateLimit(files []policyfile.File) *importer.Result {
	out := &importer.Result{}
	var elsewhere importer.Field // path of the plugin in the configuration of all plugins
	format := importer.Format{
		Group: "eventratelimit.admission.k8s.io", Kinds: []string{"Configuration"}, Content: "limits",
		Other: func(o *importer.Object) importer.Use {
			path := eventRateLimitPath(o)
			if path.Key == "" {
				return importer.Skipped
			}
			elsewhere = path
			return importer.Imported
		},
	}
	configurations := format.Objects(files, out)
	if len(configurations) == 0 && elsewhere.Key != "" {
		out.Add(elsewhere.Place, importer.Invalid, "the configuration of EventRateLimit is in the file %s; name this file, too", elsewhere.Value.Text(elsewhere.Key))
	}
	for _, o := range configurations {
		limits, _ := o.Field("limits")
		if limits.Key == "" {
			o.Report(importer.Invalid, "limits is missing; the plugin requires at least one limit")
			continue
		}
		out.Add(limits.Place, importer.Difference, "each API server counts these limits alone; the policies count for all of them together, so multiply "+
			"qps and burst by their number")
		out.Add(limits.Place, importer.Difference, "Weir does not limit the Events of nodes, kube-system and the components of the cluster; if these are "+
			"too many, keep EventRateLimit")
		for _, n := range limits.Value.Items("limits") {
			eventLimit(out, n)
		}
	}
	return out
}

// eventRateLimitPath returns the field with the file that EventRateLimit reads, if o is the configuration of all admission plugins. A configuration
// inside of it is an object of its own.
func eventRateLimitPath(o *importer.Object) (path importer.Field) {
	if o.Kind != "AdmissionConfiguration" {
		return importer.Field{}
	}
	plugins, _ := o.Field("plugins")
	for _, n := range plugins.Value.Items("plugins") {
		isEventRateLimit, file := false, importer.Field{}
		for _, f := range n.Fields("a plugin") {
			switch f.Key {
			case "name":
				isEventRateLimit = f.Value.Text(f.Key) == "EventRateLimit"
			case "path":
				file = f
			}
		}
		if isEventRateLimit {
			path = file
		}
	}
	return path
}

func eventLimit(out *importer.Result, n importer.Node) {
	spec := v1alpha1.RateLimitPolicySpec{Window: "1s", Algorithm: v1alpha1.TokenBucket}
	kind, limit, burst := "", int64(0), int64(0)
	for _, f := range n.Fields("a limit") {
		switch f.Key {
		case "type":
			kind = f.Value.Text(f.Key)
		case "qps":
			limit = f.Value.Int(f.Key)
		case "burst":
			burst = f.Value.Int(f.Key)
		case "cacheSize":
			out.Add(f.Place, importer.Note, "cacheSize has no effect: identifiers.max of the Limiter bounds the number of counters")
		default:
			n.Unknown(f, "a limit", "type", "qps", "burst", "cacheSize")
		}
	}
	switch kind {
	case "Server":
		spec.Axis, spec.Identifier = v1alpha1.AxisCustom, oneForAll()
	case "Namespace":
		spec.Axis = v1alpha1.AxisNamespace
	case "User":
		spec.Axis = v1alpha1.AxisUser
	case "SourceAndObject":
		spec.Axis, spec.Identifier = v1alpha1.AxisCustom, expressionOf(eventKey())
	default:
		n.Report(importer.Invalid, "type must be Server, Namespace, User or SourceAndObject, but is %q", kind)
		return
	}
	if limit == 0 || burst == 0 {
		n.Report(importer.Invalid, "qps and burst must be more than 0, as the API server requires; to deny every Event, write a policy with limit: 0")
		return
	}
	spec.Limit, spec.Burst = &limit, &burst
	spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
		APIGroups: []v1alpha1.APIGroup{"", "events.k8s.io"}, Resources: []v1alpha1.ResourceName{"events"},
		Operations: []v1alpha1.Operation{"CREATE", "UPDATE"},
	}}}}
	out.Policies = append(out.Policies, importer.Policy{
		Place: n.Place(), Cluster: true, Path: []string{"events", kind}, Spec: spec, Comment: fmt.Sprintf("%s, %d per second, burst %d", kind, limit, burst),
	})
}
