package importer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

func TestUnwrap_KeepsTheLinesOfConfigurations(t *testing.T) {
	const configMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: ratelimit}
data:
  config.yaml: |
    domain: shop
    descriptors: []
  README.md: "a: b"
  notes: just text
  other.yaml: "domain: bank"
`
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"a ConfigMap":           {configMap, []string{"\n\n\n\n\ndomain: shop\ndescriptors: []\n", "\n\n\n\n\n\n\n\n\ndomain: bank"}},
		"next to other objects": {"kind: A\n---\n" + configMap + "---\nkind: B\n", []string{"kind: A\n\n\n\n\n\n\n\n\n\n\n\n---\nkind: B\n", "\n\n\n\n\n\n\ndomain: shop\ndescriptors: []\n", "\n\n\n\n\n\n\n\n\n\n\ndomain: bank"}},
		"a list of ConfigMaps": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data:\n    a.yaml: |\n      domain: shop\n",
			[]string{"\n\n\n\n\n\n\ndomain: shop\n"},
		},
		"without a configuration": {"apiVersion: v1\nkind: ConfigMap\ndata: {a: text}\n", []string{"apiVersion: v1\nkind: ConfigMap\ndata: {a: text}\n"}},
		"no data":                 {"apiVersion: v1\nkind: ConfigMap\n", []string{"apiVersion: v1\nkind: ConfigMap\n"}},
		"another list":            {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}, {kind: ConfigMap}]\n", []string{"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}, {kind: ConfigMap}]\n"}},
		"invalid YAML":            {"kind: ConfigMap\n: [", []string{"kind: ConfigMap\n: ["}},
	} {
		var got []string
		for _, f := range importer.Unwrap([]policyfile.File{{Name: "a.yaml", Content: []byte(c.content)}}) {
			if f.Name != "a.yaml" {
				t.Errorf("%s: name %s", name, f.Name)
			}
			got = append(got, string(f.Content))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
