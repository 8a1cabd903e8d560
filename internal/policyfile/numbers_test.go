package policyfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/lintrule"
	"github.com/weir-dev/weir/internal/policyfile"
)

func messages(problems []policyfile.Problem, prefix string, only string) (texts []string) {
	for i := range problems {
		if only == "" || problems[i].Rule == only {
			texts = append(texts, strings.TrimPrefix(problems[i].String(), prefix))
		}
	}
	return texts
}

// A number of YAML that is not in decimal digits has a finding, with the number that is enforced. Decimal digits, texts and fields
// with a problem have no such finding.
func TestFindings_NameNumbersThatAreNotDecimal(t *testing.T) {
	base8 := func(text, value, decimal string) string {
		return fmt.Sprintf("%s is the number %s, because kubectl reads a leading zero as base 8, and other programs as base 10; write %s, or %s if that is meant", text, value, value, decimal)
	}
	plain := func(text, value string) string {
		return fmt.Sprintf("%s is the number %s for kubectl; write %s", text, value, value)
	}
	for limit, want := range map[string]string{
		"010": base8("010", "8", "10"), "0_10": base8("0_10", "8", "10"), "+010": base8("+010", "8", "10"), `!!int "010"`: base8("010", "8", "10"),
		"09": plain("09", "9"), "0o10": plain("0o10", "8"), "0x10": plain("0x10", "16"), "0b11": plain("0b11", "3"), "1_000": plain("1_000", "1000"), "1e3": plain("1e3", "1000"),
		"1.0": plain("1.0", "1"), "+10": plain("+10", "10"), "&a 0x10": plain("0x10", "16"),
		"10": "", "0": "", "&a 10": "", `"010"`: "", "1:30": "", "100/m": "", "-10": "", "-010": "", "!!str 010": "",
	} {
		result := newLoader(t).Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(
			"apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec:\n  <<: {axis: IP}\n  window: 1m\n  limit: " + limit + "\n")}})
		var expected []string
		if want != "" {
			expected = []string{"spec.limit: " + want}
		}
		if diff := cmp.Diff(expected, messages(result.Findings().Warnings, "a.yaml:7: shop/a: ", lintrule.UnusualNumber)); diff != "" {
			t.Errorf("limit: %s (-want +got):\n%s", limit, diff)
		}
	}
}

func TestFindings_NameNumbersWhereverTheyAre(t *testing.T) {
	const text = `apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: a, namespace: shop, annotations: {ignore.lint.weir.dev/unusual-number: a reason}}
spec: {axis: IP, limit: 010, window: 1m}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: b, namespace: shop}
spec:
  <<: {axis: IP, limit: 0x10}
  rates: [{window: 1m, limit: 5}, {window: 1h, limit: 020}]
---
apiVersion: v1
kind: List
items:
- apiVersion: weir.dev/v1alpha1
  kind: Limiter
  metadata: {name: a, namespace: shop}
  spec: {replicas: 03, redis: {url: "redis://redis:6379"}}
- {apiVersion: v1, kind: Service, spec: {port: 010}}
`
	result := newLoader(t).Compile([]policyfile.File{{Name: "a.yaml", Content: []byte(text)}})
	want := []string{
		"10: shop/b: spec.limit: 0x10 is the number 16 for kubectl; write 16",
		"11: shop/b: spec.rates[1].limit: 020 is the number 16, because kubectl reads a leading zero as base 8, and other programs as base 10; write 16, or 20 if that is meant",
		"19: shop/a: spec.replicas: 03 is the number 3 for kubectl; write 3",
	}
	if diff := cmp.Diff(want, messages(result.Findings().Warnings, "a.yaml:", lintrule.UnusualNumber)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Kinds that only commands read, such as tests, have no warnings: a number that is another one in base 10 is a problem.
func TestDocument_RejectsNumbersInBase8(t *testing.T) {
	for repeat, want := range map[string][]string{
		"010":   {"repeat: 010 is the number 8, because kubectl reads a leading zero as base 8, and other programs as base 10; write 8, or 10 if that is meant"},
		"1_000": nil, "0x10": nil, "10": nil, "07": nil,
	} {
		documents := policyfile.Documents(policyfile.File{Name: "a.yaml", Content: []byte("repeat: " + repeat + "\n")})
		var into struct {
			Repeat int `json:"repeat"`
		}
		if diff := cmp.Diff(want, messages(documents[0].Decode(&into), "a.yaml:1: ", "")); diff != "" {
			t.Errorf("repeat: %s (-want +got):\n%s", repeat, diff)
		}
	}
}
