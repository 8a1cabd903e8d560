package objects

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// Kong converts the plugin rate-limiting in KongPlugin and KongClusterPlugin objects.
func Kong(files []policyfile.File) *importer.Result {
	out := &importer.Result{}
	attached := kongAttachments{}
	for _, o := range importer.ObjectsWith(files, out, attached.add, "configuration.konghq.com", "KongPlugin", "KongClusterPlugin") {
		plugin, _ := o.Field("plugin")
		name := ""
		if plugin.Key != "" {
			name = plugin.Value.Text("plugin")
		}
		if name != "rate-limiting" {
			kind := importer.Note
			if strings.Contains(strings.ReplaceAll(name, "-", ""), "ratelimiting") { // also response-ratelimiting
				kind = importer.NotImported
			}
			o.Report(kind, "plugin %s is not imported; only rate-limiting is", name)
			continue
		}
		if disabled, found := o.Field("disabled"); found && disabled.Value.Bool(disabled.Key) {
			out.Add(disabled.Place, importer.Note, "the plugin is disabled, so it does not need a policy")
			continue
		}
		k := kongPlugin{Object: o, out: out, limitBy: "consumer", isLocal: true, spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisCustom, Algorithm: v1alpha1.FixedWindow, OnStoreFailure: v1alpha1.StoreFailureAllow, // fault_tolerant is the default
		}}
		rejected := func() int { return out.Count(importer.NotImported) + out.Count(importer.Invalid) }
		previously := rejected()
		k.body()
		k.identify() // also after an unknown field: what is limited by decides whether the plugin can be imported at all
		if rejected() == previously {
			k.convert(attached.of(o))
		}
	}
	return out
}

// kongPlugin is a rate-limiting plugin.
type kongPlugin struct {
	*importer.Object

	out                   *importer.Result
	spec                  v1alpha1.RateLimitPolicySpec
	limitBy, header, path string
	limitByField          importer.Field // limit_by
	isLocal               bool           // policy, which is local by default
	limits                []importer.Field
}

// body reads the fields of the object.
func (k *kongPlugin) body() {
	for _, f := range k.Body() {
		switch f.Key {
		case "plugin", "disabled":
		case "config":
			k.config(f)
		case "configFrom", "configPatches":
			unsupported(k.out, f, "it reads the configuration from Secrets; write the configuration in config")
		case "consumerRef":
			unsupported(k.out, f, "the plugin applies to one consumer; write a policy with a condition on the header or claim of the consumer")
		case "protocols":
			var protocols []string
			for _, n := range f.Value.Items("protocols") {
				protocols = append(protocols, n.Text(f.Key))
			}
			if !slices.Contains(protocols, "http") || !slices.Contains(protocols, "https") {
				unsupported(k.out, f, "a policy applies to all protocols; list http and https, or remove protocols")
			}
		case "instance_name", "ordering":
			k.out.Add(f.Place, importer.Note, "%s has no effect: policies do not have an order or a second name", f.Key)
		default:
			unsupported(k.out, f, "unknown field of "+k.Kind)
		}
	}
}

func (k *kongPlugin) config(config importer.Field) {
	for _, f := range config.Value.Fields("config") {
		switch f.Key {
		case "second", "minute", "hour", "day", "month", "year":
			switch {
			case f.Value.IsNull():
			case f.Value.Int(f.Key) == 0:
				f.Value.Report(importer.Invalid, "%s must be more than 0, as Kong requires; to deny every request, write a policy with limit: 0", f.Key)
			default:
				k.limits = append(k.limits, f)
			}
		case "limit_by":
			k.limitByField, k.limitBy = f, f.Value.Text(f.Key)
		case "header_name":
			k.header = f.Value.Text(f.Key)
		case "path":
			k.path = f.Value.Text(f.Key)
		case "fault_tolerant":
			if !f.Value.IsNull() && !f.Value.Bool(f.Key) {
				k.spec.OnStoreFailure = v1alpha1.StoreFailureDeny
			}
		case "policy":
			k.isLocal = f.Value.IsNull() || f.Value.Text(f.Key) == "local"
		case "hide_client_headers", "error_code", "error_message", "sync_rate", "redis":
			k.out.Add(f.Place, importer.Note, "%s has no effect: the Limiter and its proxy have settings for counters, headers and answers", f.Key)
		default:
			if strings.HasPrefix(f.Key, "redis_") { // of Kong before version 3.6: redis_host, redis_port …
				k.out.Add(f.Place, importer.Note, "%s has no effect: the Limiter has its own Redis", f.Key)
				continue
			}
			unsupported(k.out, f, "unknown field of rate-limiting")
		}
	}
}

