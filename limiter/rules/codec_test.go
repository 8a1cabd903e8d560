package rules_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func rule(policy string) rules.Rule {
	domain, _, _ := strings.Cut(policy, "/")
	return rules.Rule{
		Policy: policy, Domain: domain, Axis: "Tenant",
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm:  limiter.SlidingWindowCounter, Units: 100, WindowSeconds: 60,
	}
}

// compressed returns text in gzip, with revision in the gzip header. "" omits the revision.
func decompressed(t *testing.T, data []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func compressed(t *testing.T, revision, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = revision
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecode_ReturnsTheEncodedSetAndItsRevision(t *testing.T) {
	full := rule("shop/full")
	full.PerEndpoint, full.Shadow = true, true
	full.Identifier.Secret = true
	full.Match = rules.Match{
		Hosts: []string{"*.shop.example"}, Methods: []string{"GET"},
		Paths:   []rules.PathMatch{{Type: rules.PathRegex, Value: "/v[0-9]+"}},
		Headers: []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-plan", Invert: true}},
	}
	for name, set := range map[string]rules.Set{
		"no rules":                     {Rules: []rules.Rule{}},
		"two rules":                    {Rules: []rules.Rule{full, rule("shop/plain")}},
		"a rule that sets every field": {Rules: []rules.Rule{fullRule()}},
		"a rule for writes":            {Rules: []rules.Rule{fullWriteRule()}, Namespaces: []rules.Namespace{{Name: "shop", Labels: map[string]string{"tier": "free"}, Tenant: "acme"}}},
	} {
		t.Run(name, func(t *testing.T) {
			data, revision := rules.Encode(set)
			again, _ := rules.Encode(set)
			if !bytes.Equal(data, again) {
				t.Error("the same Set was encoded differently")
			}
			got, gotRevision, err := rules.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(set, got); diff != "" {
				t.Errorf("(-encoded +decoded):\n%s", diff)
			}
			if gotRevision != revision || !strings.HasPrefix(revision, "sha256:") || len(revision) != len("sha256:")+64 {
				t.Errorf("Encode returned revision %s, Decode %s", revision, gotRevision)
			}
		})
	}
}

// fullRule returns a rule that sets every field. Of fields that exclude each other, it sets one.
func fullRule() rules.Rule {
	r := rule("shop/everything")
	r.Algorithm, r.Burst, r.PerEndpoint, r.Shadow, r.OnStoreFailure = limiter.TokenBucket, 200, true, true, rules.DenyOnFailure
	r.Identifier = rules.Identifier{From: rules.FromClaim, Name: "realm.tenant", IPv6Prefix: 56, Secret: true, Address: true}
	r.Match = rules.Match{
		Hosts: []string{"a.example"}, Methods: []string{"GET"}, CIDRs: []string{"10.0.0.0/8"}, ExceptCIDRs: []string{"10.1.0.0/16"},
		Paths:       []rules.PathMatch{{Type: rules.PathExact, Value: "/v1"}},
		Headers:     []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "x-plan", Value: "free", Invert: true}},
		Expression:  `request.method == "GET"`,
		Descriptors: []rules.DescriptorMatch{{Key: "generic_key", Value: "login"}, {Key: "tenant", Pattern: "a*", Except: []string{"ab"}}},
	}
	for i, when := range []rules.When{
		{Header: &rules.HeaderMatch{Type: rules.HeaderPresent, Name: "x-paid"}},
		{Identifiers: []string{"acme"}},
		{CIDRs: []string{"192.0.2.0/24"}},
		{Groups: []string{"staff"}},
		{Expression: `"x-paid" in request.headers`},
	} {
		r.Tiers = append(r.Tiers, rules.Tier{Name: fmt.Sprint("tier", i), When: when, Units: 1000, Burst: 2000})
	}
	r.Tiers = append(r.Tiers, rules.Tier{Name: "internal", When: rules.When{Identifiers: []string{"globex"}}, Unlimited: true})
	r.Cost = &rules.Cost{Header: "x-cost"}
	return r
}

// fullWriteRule returns a rule for writes to the Kubernetes API that sets every field of its match.
func fullWriteRule() rules.Rule {
	r := rule("shop/writes")
	r.Identifier = rules.Identifier{From: rules.FromKubernetesTenant}
	selector := rules.Selector{{Key: "tier", Operator: rules.SelectorIn, Values: []string{"free"}}, {Key: "exempt", Operator: rules.SelectorDoesNotExist}}
	r.Match = rules.Match{Expression: `request.operation == "CREATE"`, Kubernetes: &rules.KubernetesMatch{
		Resources:  []rules.KubernetesResources{{APIGroups: []string{""}, Resources: []string{"pods"}, Operations: []string{"CREATE"}}},
		Namespaces: []string{"shop"}, NamespaceSelector: selector, Users: []string{"alice"}, Groups: []string{"staff"},
		ExceptUsers: []string{"bob"}, ExceptGroups: []string{"system:masters"},
	}}
	r.Tiers = []rules.Tier{{Name: "free", Units: 1, When: rules.When{NamespaceSelector: selector}}}
	return r
}

