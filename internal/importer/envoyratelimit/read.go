package envoyratelimit

import (
	"strings"

	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// reader reads the files of a configuration.
type reader struct {
	out     *importer.Result
	merge   bool // files with the same domain are one configuration
	read    bool // a file has a configuration
	domains []*domain
}

// file reads the configurations in a file: documents, and what is inside of other documents, such as the values of a Helm chart.
func (r *reader) file(file policyfile.File) {
	documents := 0
	all := importer.Read(file, r.out)
	if len(all) == 0 && r.out.Count(importer.Invalid) == 0 {
		r.out.Add(importer.Place{File: file.Name, Line: 1}, importer.Invalid, "the file has no configuration; it must have domain and descriptors")
	}
	for _, n := range all {
		configurations := n.With("domain", "descriptors")
		switch {
		case len(configurations) == 0 && n.Has("apiVersion", "kind"):
			n.Report(importer.Note, "skipped: a Kubernetes object without a configuration of the service")
			continue
		case len(configurations) == 0:
			configurations = []importer.Node{n}
		}
		if documents++; documents > 1 {
			n.Report(importer.Invalid, "a file must have one document, because the service reads only the first; move this one to another file")
			continue
		}
		for _, configuration := range configurations {
			r.read = true
			r.root(configuration)
		}
	}
}

func (r *reader) root(n importer.Node) {
	d := &domain{place: n.Place()}
	for _, f := range n.Fields("the configuration") {
		switch f.Key {
		case "domain":
			d.place, d.name = f.Place, f.Value.Text("domain")
		case "descriptors":
			d.descriptors = r.descriptors(f.Value)
		default:
			n.Unknown(f, "the configuration", "domain", "descriptors")
		}
	}
	if d.name == "" {
		r.out.Add(d.place, importer.Invalid, "domain is missing or empty; set it to the domain of the rate limit filter of Envoy")
		return
	}
	for _, other := range r.domains {
		if other.name != d.name {
			continue
		}
		if !r.merge {
			r.out.Add(d.place, importer.Invalid, "domain %s is already defined at %s:%d; use one file for each domain, or --merge-domains if the "+
				"service runs with MERGE_DOMAIN_CONFIG=true", d.name, other.place.File, other.place.Line)
			return
		}
		other.descriptors = append(other.descriptors, d.descriptors...)
		r.unique(other.descriptors)
		return
	}
	r.domains = append(r.domains, d)
}

func (r *reader) descriptors(n importer.Node) []*descriptor {
	var list []*descriptor
	for _, item := range n.Items("descriptors") {
		list = append(list, r.descriptor(item))
	}
	r.unique(list)
	return list
}

// unique reports descriptors of one level with the same key and value. The service joins them to one name.
func (r *reader) unique(list []*descriptor) {
	first := map[string]*descriptor{}
	values := map[string]int{}
	for _, d := range list {
		values[d.key]++
		d.number = values[d.key]
	}
	for _, d := range list {
		switch other := first[d.joined()]; {
		case d.key == "": // is reported
		case other == nil:
			first[d.joined()] = d
		case other == d:
		case other.key == d.key:
			r.out.Add(d.Place, importer.Invalid, "descriptor %s is already defined at %s:%d; a key and a value can occur once in a list",
				d.name(), other.File, other.Line)
		default:
			r.out.Add(d.Place, importer.Invalid, "descriptor %s has the same name as %s at %s:%d, because the service joins a key and a value with _",
				d.name(), other.name(), other.File, other.Line)
		}
	}
}

func (r *reader) descriptor(n importer.Node) *descriptor {
	d, metadata := &descriptor{Place: n.Place()}, importer.Field{}
	if !n.IsNull() && !n.Has() {
		n.Fields("a descriptor")
		return d
	}
	for _, f := range n.Fields("a descriptor") {
		switch f.Key {
		case "key":
			d.key = f.Value.Text("key")
		case "value":
			d.value = f.Value.Text("value")
		case "rate_limit":
			d.limit = r.limit(f)
		case "descriptors":
			d.children = r.descriptors(f.Value)
		case "shadow_mode":
			d.shadow = f.Value.Bool(f.Key)
		case "share_threshold":
			d.shared = f.Value.Bool(f.Key)
		case "quota_mode":
			d.quota = f.Value.Bool(f.Key)
		case "detailed_metric", "value_to_metric":
			if f.Value.Bool(f.Key) {
				r.out.Add(f.Place, importer.Note, "%s has no effect: metrics of Weir have the policy as a label, never the values of requests", f.Key)
			}
		case "metadata":
			metadata = f
		default:
			n.Unknown(f, "a descriptor", "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "share_threshold",
				"detailed_metric", "value_to_metric", "metadata")
		}
	}
	if d.key == "" {
		n.Report(importer.Invalid, "key is missing or empty; a descriptor must have a key")
	}
	if metadata.Key != "" {
		r.metadata(d, metadata)
	}
	if d.shared && !d.isWildcard() {
		n.Report(importer.Invalid, "share_threshold requires a value with a wildcard (*); remove share_threshold")
	}
	return d
}

// metadata reads the algorithm of a descriptor, and notes other metadata.
func (r *reader) metadata(d *descriptor, metadata importer.Field) {
	other := false
	for _, f := range metadata.Value.Fields("metadata") {
		if f.Key != AlgorithmKey {
			other = true
			continue
		}
		r.setAlgorithm(d, f.Place, f.Value.Text(AlgorithmKey))
	}
	if other {
		r.out.Add(metadata.Place, importer.Note, "metadata has no effect except for %s: the dynamic metadata of Weir contains the policy and its result",
			AlgorithmKey)
	}
}

func (r *reader) limit(f importer.Field) *limit {
	if f.Value.IsNull() {
		return nil
	}
	l := &limit{Place: f.Place}
	var requests, unit importer.Node
	for _, f := range f.Value.Fields("rate_limit") {
		switch f.Key {
		case "name":
			l.name = f.Value.Text("name")
		case "replaces":
			l.replaces = r.replaces(f.Value)
		case "unlimited":
			l.unlimited = f.Value.Bool("unlimited")
		case "requests_per_unit":
			requests = f.Value
			l.requests = f.Value.Uint32("requests_per_unit")
		case "unit":
			unit = f.Value
		default:
			f.Value.Unknown(f, "rate_limit", "name", "replaces", "unlimited", "requests_per_unit", "unit")
		}
	}
	switch {
	case l.unlimited && unit != (importer.Node{}):
		unit.Report(importer.Invalid, "unit must not be set together with unlimited: true; remove one of them")
	case !l.unlimited:
		l.unit = r.unit(l, unit)
		if requests == (importer.Node{}) {
			r.out.Add(l.Place, importer.Note, "requests_per_unit is missing, which means 0: every request is denied")
		}
	}
	for _, name := range l.replaces {
		if name == l.name {
			r.out.Add(l.Place, importer.Invalid, "rate_limit %s replaces itself; remove its name from replaces", name)
		}
	}
	return l
}

func (r *reader) unit(l *limit, n importer.Node) unit {
	var names []string
	for _, u := range units() {
		if n != (importer.Node{}) && strings.EqualFold(u.name, n.Text("unit")) {
			return u
		}
		names = append(names, u.name)
	}
	place := l.Place
	if n != (importer.Node{}) {
		place = n.Place()
	}
	r.out.Add(place, importer.Invalid, "unit is missing or unknown; the units are %s", strings.Join(names, ", "))
	return unit{}
}

func (r *reader) replaces(n importer.Node) (names []string) {
	for _, item := range n.Items("replaces") {
		name := ""
		for _, f := range item.Fields("replaces") {
			if f.Key != "name" {
				item.Unknown(f, "replaces", "name")
				continue
			}
			name = f.Value.Text("name")
		}
		if name == "" {
			item.Report(importer.Invalid, "name is missing or empty in replaces; set it to the name of the rate_limit to replace")
			continue
		}
		names = append(names, name)
	}
	return names
}
