package directory

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	"github.com/weir-dev/weir/limiter/rules"
)

// Files contain no routes of a Gateway: a policy that targets one is valid, and limits nothing.
func TestDirectory_WarnsOfPoliciesThatTargetAGateway(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"gateway": "kind: Gateway", "route": "kind: HTTPRoute"} {
		text := "apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {namespace: shop, name: " + name + "}\n" +
			"spec: {axis: IP, limit: 1, window: 1m, targetRefs: [{group: gateway.networking.k8s.io, name: public, " + target + "}]}\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	d := &Directory{
		Path: dir, Identity: compile.DefaultIdentity(), Schema: small, Install: func(rules.Set, string) error { return nil },
		Log: slog.New(slog.NewTextHandler(&out, nil)),
	}
	loaded, err := d.Load()
	if err != nil || len(loaded.Problems) > 0 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	if err := d.Apply(loaded.Set, "sha256:1"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "limits no requests") != 1 || !strings.Contains(got, "policy=shop/gateway") {
		t.Error(got)
	}
}

func TestRetain_KeepsRulesThatAnInvalidEditWouldRemove(t *testing.T) {
	set := func(units int64, policies ...string) rules.Set {
		var s rules.Set
		for _, p := range policies {
			s.Rules = append(s.Rules, rules.Rule{Policy: p, Units: units})
		}
		return s
	}
	unreadable := policyfile.Problem{File: "a.yaml", Message: "no YAML"}
	badB := policyfile.Problem{File: "a.yaml", Policy: "shop/b", Field: "spec.limit"}
	tests := map[string]struct {
		read, before rules.Set
		problems     []policyfile.Problem
		want         map[string]int64 // units by policy
	}{
		"no problem": {set(2, "shop/a"), set(1, "shop/a", "shop/b"), nil, map[string]int64{"shop/a": 2}},
		"an invalid policy keeps its previous version": {set(2, "shop/a", "shop/c"), set(1, "shop/a", "shop/b"), []policyfile.Problem{badB}, map[string]int64{"shop/a": 2, "shop/b": 1, "shop/c": 2}},
		"another policy can be removed":                {set(2, "shop/c"), set(1, "shop/a", "shop/b"), []policyfile.Problem{badB}, map[string]int64{"shop/b": 1, "shop/c": 2}},
		"a policy that was never valid":                {set(2, "shop/a"), set(1, "shop/a"), []policyfile.Problem{badB}, map[string]int64{"shop/a": 2}},
		"an unreadable file can contain any policy":    {set(2, "shop/c"), set(1, "shop/a", "shop/b"), []policyfile.Problem{unreadable}, map[string]int64{"shop/a": 1, "shop/b": 1, "shop/c": 2}},
		"a second definition with problems":            {set(2, "shop/b"), set(1, "shop/b"), []policyfile.Problem{badB}, map[string]int64{"shop/b": 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]int64{}
			last := ""
			set, kept := retain(test.read, test.before, test.problems)
			for _, rule := range set.Rules {
				if rule.Policy <= last {
					t.Errorf("%s after %s", rule.Policy, last)
				}
				last = rule.Policy
				got[rule.Policy] = rule.Units
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("units by policy (-want +got):\n%s", diff)
			}
			for _, policy := range kept {
				if slices.ContainsFunc(test.read.Rules, func(r rules.Rule) bool { return r.Policy == policy }) || got[policy] != 1 {
					t.Errorf("kept lists %s", policy)
				}
			}
			if len(kept) != len(got)-len(test.read.Rules) {
				t.Errorf("%d rules are kept, and kept lists %v", len(got)-len(test.read.Rules), kept)
			}
		})
	}
}

// Two rules with the same counters would count each request twice.
func TestRetain_KeepsNoRuleWhoseCountersAnotherRuleHas(t *testing.T) {
	plain, minute, day := rules.Rule{Policy: "shop/plans"}, rules.Rule{Policy: "shop/plans:1m", Rate: "1m"}, rules.Rule{Policy: "shop/plans:1d", Rate: "1d"}
	renamed := rules.Rule{Policy: "shop/a", Counter: "shop/plans"}
	unreadable, conflicted := policyfile.Problem{File: "a.yaml"}, policyfile.Problem{Policy: "shop/plans", Field: "spec.counterName"}
	for name, test := range map[string]struct {
		read, before []rules.Rule
		problem      policyfile.Problem
	}{
		"a policy gets a second rate":              {[]rules.Rule{day, minute}, []rules.Rule{plain}, unreadable},
		"a policy loses a rate":                    {[]rules.Rule{plain}, []rules.Rule{day, minute}, unreadable},
		"another policy takes over its counters":   {[]rules.Rule{renamed}, []rules.Rule{plain}, conflicted},
		"a policy takes over those of another one": {[]rules.Rule{plain}, []rules.Rule{renamed}, unreadable},
	} {
		set, kept := retain(rules.Set{Rules: test.read}, rules.Set{Rules: test.before}, []policyfile.Problem{test.problem})
		if diff := cmp.Diff(test.read, set.Rules); diff != "" || len(kept) > 0 {
			t.Errorf("%s: kept %v (-read +retained):\n%s", name, kept, diff)
		}
	}
}

func TestDirectory_CompilesFilesOnlyAfterAChange(t *testing.T) {
	const policy = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: a, namespace: shop}
spec: {axis: IP, limit: %d, window: 1m, algorithm: SlidingWindowCounter}
`
	path := filepath.Join(t.TempDir(), "a.yaml")
	write := func(limit int) {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, policy, limit), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &Directory{Path: filepath.Dir(path), Identity: compile.DefaultIdentity(), Schema: small}
	load := func(units int64) *rules.Rule {
		t.Helper()
		loaded, err := d.Load()
		if err != nil || len(loaded.Problems) > 0 || len(loaded.Set.Rules) != 1 || loaded.Set.Rules[0].Units != units {
			t.Fatalf("load = %+v, %v, want a rule with %d units", loaded, err, units)
		}
		return &loaded.Set.Rules[0]
	}

	write(10)
	first := load(10)
	write(10) // with a new time of its last change
	if load(10) != first {
		t.Error("the same files were compiled again")
	}
	write(20) // as many bytes
	load(20)
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), "b.yaml")); err != nil {
		t.Fatal(err)
	}
	before := d.loaded.Version
	if load(20); d.loaded.Version == before {
		t.Error("no new version after a file was renamed: its problems would name the previous file")
	}
}

func small() (policyfile.Schema, error) { return structure.Schema{}, nil }
