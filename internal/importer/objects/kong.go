package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

// Kong converts the plugin rate-limiting in KongPlugin and KongClusterPlugin objects, and in configurations of decK.
func Kong(files []policyfile.File) *importer.Result { return KongWith(files, nil) }

// KongWith is [Kong] with places of identities that only Kong knows, such as the consumer, see [ParseIdentity].
func KongWith(files []policyfile.File, identities map[string]v1alpha1.IdentifierSource) *importer.Result {
	out := &importer.Result{}
	attached := kongAttachments{}
	deck := deckReader{out: out, rules: map[string][]kongRule{}}
	format := importer.Format{
		Group: "configuration.konghq.com", Kinds: []string{"KongPlugin", "KongClusterPlugin"},
		Other: func(o *importer.Object) importer.Use {
			switch {
			case deck.add(o):
				return importer.Imported
			case attached.add(o):
				return importer.Used
			}
			return importer.Skipped
		},
	}
	var plugins []*kongPlugin
	for _, o := range format.Objects(files, out) {
		plugin, _ := o.Field("plugin")
		disabled, found := o.Field("disabled")
		if found && !disabled.Value.Bool(disabled.Key) {
			disabled = importer.Field{}
		}
		plugins = append(plugins, &kongPlugin{
			Object: o, name: plugin, isCluster: o.Kind == "KongClusterPlugin", path: []string{o.Name}, fields: o.Body(), disabled: disabled,
			find: func(k *kongPlugin) (kongScope, bool) { return attached.of(k) },
		})
	}
	plugins = append(plugins, deck.plugins...)
	var converted []*kongPlugin
	used := map[string]bool{}
	for _, k := range plugins {
		k.out, k.limitBy, k.isLocal, k.identities, k.used = out, "consumer", true, identities, used
		k.spec = v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisCustom, Algorithm: v1alpha1.FixedWindow, OnStoreFailure: v1alpha1.StoreFailureAllow, // fault_tolerant is the default
		}
		if k.read() {
			converted = append(converted, k)
		}
	}
	reportBroader(converted)
	for _, identity := range slices.Sorted(maps.Keys(identities)) {
		if !used[identity] && len(files) > 0 {
			out.Add(importer.Place{File: files[0].Name, Line: 1}, importer.Note, "no plugin counts by the %s of --map", identity)
		}
	}
	return out
}

// ParseIdentity parses "consumer=header:x-consumer-username": what Kong counts by, and where requests to Weir have it. "address" is for a consumer that no
// request has, which Kong replaces by the address of the client.
func ParseIdentity(text string) (identity string, source v1alpha1.IdentifierSource, err error) {
	identity, place, _ := strings.Cut(text, "=")
	if !slices.Contains([]string{"consumer", "credential", "consumer-group"}, identity) {
		return "", v1alpha1.IdentifierSource{}, fmt.Errorf("%q must begin with consumer, credential or consumer-group, and an equals sign", text)
	}
	kind, name, _ := strings.Cut(place, ":")
	switch {
	case place == "address":
		return identity, clientAddress().IdentifierSource, nil
	case name == "":
	case kind == "header":
		return identity, v1alpha1.IdentifierSource{Header: new(v1alpha1.HeaderName(name))}, nil
	case kind == "query":
		return identity, v1alpha1.IdentifierSource{Query: &name}, nil
	case kind == "claim":
		return identity, v1alpha1.IdentifierSource{Claim: &name}, nil
	}
	return "", v1alpha1.IdentifierSource{}, fmt.Errorf("%q must end with header:NAME, query:NAME, claim:NAME or address", text)
}

// kongPlugin is a plugin of a KongPlugin, a KongClusterPlugin or a configuration of decK.
type kongPlugin struct {
	*importer.Object

	name              importer.Field // of the kind of plugin
	path              []string       // of the policies
	fields            []importer.Field
	isCluster         bool
	disabled          importer.Field                        // disabled or enabled, if it disables the plugin
	find              func(k *kongPlugin) (kongScope, bool) // returns the scope, and whether a policy can have it
	scope             kongScope
	out               *importer.Result
	spec              v1alpha1.RateLimitPolicySpec
	limitBy           string
	header, countPath string
	limitByField      importer.Field // limit_by
	isLocal           bool           // policy, which is local by default
	hasLimit          bool           // also if it is invalid
	limits            []importer.Field
	identities        map[string]v1alpha1.IdentifierSource
	used              map[string]bool // identities that a plugin counts by
}

// read adds the policies of a plugin, and reports whether it does.
func (k *kongPlugin) read() bool {
	if k.name.Key == "" {
		k.Report(importer.Invalid, "plugin is missing; Kong requires the name of the plugin, such as rate-limiting")
		return false
	}
	if name := k.name.Value.Text(k.name.Key); name != "rate-limiting" {
		kind := importer.Note
		if strings.Contains(strings.ReplaceAll(name, "-", ""), "ratelimiting") { // also response-ratelimiting
			kind = importer.NotImported
		}
		k.Report(kind, "plugin %s is not imported; only rate-limiting is", name)
		return false
	}
	if k.disabled.Key != "" {
		k.out.Add(k.disabled.Place, importer.Note, "the plugin is disabled, so it does not need a policy")
		return false
	}
	rejected := func() int { return k.out.Count(importer.NotImported) + k.out.Count(importer.Invalid) }
	previously := rejected()
	k.body()
	k.identify() // also after an unknown field: what is limited by decides whether the plugin can be imported at all
	if rejected() > previously {
		return false
	}
	scope, ok := k.find(k)
	if ok {
		k.scope = scope
		k.convert()
	}
	return ok
}

