package objects

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Traefik converts the middlewares RateLimit of Traefik.
func Traefik(files []policyfile.File) *importer.Result {
	out := &importer.Result{}
	for _, o := range importer.Objects(files, out, "traefik.io", "Middleware") {
		spec, _ := o.Field("spec")
		for _, f := range spec.Value.Fields("spec") {
			switch f.Key {
			case "rateLimit":
				traefikLimit(out, o, f)
			case "inFlightReq":
				unsupported(out, f, "Weir limits rates, and not how many requests are in progress; keep the middleware")
			default:
				out.Add(f.Place, importer.Note, "%s is not a rate limit; keep the middleware", f.Key)
			}
		}
	}
	return out
}

func traefikLimit(out *importer.Result, o *importer.Object, limit importer.Field) {
	spec := v1alpha1.RateLimitPolicySpec{
		Axis: v1alpha1.AxisCustom, Identifier: clientAddress(), Window: "1s", Algorithm: v1alpha1.TokenBucket, Burst: new(int64(1)),
	}
	previously, distributed, average := out.Count(importer.NotImported), false, int64(0)
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
			unsupported(out, f, "unknown field of rateLimit")
		}
	}
	if out.Count(importer.NotImported) > previously {
		return
	}
	if average == 0 {
		out.Add(limit.Place, importer.Note, "average is 0, which means unlimited, so it does not need a policy")
		return
	}
	spec.Limit = &average
	if !distributed {
		out.Add(limit.Place, importer.Difference, "without redis, each Traefik counts alone; the policy counts for all of them together")
	}
	out.Add(limit.Place, importer.Difference, "the policy applies to all requests of its domain, because routers name the middleware; add match.http for routes")
	out.Policies = append(out.Policies, importer.Policy{
		Place: limit.Place, Domain: o.Namespace, Path: []string{o.Name}, Spec: spec,
		Comment: fmt.Sprintf("middleware %s, %d per %s, burst %d", o.Name, average, spec.Window, *spec.Burst),
	})
}

// traefikPeriod reads a duration such as 1m, or a number of seconds.
func traefikPeriod(f importer.Field) v1alpha1.Duration {
	text := f.Value.Text(f.Key)
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
			unsupported(out, f, "unknown field of sourceCriterion")
		}
	}
}
