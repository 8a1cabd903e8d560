package objects

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Traefik converts the middlewares RateLimit of Traefik, of objects and of configurations of its file provider, for the requests of the routers that have
// them: of IngressRoutes, of Ingresses, and of the file provider.
func Traefik(files []policyfile.File) *importer.Result {
	out := &importer.Result{}
	config := &traefikConfig{chains: map[string][]string{}}
	format := importer.Format{
		Group: "traefik.io", Former: []string{"traefik.containo.us"}, Kinds: []string{"Middleware"}, // of Traefik 3 and 2
		Other: func(o *importer.Object) importer.Use {
			if config.addObject(o) {
				return importer.Used
			}
			return config.addFile(o)
		},
	}
	for _, o := range format.Objects(files, out) {
		spec, _ := o.Field("spec")
		config.middlewares = append(config.middlewares, traefikMiddleware{o.Namespace + "/" + o.Name, o.Namespace, o.Name, spec.Value.Fields("spec")})
	}
	for i := range config.middlewares {
		m := &config.middlewares[i]
		for _, f := range m.fields {
			if f.Key == "chain" {
				config.addChain(m, f)
			}
		}
	}
	for i := range config.middlewares {
		config.convert(out, &config.middlewares[i])
	}
	return out
}

// addFile adds a configuration of the file provider. Its middlewares have no namespace, as objects without one.
func (c *traefikConfig) addFile(o *importer.Object) (use importer.Use) {
	if o.Kind != "" || o.APIVersion != "" {
		return importer.Skipped
	}
	for _, protocol := range []string{"http", "tcp"} {
		p, has := o.Field(protocol)
		if !has {
			continue
		}
		for _, section := range p.Value.Fields(protocol) {
			switch {
			case section.Key == "middlewares":
				use = importer.Imported
				for _, m := range section.Value.Fields("middlewares") {
					c.middlewares = append(c.middlewares, traefikMiddleware{inFile + m.Key, o.Namespace, m.Key, m.Value.Fields("a middleware")})
				}
			case section.Key == "routers" && protocol == "http":
				use = max(use, importer.Used)
				c.addFileRouters(section)
			}
		}
	}
	return use
}

func (c *traefikConfig) convert(out *importer.Result, m *traefikMiddleware) {
	for _, f := range m.fields {
		switch f.Key {
		case "rateLimit":
			if policy, ok := traefikLimit(out, m, f); ok {
				out.Policies = append(out.Policies, c.policiesOf(out, m, policy)...)
			}
		case "inFlightReq", "inFlightConn":
			unsupported(out, f, "Weir limits rates, and not how many requests are in progress; keep the middleware")
		case "chain":
		default:
			out.Add(f.Place, importer.Note, "%s is not a rate limit; keep the middleware", f.Key)
		}
	}
}

// traefikLimit returns the policy of a limit, if it needs one.
func traefikLimit(out *importer.Result, m *traefikMiddleware, limit importer.Field) (policy importer.Policy, ok bool) {
	spec := v1alpha1.RateLimitPolicySpec{
		Axis: v1alpha1.AxisCustom, Identifier: clientAddress(), Window: "1s", Algorithm: v1alpha1.TokenBucket, Burst: new(int64(1)),
	}
	rejected := func() int { return out.Count(importer.NotImported) + out.Count(importer.Invalid) }
	previously, distributed, average := rejected(), false, int64(0)
	for _, f := range limit.Value.Fields("rateLimit") {
		switch f.Key {
		case "average":
			average = f.Value.Int(f.Key)
		case "burst":
			spec.Burst = new(max(f.Value.Int(f.Key), 1))
		case "period":
			spec.Window = traefikPeriod(f)
		case "sourceCriterion":
			traefikSource(out, f, &spec)
		case "redis":
			distributed = true
			out.Add(f.Place, importer.Note, "redis has no effect: the Limiter has its own Redis")
		default:
			unknown(out, f, "rateLimit", "average", "burst", "period", "sourceCriterion", "redis")
		}
	}
	if rejected() > previously {
		return policy, false
	}
	if average == 0 {
		out.Add(limit.Place, importer.Note, "average is 0, which means unlimited, so it does not need a policy")
		return policy, false
	}
	spec.Limit = &average
	if !distributed {
		out.Add(limit.Place, importer.Difference, "without redis, each Traefik counts alone; the policy counts for all of them together")
	}
	return importer.Policy{
		Place: limit.Place, Domain: m.namespace, Path: []string{m.name}, Spec: spec,
		Comment: fmt.Sprintf("middleware %s, %d per %s, burst %d", m.name, average, spec.Window, *spec.Burst),
	}, true
}

// traefikPeriod reads a duration such as 1m, or a number of seconds.
func traefikPeriod(f importer.Field) v1alpha1.Duration {
	text := f.Value.Text(f.Key)
	if text == "" || text == "0" {
		return "1s" // the default of Traefik
	}
	if seconds, err := strconv.Atoi(text); err == nil {
		return v1alpha1.Duration((time.Duration(seconds) * time.Second).String())
	}
	if d, err := time.ParseDuration(text); err == nil {
		return v1alpha1.Duration(d.String())
	}
	return v1alpha1.Duration(text) // the validation reports it
}

func traefikSource(out *importer.Result, source importer.Field, spec *v1alpha1.RateLimitPolicySpec) {
	for _, f := range source.Value.Fields("sourceCriterion") {
		switch f.Key {
		case "ipStrategy":
			out.Add(f.Place, importer.Difference, "ipStrategy has no effect: identity.ip of the Limiter lists the trusted proxies, which determine the address")
		case "requestHeaderName":
			spec.Identifier = &v1alpha1.Identifier{
				IdentifierSource: v1alpha1.IdentifierSource{Header: new(v1alpha1.HeaderName(f.Value.Text(f.Key)))},
				OnMissing:        v1alpha1.OnMissingShared, // Traefik counts all of them under an empty text
			}
		case "requestHost":
			if f.Value.Bool(f.Key) {
				spec.Identifier = expressionOf("request.host")
			}
		default:
			unknown(out, f, "sourceCriterion", "ipStrategy", "requestHeaderName", "requestHost")
		}
	}
}
