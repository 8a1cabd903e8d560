package rules_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

func rule(policy string) rules.Rule {
	domain, _, _ := strings.Cut(policy, "/")
	return rules.Rule{
		Policy: policy, Domain: domain, Axis: "Tenant",
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
		Algorithm:  limiter.SlidingWindowCounter, Units: 100, WindowSeconds: 60,
	}
}

// compressed is gzip of text, whose header names that revision; "" for none.
func compressed(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = name
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestASetComesBackWithItsRevision(t *testing.T) {
	full := rule("shop/full")
	full.PerEndpoint, full.Shadow = true, true
	full.Identifier.Secret = true
	full.Match = rules.Match{
		Hosts: []string{"*.shop.example"}, Methods: []string{"GET"},
		Paths:   []rules.PathMatch{{Type: rules.PathRegex, Value: "/v[0-9]+"}},
		Headers: []rules.HeaderMatch{{Type: rules.HeaderPresent, Name: "x-plan", Invert: true}},
	}
	for name, set := range map[string]rules.Set{
		"no rules":  {Rules: []rules.Rule{}},
		"two rules": {Rules: []rules.Rule{full, rule("shop/plain")}},
	} {
		t.Run(name, func(t *testing.T) {
			data, revision := rules.Encode(set)
			again, _ := rules.Encode(set)
			if !bytes.Equal(data, again) {
				t.Error("the same Set gave other bytes")
			}
			got, gotRevision, err := rules.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(set, got); diff != "" {
				t.Errorf("(-encoded +decoded):\n%s", diff)
			}
			if gotRevision != revision || !strings.HasPrefix(revision, "sha256:") || len(revision) != len("sha256:")+64 {
				t.Errorf("revision %s, then %s", revision, gotRevision)
			}
		})
	}
}

func TestTheRevisionIsTheContents(t *testing.T) {
	_, base := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	other := rule("shop/a")
	other.Units++
	if _, got := rules.Encode(rules.Set{Rules: []rules.Rule{other}}); got == base {
		t.Error("another limit has the same revision")
	}
	same, changed := rule("shop/a"), other
	if same.Revision() == changed.Revision() {
		t.Error("two rules that differ have the same revision")
	}
	_, none := rules.Encode(rules.Set{})
	if _, empty := rules.Encode(rules.Set{Rules: []rules.Rule{}}); none != empty {
		t.Error("no rules and an empty list of rules differ")
	}
}

func TestDecodeRefusesWhatItCannotRead(t *testing.T) {
	data, _ := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	tests := map[string]struct {
		data []byte
		want string
	}{
		"nothing":               {nil, "EOF"},
		"no gzip":               {[]byte("{}"), "decode rules: "},
		"half of it":            {data[:len(data)/2], "unexpected EOF"},
		"no JSON":               {compressed(t, "", "rules"), "invalid character"},
		"another format":        {compressed(t, "", `{"format":2,"rules":[],"new":1}`), "unknown format 2, this build reads 1"},
		"no format":             {compressed(t, "", `{"rules":[]}`), "unknown format 0"},
		"a field nobody knows":  {compressed(t, "", `{"format":1,"rules":[{"policy":"a/b","quota":3}]}`), `unknown field "quota"`},
		"the name of another":   {compressed(t, "sha256:0", `{"format":1,"rules":[]}`), `names revision "sha256:0", its content is sha256:`},
		"a rule of wrong shape": {compressed(t, "", `{"format":1,"rules":[{"units":"many"}]}`), "cannot unmarshal"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set, _, err := rules.Decode(test.data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one that says %q; set %+v", err, test.want, set)
			}
		})
	}
	_, _, err := rules.Decode(compressed(t, "", `{"format":7}`))
	if !errors.Is(err, rules.ErrFormat) {
		t.Errorf("%v is not ErrFormat", err)
	}
}

func TestTheDataNamesItsRevision(t *testing.T) {
	data, revision := rules.Encode(rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if r.Comment != revision {
		t.Errorf("the header names %q, want %q", r.Comment, revision)
	}
	if _, got, err := rules.DecodeNamed(data); err != nil || got != revision {
		t.Errorf("DecodeNamed: %q, %v; want %q", got, err, revision)
	}
}

// TestDataThatNamesNoRevision is what builds before this one wrote to Redis, where the pointer names it.
func TestDataThatNamesNoRevision(t *testing.T) {
	nameless := compressed(t, "", `{"format":1,"rules":[]}`)
	_, revision, err := rules.Decode(nameless)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rules.DecodeAs(nameless, revision); err != nil {
		t.Errorf("DecodeAs: %v", err)
	}
	if set, _, err := rules.DecodeNamed(nameless); err == nil || !strings.Contains(err.Error(), "does not name its revision") {
		t.Errorf("DecodeNamed: %+v, %v", set, err)
	}
}

// TestOneFlippedBitIsNoticed flips each bit of what names or carries the rules. The header's bytes of time, operating
// system and effort carry nothing.
func TestOneFlippedBitIsNoticed(t *testing.T) {
	set := rules.Set{Rules: []rules.Rule{rule("shop/a")}}
	data, revision := rules.Encode(set)
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			got, gotRevision, err := rules.DecodeNamed(flipped)
			if err == nil && (gotRevision != revision || !cmp.Equal(got, set)) {
				t.Fatalf("bit %d of byte %d: %+v, %s", bit, i, got, gotRevision)
			}
		}
	}
}
