package wire

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/limiter/rules"
)

// generatedRequest is the request that the generated code decodes.
func generatedRequest(in *ratelimitv3.RateLimitRequest) RateLimitRequest {
	r := RateLimitRequest{Domain: in.GetDomain(), Hits: in.GetHitsAddend()}
	for _, d := range in.GetDescriptors()[:min(len(in.GetDescriptors()), maxDescriptors)] {
		got := Descriptor{Negative: d.GetIsNegativeHits(), HasHits: d.GetHitsAddend() != nil, Hits: d.GetHitsAddend().GetValue()}
		for _, e := range d.GetEntries()[:min(len(d.GetEntries()), MaxEntries)] {
			got.Entries = append(got.Entries, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		if l := d.GetLimit(); l != nil {
			got.HasLimit = true
			got.Limit = Limit{
				Requests: l.GetRequestsPerUnit(), Unit: int32(l.GetUnit()),
				HasMultiplier: l.GetUnitMultiplier() != nil, Multiplier: l.GetUnitMultiplier().GetValue(),
			}
		}
		r.Descriptors = append(r.Descriptors, got)
	}
	return r
}

// wantAsGenerated decodes a message both ways.
func wantAsGenerated(t testing.TB, message []byte) {
	t.Helper()
	var generated ratelimitv3.RateLimitRequest
	errGenerated := proto.Unmarshal(message, &generated)
	var got RateLimitRequest
	err := got.Decode(message)
	if err == nil && errGenerated != nil && got.Defects&defectNotUTF8 != 0 {
		return // the generated code rejects it
	}
	if (err != nil) != (errGenerated != nil) {
		t.Fatalf("%x: got the error %v, the generated code %v", message, err, errGenerated)
	}
	if err != nil {
		return
	}
	got.Defects = 0 // of what is over the bounds
	all := cmp.AllowUnexported(RateLimitRequest{}, Descriptor{}, Limit{})
	if diff := cmp.Diff(generatedRequest(&generated), got, all); diff != "" {
		t.Fatalf("%x (-generated +got):\n%s", message, diff)
	}
}

// descriptor returns a descriptor with entries: keys and values in turn.
func descriptor(entries ...string) *descriptorv3.RateLimitDescriptor {
	d := &descriptorv3.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

// FuzzDecode compares the decoder with the generated code.
func FuzzDecode(f *testing.F) {
	limited := descriptor("tenant", "acme", "plan", "free")
	limited.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: math.MaxUint32, Unit: typev3.RateLimitUnit_MONTH, UnitMultiplier: wrapperspb.UInt32(3),
	}
	refunding, counting := descriptor("a", "b"), descriptor("c", "d")
	refunding.HitsAddend, refunding.IsNegativeHits = wrapperspb.UInt64(math.MaxUint64), true
	counting.HitsAddend = wrapperspb.UInt64(0)
	whole, err := proto.Marshal(&ratelimitv3.RateLimitRequest{
		Domain: "shop", Descriptors: []*descriptorv3.RateLimitDescriptor{limited, refunding, counting, {}},
	})
	if err != nil {
		f.Fatal(err)
	}
	whole = protowire.AppendVarint(protowire.AppendTag(whole, requestHits, protowire.VarintType), math.MaxUint64)
	f.Add(whole)
	for n := range whole {
		f.Add(whole[:n])
		changed := slices.Clone(whole)
		changed[n] ^= 1
		f.Add(changed)
	}
	f.Add(append(slices.Clone(whole), whole...)) // merged
	for _, unknown := range []string{
		"\x08\x01", "\x0d\x01\x02\x03\x04", "\x7b\x0a\x01a\x7c", "\x7b\x7c", "\x7b", "\x7c", // of unknown types, groups
		"\x80\x80\x80\x80\x10\x01", "\xf8\xff\xff\xff\x0f\x01", "\x00\x01", "\x0e", "\x0f", // of large, small and invalid tags
		"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\x0a\x01\xff", "\x12\x05\x1a\x03\x08\x01\x10", "\x12\x04\x12\x02\x1a\x00", "\x12\x06\x1a\x02\x08\x05\x1a\x00",
		"\x12\x0a\x12\x08\x1a\x06\x08\xff\xff\xff\xff\x7f",
	} {
		f.Add([]byte(unknown))
		f.Add(append([]byte(unknown), whole...))
		f.Add(append(slices.Clone(whole), unknown...))
	}
	f.Fuzz(func(t *testing.T, message []byte) { wantAsGenerated(t, message) })
}

// A message of elements without content takes memory only up to the bounds.
func TestDecode_AllocatesWithinTheBounds(t *testing.T) {
	repeat := func(n int, b ...byte) []byte { return []byte(strings.Repeat(string(b), n)) }
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	const elements = 1 << 19
	header := func(content []byte) []byte {
		return field(checkAttributes, field(attributesRequest, field(requestHTTP, content)))
	}
	jwt := func(value []byte) []byte {
		fields := field(StructFields, append(field(MapKey, []byte("k")), field(MapValue, value)...))
		entry := append(field(MapKey, []byte(jwtMetadata)), field(MapValue, fields)...)
		return field(checkAttributes, field(attributesMetadata, field(filterMetadata, entry)))
	}
	rls, auth := func(b []byte) error { return new(RateLimitRequest).Decode(b) }, func(b []byte) error { return new(AuthRequest).Decode(b) }
	for name, test := range map[string]struct {
		decode  func([]byte) error
		message []byte
	}{
		"descriptors":          {rls, repeat(elements, 0x12, 0)},
		"entries":              {rls, field(requestDescriptors, repeat(elements, 0x0a, 0))},
		"limits":               {rls, field(requestDescriptors, repeat(elements, 0x12, 0))},
		"headers":              {auth, header(repeat(elements, 0x1a, 0))},
		"lines of headers":     {auth, header(field(httpHeaderMap, repeat(elements, 0x0a, 0)))},
		"context extensions":   {auth, field(checkAttributes, repeat(elements, 0x52, 0))},
		"claims":               {auth, field(checkAttributes, field(attributesMetadata, repeat(elements, 0x0a, 0)))},
		"values of a list":     {auth, jwt(field(ValueList, repeat(elements, 0x0a, 0)))},
		"fields of a struct":   {auth, jwt(field(ValueStruct, repeat(elements, 0x0a, 0)))},
		"routes":               {auth, field(checkAttributes, repeat(elements, 0x6a, 0))},
		"repeated attributes":  {auth, repeat(elements, 0x0a, 0)},
		"labels of the source": {auth, field(checkAttributes, field(attributesSource, repeat(elements, 0x1a, 0)))},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := test.decode(test.message); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			got := after.TotalAlloc - before.TotalAlloc
			if most := uint64(len(test.message)) + 512<<10; got > most {
				t.Errorf("%d bytes for a message of %d, want at most %d", got, len(test.message), most)
			}
		})
	}
}