// body reads the fields of the plugin.
func (k *kongPlugin) body() {
	for _, f := range k.fields {
		switch f.Key {
		case "plugin", "name", "disabled", "enabled", "service", "route", "id", "tags", "created_at", "updated_at":
		case "config":
			k.config(f)
		case "configFrom", "configPatches":
			unsupported(k.out, f, "it reads the configuration from Secrets; write the configuration in config")
		case "_config": // of decK
			unsupported(k.out, f, "it names a configuration for several plugins; write the configuration in config")
		case "consumerRef", "consumer", "consumer_group":
			if !f.Value.IsNull() {
				unsupported(k.out, f, "the plugin applies to one consumer; write a policy with a condition on the header or claim of the consumer")
			}
		case "protocols":
			var protocols []string
			for _, n := range f.Value.Items("protocols") {
				protocols = append(protocols, n.Text(f.Key))
			}
			if !slices.Contains(protocols, "http") || !slices.Contains(protocols, "https") {
				unsupported(k.out, f, "a policy applies to all protocols; list http and https, or remove protocols")
			}
		case "instance_name", "ordering", "run_on":
			k.out.Add(f.Place, importer.Note, "%s has no effect: policies do not have an order or a second name", f.Key)
		default:
			unsupported(k.out, f, "unknown field of "+cmp.Or(k.Kind, "a plugin"))
		}
	}
	if !k.hasLimit {
		k.Report(importer.Invalid, "the plugin has no limit; Kong requires one of second, minute, hour, day, month and year in config")
	}
}

func (k *kongPlugin) config(config importer.Field) {
	for _, f := range config.Value.Fields("config") {
		switch f.Key {
		case "second", "minute", "hour", "day", "month", "year":
			k.hasLimit = k.hasLimit || !f.Value.IsNull()
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
			k.countPath = f.Value.Text(f.Key)
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
			unknown(k.out, f, "rate-limiting", "second", "minute", "hour", "day", "month", "year", "limit_by", "header_name", "path", "policy",
				"fault_tolerant", "hide_client_headers", "error_code", "error_message", "sync_rate", "redis")
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
		k.spec.Identifier = orAddress(v1alpha1.IdentifierSource{Header: new(v1alpha1.HeaderName(k.header))})
	case "service":
		k.spec.Identifier = oneForAll()
	case "path":
		if k.countPath == "" {
			k.Report(importer.Invalid, "path is missing; limit_by: path requires the path")
			return
		}
		k.spec.Identifier = expressionOf(fmt.Sprintf("request.path == %q ? request.path : request.clientIP", reading.NormalPath(k.countPath)))
	default:
		if source, mapped := k.identities[k.limitBy]; mapped {
			k.used[k.limitBy] = true
			k.spec.Identifier = orAddress(source)
			return
		}
		place := k.Place()
		if k.limitByField.Key != "" {
			place = k.limitByField.Place
		}
		k.out.Add(place, importer.NotImported, "limit_by %s: only Kong knows its consumers and credentials; use for example --map %s=header:x-consumer-username "+
			"if your proxy sends the identity in this header, or --map %s=address if no plugin authenticates, because Kong then counts by address",
			k.limitBy, k.limitBy, k.limitBy)
	}
}

// orAddress returns an identifier with the address of the client as its fallback, as in Kong.
func orAddress(source v1alpha1.IdentifierSource) *v1alpha1.Identifier {
	address := clientAddress()
	if source.Expression != nil && *source.Expression == *address.Expression {
		return address
	}
	return &v1alpha1.Identifier{
		IdentifierSource: source, Fallbacks: []v1alpha1.IdentifierSource{address.IdentifierSource}, OnMissing: v1alpha1.OnMissingShared,
	}
}

// convert adds the policies.
func (k *kongPlugin) convert() {
	domain := k.Namespace
	if k.isCluster {
		domain = ""
	}
	if k.scope.match != nil {
		k.spec.Match = &v1alpha1.Match{HTTP: k.scope.match}
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
			Place: k.limits[0].Place, Domain: domain, Cluster: k.isCluster, Path: k.path, Spec: one, Comment: "plugin " + strings.Join(k.path, " "),
		})
		return
	}
	for i, f := range k.limits {
		k.out.Policies = append(k.out.Policies, importer.Policy{
			Place: f.Place, Domain: domain, Cluster: k.isCluster, Path: slices.Concat(k.path, []string{f.Key}), Spec: specs[i],
			Comment: fmt.Sprintf("plugin %s, %d per %s", strings.Join(k.path, " "), *specs[i].Limit, f.Key),
		})
	}
}
