package selection

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Another version of the operator may compress the same rules differently. Limiters have that data.
func TestRestore_KeepsTheDataThatIsActive(t *testing.T) {
	set := compiler.Compile(nil, limiterAt(1), policies(policy("daily", 1, 10)), Hashes{})
	reader, err := gzip.NewReader(bytes.NewReader(set.Data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	var other bytes.Buffer
	writer, err := gzip.NewWriterLevel(&other, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	writer.Comment = set.Revision
	if _, err := writer.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	manifest := bytes.Clone(other.Bytes())
	for _, data := range set.Shards { // there is one policy
		other.Write(data)
	}
	restored, err := compiler.Restore(limiterAt(1), Inputs{}, other.Bytes(), set.Revision)
	if err != nil || !bytes.Equal(archived(t, restored), other.Bytes()) || !bytes.Equal(restored.Data, manifest) || restored.Revision != set.Revision {
		t.Errorf("the restored data has %d bytes, want the %d that are active: %v", len(restored.Data), len(manifest), err)
	}
}

// A later version of the operator may have published rules that this one cannot read: it keeps those that it can.
func TestRestore_ReportsRulesOfAnotherVersion(t *testing.T) {
	rule := func(policy, domain string, algorithm limiter.Algorithm) rules.Rule {
		return rules.Rule{Policy: policy, Domain: domain, Axis: "Tenant", Algorithm: algorithm, Units: 10, WindowSeconds: 60}
	}
	data, revision := rules.Encode(rules.Set{Rules: []rules.Rule{
		rule("_cluster/new", "", "Quantum"), rule("shop/new", "shop", "Quantum"), rule("shop/old", "shop", limiter.FixedWindow),
	}})
	restored, err := compiler.Restore(limiterAt(1), Inputs{}, data, revision)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []Key{{"_cluster/new", true}, {"shop/new", false}} {
		if problems := restored.Problems[key]; len(problems) != 1 || problems[0].Policy != key.Name || problems[0].Message == "" {
			t.Errorf("problems of %v: %+v", key, problems)
		}
	}
	if len(restored.Problems) != 2 || len(restored.Rules) != 1 || restored.Rules["shop/old"].Effective.Rates[0].Limit == nil || *restored.Rules["shop/old"].Effective.Rates[0].Limit != 10 {
		t.Errorf("rules %+v, problems %+v", restored.Rules, restored.Problems)
	}
	want := map[string]string{"shop/old": restored.Rules["shop/old"].Revision}
	if diff := cmp.Diff(want, restored.RuleRevisions()); diff != "" || want["shop/old"] == "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func archived(t *testing.T, set *RuleSet) []byte {
	t.Helper()
	data, err := set.Archive()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