// identify sets the identifier.
func (k *kongPlugin) identify() {
	// Kong counts by address all requests that do not have what it limits by.
	switch k.limitBy {
	case "ip":
		k.spec.Identifier = clientAddress()
	case "header":
		if k.header == "" {
			k.Report(importer.Invalid, "header_name is missing; limit_by: header requires the name of the header")
			return
		}
		k.spec.Identifier = &v1alpha1.Identifier{
			IdentifierSource: v1alpha1.IdentifierSource{Header: new(v1alpha1.HeaderName(k.header))},
			Fallbacks:        []v1alpha1.IdentifierSource{clientAddress().IdentifierSource},
			OnMissing:        v1alpha1.OnMissingShared,
		}
	case "service":
		k.spec.Identifier = oneForAll()
	case "path":
		if k.path == "" {
			k.Report(importer.Invalid, "path is missing; limit_by: path requires the path")
			return
		}
		k.spec.Identifier = expressionOf(fmt.Sprintf("request.path == %q ? request.path : request.clientIP", reading.NormalPath(k.path)))
	default:
		place := k.Place()
		if k.limitByField.Key != "" {
			place = k.limitByField.Place
		}
		k.out.Add(place, importer.NotImported, "limit_by %s: only Kong knows its consumers and credentials; use limit_by: header with "+
			"the header in which your proxy sends the identity", k.limitBy)
	}
}

// convert adds the policies. The match is that of the objects that name the plugin, nil without one in the files.
func (k *kongPlugin) convert(match *v1alpha1.HTTPMatch) {
	domain, isCluster := k.Namespace, k.Kind == "KongClusterPlugin"
	if isCluster {
		domain = ""
	}
	if match != nil {
		k.spec.Match = &v1alpha1.Match{HTTP: match}
	} else {
		k.Report(importer.Difference, "the policies apply to all requests of their domain, because no Ingress in the files names the plugin in the annotation "+
			"konghq.com/plugins; add the Ingress, or match.http")
	}
	if k.isLocal {
		k.Report(importer.Difference, "with the policy local, each Kong counts alone; the policy counts for all of them together")
	}
	var specs []v1alpha1.RateLimitPolicySpec
	for _, f := range k.limits {
		spec := k.spec
		spec.Limit, spec.Window = new(f.Value.Int(f.Key)), windowOf(f.Key)
		specs = append(specs, spec)
		if f.Key == "month" || f.Key == "year" {
			k.out.Add(f.Place, importer.Difference, "%s is a window of %s from the Unix epoch, and not a calendar %s", f.Key, spec.Window, f.Key)
		}
	}
	if one, ok := combined(specs); ok {
		k.out.Policies = append(k.out.Policies, importer.Policy{
			Place: k.limits[0].Place, Domain: domain, Cluster: isCluster, Path: []string{k.Name}, Spec: one, Comment: "plugin " + k.Name,
		})
		return
	}
	for i, f := range k.limits {
		k.out.Policies = append(k.out.Policies, importer.Policy{
			Place: f.Place, Domain: domain, Cluster: isCluster, Path: []string{k.Name, f.Key}, Spec: specs[i],
			Comment: fmt.Sprintf("plugin %s, %d per %s", k.Name, *specs[i].Limit, f.Key),
		})
	}
}
