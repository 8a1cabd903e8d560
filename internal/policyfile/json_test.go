package policyfile_test

import (
	"testing"

	"github.com/weir-dev/weir/internal/policyfile"
)

// kubectl apply reads the JSON files of a directory too. Those of other programs are skipped.
func TestCompile_ReadsJSON(t *testing.T) {
	result := newLoader(t).Compile([]policyfile.File{
		{Name: "policy.json", Content: []byte("{\n\t\"apiVersion\": \"weir.dev/v1alpha1\", \"kind\": \"RateLimitPolicy\",\n\t\"metadata\": {\"name\": \"a\", \"namespace\": \"shop\"},\n" +
			"\t\"spec\": {\"axis\": \"IP\",\n\t\t\"limit\": -1, \"window\": \"1m\"}\n}\n")},
		{Name: "package.json", Content: []byte(`{"name": "web", "version": "1.0.0"}`)},
		{Name: "list.json", Content: []byte(`[1, 2]`)},
		{Name: "half.json", Content: []byte(`{"kind": "RateLimitPolicy"}`)},
		{Name: "broken.json", Content: []byte(`{"kind": `)},
	})
	if result.Policies != 1 || len(result.Skipped) != 2 || len(result.Problems) != 3 {
		t.Fatalf("%d policies, skipped %v, problems %v", result.Policies, result.Skipped, result.Problems)
	}
	if p := result.Problems[2]; p.File != "policy.json" || p.Line != 5 || p.Field != "spec.limit" || p.Column == 0 {
		t.Errorf("%+v", p)
	}
}