// TestDecode_ReadsASetWithoutTiers decodes a rule set of a build that had no tiers, costs, networks, expressions and descriptors.
// Decode must return the same rules, and Encode must return the same revision again.
func TestDecode_ReadsASetWithoutTiers(t *testing.T) {
	const plain = `{"format":1,"rules":[{"policy":"shop/a","domain":"shop","axis":"Tenant","identifier":{"from":"header","name":"x-tenant-id"},` +
		`"match":{},"algorithm":"SlidingWindowCounter","units":100,"windowSeconds":60}]}`
	set, revision, err := rules.Decode(compressed(t, "", plain))
	if err != nil {
		t.Fatal(err)
	}
	want := rules.Set{Rules: []rules.Rule{rule("shop/a")}}
	if diff := cmp.Diff(want, set); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
	if _, again := rules.Encode(set); again != revision {
		t.Errorf("the revision after encoding again is %s, want %s", again, revision)
	}
}

// TestEncode_UsesFormat2ForSourcesThatFormat1DoesNotKnow: a reader of format 1 rejects unknown fields, but it would treat unknown
// sources as missing identifiers. Format 2 makes it reject the rule set.
func TestEncode_UsesFormat2ForSourcesThatFormat1DoesNotKnow(t *testing.T) {
	for source, want := range map[rules.IdentifierSource]string{
		rules.FromClientIP: `"format":1,`, rules.FromHeader: `"format":1,`, rules.FromQuery: `"format":1,`, rules.FromCookie: `"format":1,`,
		rules.FromEndpoint: `"format":1,`, rules.FromClaim: `"format":2,`, rules.FromDescriptor: `"format":2,`, rules.FromExpression: `"format":2,`,
	} {
		last := rule("shop/z")
		last.Identifier.From = source
		data, _ := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a"), last}})
		if plain := decompressed(t, data); !strings.Contains(plain, want) {
			t.Errorf("%s: %.40s…, want %s", source, plain, want)
		}
	}
}

func TestEncode_UsesFormat3ForWritesToTheKubernetesAPI(t *testing.T) {
	data, _ := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a"), fullWriteRule()}})
	if plain := decompressed(t, data); !strings.Contains(plain, `"format":3,`) {
		t.Errorf("%.40s…, want format 3", plain)
	}
}

func TestRevision_DependsOnTheContentOnly(t *testing.T) {
	_, base := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	other := rule("shop/a")
	other.Units++
	if _, got := rules.Encode(rules.Set{Rules: []rules.Rule{other}}); got == base {
		t.Error("a Set with another limit has the same revision")
	}
	same, changed := rule("shop/a"), other
	if same.Revision() == changed.Revision() {
		t.Error("two rules that differ have the same revision")
	}
	_, withoutList := rules.Encode(rules.Set{})
	if _, empty := rules.Encode(rules.Set{Rules: []rules.Rule{}}); withoutList != empty {
		t.Error("a nil and an empty list of rules have different revisions")
	}
}

func TestDecode_RejectsInvalidData(t *testing.T) {
	data, _ := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	tests := map[string]struct {
		data []byte
		want string
	}{
		"no data":                     {nil, "EOF"},
		"not gzip":                    {[]byte("{}"), "decode rules: "},
		"truncated data":              {data[:len(data)/2], "unexpected EOF"},
		"not JSON":                    {compressed(t, "", "rules"), "invalid character"},
		"an unknown format":           {compressed(t, "", `{"format":5,"rules":[],"new":1}`), "unknown format 5; this build reads formats 1 to 4"},
		"no format":                   {compressed(t, "", `{"rules":[]}`), "unknown format 0"},
		"an unknown field":            {compressed(t, "", `{"format":1,"rules":[{"policy":"a/b","quota":3}]}`), `unknown field "quota"`},
		"the revision of another Set": {compressed(t, "sha256:0", `{"format":1,"rules":[]}`), `contains revision "sha256:0", but its content has revision sha256:`},
		"a field of the wrong type":   {compressed(t, "", `{"format":1,"rules":[{"units":"many"}]}`), "cannot unmarshal"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set, _, err := rules.Decode(test.data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one that contains %q; set %+v", err, test.want, set)
			}
		})
	}
	_, _, err := rules.Decode(compressed(t, "", `{"format":7}`))
	if !errors.Is(err, rules.ErrFormat) {
		t.Errorf("%v is not ErrFormat", err)
	}
}

