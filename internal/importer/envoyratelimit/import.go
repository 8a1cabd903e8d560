package envoyratelimit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter"
)

// Options are the choices that a configuration does not contain.
type Options struct {
	Algorithm    v1alpha1.Algorithm // of limits without one in their metadata; ServiceAlgorithm decides as the service does
	MergeDomains bool               // files can have the same domain, as with MERGE_DOMAIN_CONFIG=true
	Cluster      bool               // write only ClusterRateLimitPolicies
}

// Roots returns the fields that a configuration has, see [importer.Unwrap].
func Roots() [][]string { return [][]string{{"domain", "descriptors"}, {"descriptors"}} }

// Import converts the files of one configuration.
func Import(files []policyfile.File, options Options) *importer.Result {
	out := &importer.Result{}
	r := reader{out: out, merge: options.MergeDomains}
	for _, file := range files {
		r.file(file)
	}
	if !r.read && len(files) > 0 && out.Count(importer.Invalid) == 0 {
		out.Add(importer.Place{File: files[0].Name, Line: 1}, importer.Invalid, "no file has a configuration; it must have domain and descriptors")
	}
	if out.Count(importer.Invalid) > 0 {
		return out
	}
	for _, d := range r.domains {
		convert(d, out, options)
	}
	return out
}

// converter converts the limits of one domain.
type converter struct {
	out     *importer.Result
	options Options
	domain  string
	named   map[string][]importer.Place // the limits that a limit of the domain can replace, by name
}

// convert adds the policies of a domain to out.
func convert(d *domain, out *importer.Result, options Options) {
	c := converter{out: out, options: options, domain: d.name, named: replaceable(d.descriptors)}
	c.level(nil, d.descriptors)
}

// level converts the limits of the nodes in list and below. path leads to the list.
func (c *converter) level(path []step, list []*descriptor) {
	for _, d := range list {
		s := newStep(d, list)
		if s.unreachable() {
			c.out.Add(d.Place, importer.Note, "%s never applies, because another descriptor of this list has the value *", d.name())
			continue
		}
		if keys := d.otherKeys(list); len(keys) > 0 {
			c.out.Add(d.Place, importer.Difference, "in the service, %s also matches the key %s, because it compares the key and the value joined with _; "+
				"policies compare them separately", d.name(), strings.Join(keys, ", "))
		}
		child := slices.Concat(path, []step{s})
		switch {
		case d.limit == nil && len(d.children) == 0:
			c.out.Add(d.Place, importer.Note, "%s has no limit, so it does not need a policy: the policies for other values leave it out", d.name())
		case d.limit == nil:
		case c.replaces(d.limit):
		case d.limit.unlimited:
			c.out.Add(d.limit.Place, importer.Note, "%s is unlimited, so it does not need a policy: the policies for other values leave it out", d.name())
		default:
			c.limit(child, d)
		}
		c.level(child, d.children)
	}
}

// limit converts one limit to a policy.
func (c *converter) limit(path []step, d *descriptor) {
	l := d.limit
	if d.quota {
		c.out.Add(d.Place, importer.NotImported, "quota_mode denies a request only if all of its quota descriptors are over their limits, but in Weir each "+
			"policy can deny; remove quota_mode if the limit can deny alone")
		return
	}
	if int64(l.requests) > limiter.MaxUnits {
		c.out.Add(l.Place, importer.NotImported, "requests_per_unit is %d, but a limit of Weir is at most %d; use unlimited: true or a lower limit",
			l.requests, limiter.MaxUnits)
		return
	}
	spec := v1alpha1.RateLimitPolicySpec{
		Axis:       v1alpha1.AxisCustom,
		Identifier: identifierOf(path),
		Limit:      new(int64(l.requests)),
		Window:     v1alpha1.Duration(l.unit.window),
		Algorithm:  cmp.Or(d.algorithm, c.options.Algorithm),
		Match:      &v1alpha1.Match{},
	}
	if d.shadow {
		spec.Enforcement = v1alpha1.EnforcementShadow
	}
	var names []string
	for _, s := range path {
		spec.Match.Descriptors = append(spec.Match.Descriptors, s.match())
		names = append(names, s.name())
	}
	comment := fmt.Sprintf("%s, %d per %s", strings.Join(names, ", "), l.requests, l.unit.name)
	c.out.Policies = append(c.out.Policies, importer.Policy{
		Place: d.Place, Domain: c.domain, Cluster: c.options.Cluster, Path: names, Comment: comment, LimitName: l.name, Spec: spec,
	})
}
