package importer_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/policyfile"
)

// roots are the fields of the configurations in these tests.
var roots = [][]string{{"domain"}, {"apiVersion", "kind"}}

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
		"a Secret": {
			"apiVersion: v1\nkind: Secret\nstringData:\n  a.yaml: |\n    domain: shop\n", []string{"\n\n\n\ndomain: shop\n"},
		},
		"a document without content first": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  a.yaml: |\n    ---\n    # comment\n    ---\n    domain: shop\n", []string{"\n\n\n\n---\n# comment\n---\ndomain: shop\n"},
		},
		"inside of other values": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  values.yaml: |\n    service: [{domain: shop}]\n", []string{"\n\n\n\nservice: [{domain: shop}]\n"},
		},
		"CRLF and a byte order mark": {
			"\ufeffapiVersion: v1\r\nkind: ConfigMap\r\ndata:\r\n  a.yaml: |\r\n    domain: shop\r\n", []string{"\n\n\n\ndomain: shop\n"},
		},
		"another configuration": {
			"apiVersion: v1\nkind: ConfigMap\ndata: {a.yaml: \"http: {port: 80}\"}\n", []string{"apiVersion: v1\nkind: ConfigMap\ndata: {a.yaml: \"http: {port: 80}\"}\n"},
		},
		"without a configuration": {"apiVersion: v1\nkind: ConfigMap\ndata: {a: text}\n", []string{"apiVersion: v1\nkind: ConfigMap\ndata: {a: text}\n"}},
		"no data":                 {"apiVersion: v1\nkind: ConfigMap\n", []string{"apiVersion: v1\nkind: ConfigMap\n"}},
		"another list":            {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}, {kind: ConfigMap}]\n", []string{"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}, {kind: ConfigMap}]\n"}},
		"invalid YAML":            {"kind: ConfigMap\n: [", []string{"kind: ConfigMap\n: ["}},
	} {
		var got []string
		for _, f := range importer.Unwrap([]policyfile.File{{Name: "a.yaml", Content: []byte(c.content)}}, roots...) {
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

// The lines of these texts are not lines of the file.
func TestUnwrap_NamesTheKeysOfTextsWithOtherLines(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("domain: shop\n"))
	for name, content := range map[string]string{
		"a Secret":          "kind: Secret\ndata: {a.yaml: " + encoded + ", password: c2VjcmV0, broken: '*'}\n",
		"a wrapped Secret":  "kind: Secret\ndata:\n  a.yaml: |\n    " + encoded[:4] + "\n    " + encoded[4:] + "\n",
		"binary data":       "kind: ConfigMap\nbinaryData: {a.yaml: " + encoded + "}\n",
		"a quoted text":     "kind: ConfigMap\ndata: {a.yaml: \"domain: shop\\n\\nb: 1\\n\"}\n",
		"a folded text":     "kind: ConfigMap\ndata:\n  a.yaml: >\n    domain: shop\n\n\n    b: 1\n",
		"JSON with a quote": `{"kind": "ConfigMap", "data": {"a.yaml": "domain: shop\n\nb: 1\n"}, "apiVersion": "v1"}`,
	} {
		if !strings.HasPrefix(content, "{") {
			content = "apiVersion: v1\n" + content
		}
		var got []string
		for _, f := range importer.Unwrap([]policyfile.File{{Name: "f.yaml", Content: []byte(content)}}, roots...) {
			got = append(got, f.Name+" "+strings.Join(strings.Fields(string(f.Content)), " "))
		}
		want := "f.yaml(a.yaml) domain: shop"
		if !strings.Contains(content, encoded) && !strings.Contains(content, encoded[4:]) {
			want += " b: 1"
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