func TestEncode_StoresTheRevisionInTheData(t *testing.T) {
	data, revision := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if r.Comment != revision {
		t.Errorf("the gzip header contains revision %q, want %q", r.Comment, revision)
	}
	if _, got, err := rules.DecodeShards(data); err != nil || got != revision {
		t.Errorf("DecodeShards: %q, %v; want %q", got, err, revision)
	}
}

// TestDecodeShards_RejectsDataWithoutRevision decodes data without a revision. Earlier builds wrote such data to Redis, where a
// pointer contains the revision.
func TestDecodeShards_RejectsDataWithoutRevision(t *testing.T) {
	withoutRevision := compressed(t, "", `{"format":1,"rules":[]}`)
	_, revision, err := rules.Decode(withoutRevision)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rules.DecodeAs(withoutRevision, revision); err != nil {
		t.Errorf("DecodeAs: %v", err)
	}
	if set, _, err := rules.DecodeShards(withoutRevision); err == nil || !strings.Contains(err.Error(), "does not contain its revision") {
		t.Errorf("DecodeShards: %+v, %v", set, err)
	}
}

// TestDecode_DetectsOneFlippedBit flips each bit of the encoded data. DecodeShards must return an error or the same rules and
// revision: a few bytes of the gzip header (time, operating system, compression level) do not affect the content.
func TestDecode_DetectsOneFlippedBit(t *testing.T) {
	set := rules.Set{Rules: []rules.Rule{rule("shop/a")}}
	data, revision := rules.Encode(set)
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			got, gotRevision, err := rules.DecodeShards(flipped)
			if err == nil && (gotRevision != revision || !cmp.Equal(got.Set(), set)) {
				t.Fatalf("flipping bit %d of byte %d gives rules %+v with revision %s and no error", bit, i, got, gotRevision)
			}
		}
	}
}

func TestMatch_SupportsARuleWithEveryField(t *testing.T) {
	key, err := limiter.NewHashKey([]byte("a key of at least thirty-two bytes"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := matching.NewIndex(rules.Set{Rules: []rules.Rule{fullRule()}, HashKey: key.ID()}, "sha256:test", "weir:", matching.WithHashKey(key))
	if err != nil {
		t.Fatal(err)
	}
	req := &rules.Request{
		Domain: "shop", Method: "GET", Host: "a.example", Path: "/v1", Headers: map[string]string{"x-cost": "3"}, ClientIP: netip.MustParseAddr("10.2.0.1"),
		Claims:      map[string]any{"realm": map[string]any{"tenant": "2001:db8::1"}, "groups": "staff"},
		Descriptors: []rules.Descriptor{{{Key: "generic_key", Value: "login"}, {Key: "tenant", Value: "acme"}}},
	}
	m := x.Match(nil, req)
	if len(m) != 1 {
		t.Fatalf("%d rules match, want 1", len(m))
	}
	identifier := m[0].Identify(req)
	terms := m[0].Terms(req, identifier)
	if identifier != key.Hash("2001:db8::/56") || terms.Tier != "tier3" || terms.Cost != 3 || m[0].Endpoint != "/v1" {
		t.Errorf("identifier %q, terms %+v, endpoint %q", identifier, terms, m[0].Endpoint)
	}
}

// A limiter that does not know the fields must keep its previous rules: it would count or admit what the policy denies.
func TestEncode_FallbacksAreFieldsThatOlderLimitersReject(t *testing.T) {
	r := rules.Rule{Policy: "shop/a", Identifier: rules.Identifier{From: rules.FromHeader, Name: "a"}}
	for _, newer := range []rules.Rule{
		{Identifier: r.Identifier, Fallbacks: []rules.Identifier{{From: rules.FromClientIP}}}, {Identifier: r.Identifier, OnMissing: rules.DenyMissing},
	} {
		text, err := json.Marshal(newer)
		if err != nil {
			t.Fatal(err)
		}
		var older struct { // as the fields were before
			Policy, Domain, Axis, Algorithm string
			Identifier, Match               map[string]any
			Units, WindowSeconds            int64
		}
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&older); err == nil {
			t.Errorf("an older limiter reads %s", text)
		}
	}
	text, err := json.Marshal(r)
	if err != nil || bytes.Contains(text, []byte("fallbacks")) || bytes.Contains(text, []byte("onMissing")) {
		t.Errorf("%s, %v: rules without the fields must stay readable", text, err)
	}
}
