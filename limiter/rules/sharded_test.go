package rules_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/rules"
)

// manyRules returns a Set with rules of several namespaces, namespaces and ages.
func manyRules(n int) rules.Set {
	set := rules.Set{ByAge: map[string][]string{"shop-1": {"b", "a"}}, RouteTable: &rules.RouteTable{Routes: []rules.Route{{Namespace: "shop-1", Target: "HTTPRoute/x"}}}}
	for i := range n {
		set.Rules = append(set.Rules, rule(fmt.Sprintf("shop-%d/policy-%04d", i%7, i)))
		set.Namespaces = append(set.Namespaces, rules.Namespace{Name: fmt.Sprintf("team-%04d", i), Tenant: "t"})
	}
	sorted := slices.SortedFunc(slices.Values(set.Rules), func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	set.Rules = sorted
	return set
}

func encode(e *rules.Encoder, set rules.Set) rules.Encoded {
	return e.Encode(set, func(i int) string { return set.Rules[i].Revision() })
}

func archive(t *testing.T, e rules.Encoded) []byte {
	t.Helper()
	data, err := e.Archive()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEncoder_EncodesWhatDecodeReturns(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		set := manyRules(n)
		set.Rules = append([]rules.Rule{}, set.Rules...)
		encoded := encode(new(rules.Encoder), set)
		got, revision, err := rules.Decode(archive(t, encoded))
		if err != nil || revision != encoded.Revision {
			t.Fatalf("%d rules: revision %s, want %s; %v", n, revision, encoded.Revision, err)
		}
		if diff := cmp.Diff(set, got); diff != "" {
			t.Errorf("%d rules (-encoded +decoded):\n%s", n, diff)
		}
		if _, _, err := rules.DecodeShards(rules.WithSequence(archive(t, encoded), 7)); err != nil {
			t.Error(err)
		}
		if sequence, err := rules.Sequence(rules.WithSequence(archive(t, encoded), 7)); sequence != 7 || err != nil {
			t.Errorf("sequence %d, %v", sequence, err)
		}
	}
}

// TestEncoder_EncodesStepsAsANewOne compares an Encoder that has followed a random history with one that has not.
func TestEncoder_EncodesStepsAsANewOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var followed rules.Encoder
	set := manyRules(300)
	for step := range 300 {
		set.Rules, set.Namespaces = slices.Clone(set.Rules), slices.Clone(set.Namespaces)
		namespace := &set.Namespaces[random.IntN(len(set.Namespaces))]
		switch i := random.IntN(len(set.Rules)); random.IntN(13) {
		case 0:
			set.Rules = slices.Delete(set.Rules, i, i+1)
		case 1:
			set.Rules[i].Units++
		case 2:
			namespace.Labels = map[string]string{"step": strconv.Itoa(step)}
		case 3:
			set.ByAge = map[string][]string{fmt.Sprintf("shop-%d", i%7): {"a", strconv.Itoa(step)}}
		case 4:
			set.RouteTable = &rules.RouteTable{Routes: []rules.Route{{Namespace: "x", Target: fmt.Sprintf("HTTPRoute/%d", step)}}}
		case 5:
			set.RouteTable, set.HashKey = nil, strconv.Itoa(step)
		case 6:
			followed = rules.Encoder{}
		case 7:
			namespace.Tenant = strconv.Itoa(step)
		case 8:
			namespace.Labels = nil
		case 9:
			namespace.Name = fmt.Sprintf("team-%04d", 1000+step)
		case 10: // the same names in another order
			for scope, names := range set.ByAge {
				names = slices.Clone(names)
				slices.Reverse(names)
				set.ByAge = map[string][]string{scope: names}
			}
		case 11: // the same table elsewhere in memory
			if set.RouteTable != nil {
				set.RouteTable = new(*set.RouteTable)
			}
		case 12: // the name of a rule moves its rule to another shard
			set.Rules[i].Policy += "x"
			slices.SortFunc(set.Rules, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
		}
		grown, fresh := encode(&followed, set), encode(new(rules.Encoder), set)
		if grown.Revision != fresh.Revision || !bytes.Equal(grown.Data, fresh.Data) || !maps.EqualFunc(grown.Shards, fresh.Shards, bytes.Equal) {
			t.Fatalf("step %d: revision %s, and that of a new Encoder is %s", step, grown.Revision, fresh.Revision)
		}
	}
}

func TestAssemble_KeepsTheShardsThatBothSetsHave(t *testing.T) {
	var encoder rules.Encoder
	before, set := encode(&encoder, manyRules(1000)), manyRules(1000)
	set.Rules[3].Units++
	after := encode(&encoder, set)
	first := assembled(t, before.Data, nil, before.Shards)
	m, err := rules.DecodeManifest(after.Data)
	if err != nil {
		t.Fatal(err)
	}
	lacking := m.Lacking(first)
	if len(lacking) != 1 {
		t.Fatalf("an edit of one policy changes %d shards, want 1", len(lacking))
	}
	second := assembled(t, after.Data, first, map[string][]byte{lacking[0].Hash: after.Shards[lacking[0].Hash]})
	changed := 0
	for i := range first.Shards {
		if first.Shards[i] != second.Shards[i] {
			changed++
		}
	}
	if changed != 1 || first.RouteTable != second.RouteTable {
		t.Errorf("%d shards are other pointers, want 1", changed)
	}
	if diff := cmp.Diff(set, second.Set()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func assembled(t *testing.T, manifest []byte, previous *rules.Sharded, shards map[string][]byte) *rules.Sharded {
	t.Helper()
	m, err := rules.DecodeManifest(manifest)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Assemble(previous, shards)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAssemble_RejectsShardsThatAreDamagedOrMissing(t *testing.T) {
	encoded := encode(new(rules.Encoder), manyRules(5))
	m, err := rules.DecodeManifest(encoded.Data)
	if err != nil {
		t.Fatal(err)
	}
	for hash, data := range encoded.Shards {
		damaged := bytes.Clone(data)
		damaged[len(damaged)/2] ^= 1
		other, _ := rules.Encode(rules.Set{})
		for name, content := range map[string][]byte{"missing": nil, "damaged": damaged, "truncated": data[:len(data)-3], "another": other} {
			shards := maps.Clone(encoded.Shards)
			shards[hash] = content
			if content == nil {
				delete(shards, hash)
			}
			s, err := m.Assemble(nil, shards)
			if err == nil || errors.Is(err, rules.ErrMissingShard) != (content == nil) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		}
	}
}

// A valid shard of the same size, under the key of another one, has other rules.
func TestAssemble_RejectsAnotherShardOfTheSameSize(t *testing.T) {
	set := manyRules(1)
	set.Namespaces, set.ByAge, set.RouteTable = nil, nil, nil
	encoded := encode(new(rules.Encoder), set)
	set.Rules[0].Units++
	other := encode(new(rules.Encoder), set)
	m, err := rules.DecodeManifest(encoded.Data)
	if err != nil {
		t.Fatal(err)
	}
	for hash := range encoded.Shards {
		for _, data := range other.Shards {
			if len(decompressed(t, data)) != len(decompressed(t, encoded.Shards[hash])) {
				t.Fatal("the shards have different sizes")
			}
			if s, err := m.Assemble(nil, map[string][]byte{hash: data}); err == nil || !strings.Contains(err.Error(), "its content has hash") {
				t.Errorf("%v, %v", s, err)
			}
		}
	}
}

func TestDecodeManifest_RejectsInvalidManifests(t *testing.T) {
	hash := strings.Repeat("A", 43)
	for name, test := range map[string]struct{ manifest, want string }{
		"a number twice":         {`{"format":4,"shards":[{"number":1,"hash":"` + hash + `","size":1},{"number":1,"hash":"` + hash + `","size":1}]}`, "shard 1 after shard 1"},
		"a number that is high":  {`{"format":4,"shards":[{"number":256,"hash":"` + hash + `","size":1}]}`, "shard 256 after shard -1 of 256"},
		"no hash":                {`{"format":4,"shards":[{"number":1,"hash":"x","size":1}]}`, `the hash "x"`},
		"a negative size":        {`{"format":4,"shards":[{"number":1,"hash":"` + hash + `","size":-1}]}`, "exceed"},
		"too much together":      {`{"format":4,"shards":[{"number":1,"hash":"` + hash + `","size":268435456},{"number":2,"hash":"` + hash + `","size":1}]}`, "exceed 268435456 bytes together"},
		"an unknown field":       {`{"format":4,"shards":[],"x":1}`, "unknown field"},
		"a size that wraps":      {`{"format":4,"shards":[{"number":1,"hash":"` + hash + `","size":9223372036854775807},{"number":2,"hash":"` + hash + `","size":2}]}`, "exceed"},
		"rules in the manifest":  {`{"format":4,"shards":[],"rules":[]}`, "unknown field"},
		"a hash twice":           {`{"format":4,"shards":[{"number":1,"hash":"` + hash + `","size":2},{"number":2,"hash":"` + hash + `","size":2}]}`, "lists the hash \"" + hash + "\" twice"},
		"the hash of the table":  {`{"format":4,"routeTable":{"hash":"` + hash + `","size":2},"shards":[{"number":1,"hash":"` + hash + `","size":2}]}`, "twice"},
		"a hash in lines":        {`{"format":4,"shards":[{"number":1,"hash":"\n` + hash + `","size":2}]}`, "which is no SHA-256"},
		"a hash with loose bits": {`{"format":4,"shards":[{"number":1,"hash":"` + hash[1:] + `B","size":2}]}`, "which is no SHA-256"},
		"a format of the future": {`{"format":5,"shards":[]}`, "unknown format 5"},
		"a second format":        {`{"format":4,"shards":[],"format":5}`, "unknown format 5"},
		"a lower second format":  {`{"format":4,"shards":[],"format":1}`, `unknown field "shards"`},
		"text behind it":         {`{"format":4,"shards":[]}x`, "invalid character 'x'"},
		"a second manifest":      {`{"format":4,"shards":[]}{"format":4,"shards":[]}`, "invalid character '{'"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := rules.DecodeManifest(compressed(t, "", test.manifest)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want an error that contains %q", err, test.want)
			}
		})
	}
}

// TestAssemble_RejectsRulesOfAnotherShard prevents two rules with one name.
func TestAssemble_RejectsRulesOfAnotherShard(t *testing.T) {
	encoded := encode(new(rules.Encoder), rules.Set{Rules: []rules.Rule{rule("shop/a")}})
	plain := decompressed(t, encoded.Data)
	moved := strings.Replace(plain, fmt.Sprintf(`"number":%d`, rules.ShardOf("shop/a")), fmt.Sprintf(`"number":%d`, (rules.ShardOf("shop/a")+1)%rules.ShardCount), 1)
	m, err := rules.DecodeManifest(compressed(t, "", moved))
	if err != nil {
		t.Fatal(err)
	}
	for _, previous := range []*rules.Sharded{nil, assembled(t, encoded.Data, nil, encoded.Shards)} { // also a shard that the limiter holds
		if _, err := m.Assemble(previous, encoded.Shards); err == nil || !strings.Contains(err.Error(), `it has rule "shop/a", which belongs to shard`) {
			t.Errorf("%v", err)
		}
	}
}

func TestDecode_RejectsArchives(t *testing.T) {
	encoded := encode(new(rules.Encoder), manyRules(5))
	whole := archive(t, encoded)
	document, _ := rules.Encode(rules.Set{})
	for name, data := range map[string][]byte{
		"without its last byte":     whole[:len(whole)-1],
		"only the manifest":         encoded.Data,
		"with one more shard":       append(bytes.Clone(whole), document...),
		"two whole documents":       append(bytes.Clone(document), document...),
		"with bytes that are no gz": append(bytes.Clone(whole), 1, 2, 3),
	} {
		if set, _, err := rules.Decode(data); err == nil {
			t.Errorf("%s: decoded %d rules", name, len(set.Rules))
		}
	}
}
