package envoyratelimit

import (
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/limiter"
)

// maxDepth bounds the levels of a configuration. A request has at most 64 entries.
const maxDepth = 64

// ImportMessage converts the configuration of one domain, as the service receives it over xDS. The place of a finding is the name of the
// domain, and the number of the descriptor in it, from 1, parents before children. What the message has in fields that this version does not
// know is noted. A limit above the maximum of Weir is replaced by the maximum: some users write the largest number for no limit.
func ImportMessage(config *ratelimitv3.RateLimitConfig, options Options) *importer.Result {
	out := &importer.Result{}
	r := messageReader{reader: reader{out: out}, place: importer.Place{File: config.GetDomain()}}
	r.unknown(config)
	if config.GetDomain() == "" {
		out.Add(r.place, importer.Invalid, "domain is missing or empty; set it to the domain of the rate limit filter of Envoy")
	}
	d := &domain{name: config.GetDomain(), descriptors: r.descriptors(config.GetDescriptors(), 1)}
	if out.Count(importer.Invalid) > 0 {
		return out
	}
	convert(d, out, options)
	return out
}

// messageReader reads the messages of a configuration.
type messageReader struct {
	reader

	place importer.Place // the current descriptor
}

// unknown notes fields of a later version.
func (r *messageReader) unknown(message interface{ ProtoReflect() protoreflect.Message }) {
	if m := message.ProtoReflect(); m.IsValid() && len(m.GetUnknown()) > 0 {
		r.out.Add(r.place, importer.Note, "%s has fields that this version does not know, and ignores", m.Descriptor().Name())
	}
}

func (r *messageReader) descriptors(messages []*ratelimitv3.RateLimitDescriptor, depth int) []*descriptor {
	if depth > maxDepth {
		r.out.Add(r.place, importer.Invalid, "more than %d levels of descriptors; a request has at most %d entries", maxDepth, maxDepth)
		return nil
	}
	var list []*descriptor
	for _, m := range messages {
		list = append(list, r.descriptor(m, depth))
	}
	r.unique(list)
	return list
}

func (r *messageReader) descriptor(m *ratelimitv3.RateLimitDescriptor, depth int) *descriptor {
	r.place.Line++
	r.unknown(m)
	d := &descriptor{
		Place: r.place, key: m.GetKey(), value: m.GetValue(), limit: r.limit(m.GetRateLimit()), shadow: m.GetShadowMode(), quota: m.GetQuotaMode(),
	}
	// Envoy Gateway names routes and rules with equal keys and values. A route for all hosts ends with "*", which is no wildcard.
	d.exact = d.key == d.value
	if d.key == "" {
		r.out.Add(r.place, importer.Invalid, "key is missing or empty; a descriptor must have a key")
	}
	if algorithm, found := m.GetMetadata().GetFields()[AlgorithmKey]; found {
		r.setAlgorithm(d, r.place, textOf(algorithm))
	}
	d.children = r.descriptors(m.GetDescriptors(), depth+1)
	return d
}

// textOf returns a text as it is, and any other value as JSON.
func textOf(v *structpb.Value) string {
	if text, ok := v.GetKind().(*structpb.Value_StringValue); ok {
		return text.StringValue
	}
	data, err := v.MarshalJSON()
	if err != nil {
		return "invalid"
	}
	return string(data)
}

func (r *messageReader) limit(m *ratelimitv3.RateLimitPolicy) *limit {
	if m == nil {
		return nil
	}
	r.unknown(m)
	l := &limit{Place: r.place, name: m.GetName(), unlimited: m.GetUnlimited(), requests: m.GetRequestsPerUnit()}
	for _, replaced := range m.GetReplaces() {
		l.replaces = append(l.replaces, replaced.GetName())
	}
	if l.unlimited {
		return l
	}
	if int64(l.requests) > limiter.MaxUnits {
		r.out.Add(r.place, importer.Difference, "a limit of %d is above the maximum of Weir; %d applies", l.requests, limiter.MaxUnits)
		l.requests = limiter.MaxUnits
	}
	var names []string
	for _, u := range units() {
		if strings.EqualFold(u.name, m.GetUnit().String()) {
			l.unit = u
			return l
		}
		names = append(names, u.name)
	}
	r.out.Add(r.place, importer.Invalid, "unit %s is unknown; the units are %s", m.GetUnit(), strings.Join(names, ", "))
	return l
}
