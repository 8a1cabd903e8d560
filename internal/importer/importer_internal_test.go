package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/policyfile"
)

func TestSetNames_NamesPoliciesAfterTheirPaths(t *testing.T) {
	long := strings.Repeat("a", 62)
	policies := []Policy{
		{Domain: "shop", Path: []string{"API", "v1/users!"}},
		{Domain: "shop", Path: []string{"--é--"}},
		{Domain: "shop", Path: []string{long, ""}},
		{Domain: "shop", Path: []string{long + "b"}},
		{Domain: "shop", Path: []string{long + "bc"}},
		{Domain: "shop", Path: []string{"x", "y"}},
		{Domain: "shop", Path: []string{"x-y"}},
		{Domain: "other", Path: []string{"x-y"}},
		{Domain: "cluster", Path: []string{"a"}},
		{Domain: "shop", Cluster: true, Path: []string{"a"}},
		{Domain: "Not A Label", Path: []string{"a"}},
		{Domain: "shop", Path: []string{strings.Repeat("a", 53) + "-" + strings.Repeat("b", 20)}},
	}
	setNames(policies)
	var names []string
	for i := range policies {
		names = append(names, policies[i].name)
	}
	for i, want := range map[int]string{
		0: "api-v1-users", 1: "limit", 2: long, 3: long + "b", 7: "x-y", 8: "a", 9: "shop-a", 10: "not-a-label-a",
	} {
		if names[i] != want {
			t.Errorf("policy %d: name %q, want %q", i, names[i], want)
		}
	}
	for i, prefix := range map[int]string{4: strings.Repeat("a", 54), 5: "x-y", 6: "x-y", 11: strings.Repeat("a", 53)} {
		if !strings.HasPrefix(names[i], prefix+"-") || len(names[i]) != len(prefix)+1+8 {
			t.Errorf("policy %d: name %q, want %s- and 8 digits", i, names[i], prefix)
		}
	}
	if names[5] == names[6] {
		t.Errorf("two policies have the name %s", names[5])
	}
	again := slices.Clone(policies)
	slices.Reverse(again)
	setNames(again)
	for i := range policies {
		if got := again[len(again)-1-i].name; got != names[i] {
			t.Errorf("policy %d: name %q in another order, before %q", i, got, names[i])
		}
	}
}

func TestResult_SortsFindingsByPlace(t *testing.T) {
	var r Result
	for _, at := range []Place{{"b", 1}, {"a", 10}, {"a", 2}, {"a", 10}, {"a", 2}} {
		r.Add(at, Note, "%d", len(r.Findings))
	}
	r.Add(Place{"a", 3}, Invalid, "%d", 5)
	r.sort()
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.String())
	}
	want := []string{"a:2: note: 2", "a:2: note: 4", "a:3: error: 5", "a:10: note: 1", "a:10: note: 3", "b:1: note: 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r.Count(Note) != 5 || r.Count(Invalid) != 1 || r.Count(Difference) != 0 {
		t.Errorf("%d notes, %d errors", r.Count(Note), r.Count(Invalid))
	}
}

func TestFinish_BoundsTheFindingsOfAFile(t *testing.T) {
	var r Result
	long := strings.Repeat("x", 8<<20)
	for i := range 3 * maxFindings {
		r.Add(Place{"a", 1 + i}, Invalid, "duplicate field %s", long)
		r.Add(Place{"b", 1 + i}, Note, "note")
	}
	r.Add(Place{"b", 1}, Invalid, "error")
	if _, err := r.Finish(loader(t)); err != nil {
		t.Fatal(err)
	}
	size, last := 0, map[string]string{}
	for _, f := range r.Findings {
		size += len(f.Message)
		last[f.File] = f.String()
	}
	if len(r.Findings) != 2*(maxFindings+1)+1 || size > 2<<20 {
		t.Errorf("%d findings of %d bytes", len(r.Findings), size)
	}
	if diff := cmp.Diff(map[string]string{"a": "a:1000: error: and 2000 more of this kind in the file", "b": "b:1000: note: and 2000 more of this kind in the file"}, last); diff != "" {
		t.Error(diff)
	}
	if errors, notes := r.Count(Invalid), r.Count(Note); errors != 3*maxFindings+1 || notes != 3*maxFindings {
		t.Errorf("%d errors and %d notes", errors, notes)
	}
}

func TestNode_ReportsALargeDocument(t *testing.T) {
	items := func(n Node) any {
		for range maxNodes / 100 {
			n.Items("x")
		}
		return "-"
	}
	list := "[" + strings.Repeat("1, ", 99) + "1]"
	for content, want := range map[string]string{
		list: "split the file", "- &a 1\n" + strings.Repeat("- *a\n", 99): "split the file, or write it without aliases",
	} {
		if got := read(content, items); !strings.Contains(got, "reading it takes more than 1000000 steps; "+want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// read reads one document, and returns the findings with what visit reports.
func read(content string, visit func(Node) any) string {
	var out Result
	var values []string
	for _, n := range Read(policyfile.File{Name: "f", Content: []byte(content)}, &out) {
		values = append(values, fmt.Sprint(visit(n)))
	}
	for _, f := range out.Findings {
		values = append(values, f.String())
	}
	return strings.Join(values, "; ")
}

func TestNode_ReportsValuesOfTheWrongKind(t *testing.T) {
	text := func(n Node) any { return n.Text("x") }
	boolean := func(n Node) any { return n.Bool("x") }
	number := func(n Node) any { return n.Int("x") }
	small := func(n Node) any { return n.Uint32("x") }
	items := func(n Node) any { return len(n.Items("x")) }
	fields := func(n Node) any {
		var all []string
		for _, f := range n.Fields("x") {
			all = append(all, fmt.Sprint(f.Key, "@", f.Place.Line, "=", f.Value.yaml.Value))
		}
		return all
	}
	for _, test := range []struct {
		content string
		visit   func(Node) any
		want    string
	}{
		{"a", text, "a"},
		{"[]", text, "; f:1: error: x must be a text, but is a list"},
		{"{}", text, "; f:1: error: x must be a text, but is a mapping"},
		{"true", boolean, "true"},
		{"7", boolean, `false; f:1: error: x must be true or false, but is "7"`},
		{"[]", boolean, "false; f:1: error: x must be true or false, but is a list"},
		{"0", number, "0"},
		{"9223372036854775807", number, "9223372036854775807"},
		{"-1", number, `0; f:1: error: x must be a whole number of at least 0, but is "-1"`},
		{"1.5", number, `0; f:1: error: x must be a whole number of at least 0, but is "1.5"`},
		{"1e3", number, "1000"},
		{"4294967295", small, "4294967295"},
		{"4294967296", small, `0; f:1: error: x must be a whole number from 0 to 4294967295, but is "4294967296"`},
		{"[1, 2, ~]", items, "3"},
		{"7", items, "0; f:1: error: expected a list of x, but found a single value"},
		{"a: 1\na: 3\nb: 2", fields, "[a@1=1 b@3=2]; f:2: error: duplicate field a of x: it is already set in line 1; remove one of them"},
		{"a: 1\nb: 2\na: 3", fields, "[a@1=1 b@2=2]; f:3: error: duplicate field a of x: it is already set in line 1; remove one of them"},
		{"[]", fields, "[]; f:1: error: x must be a mapping of fields, but is a list"},
		{"<<: [{a: 1, b: 2}, {b: 3, c: 4}]\na: 5", fields, "[a@2=5 b@1=2 c@1=4]"},
		{"~", text, ""},
		{"# only a comment\n---\na\n---\nb", text, "a; b"},
		{"a: [\nb", text, "f:2: error: invalid YAML: did not find expected ',' or ']'"},
		{"a\n---\n*b", text, "a; f:1: error: invalid YAML: unknown anchor 'b' referenced"},
	} {
		if got := read(test.content, test.visit); got != test.want {
			t.Errorf("%q: %s, want %s", test.content, got, test.want)
		}
	}
}

// Nine levels of ten aliases stand for a billion values.
func TestRead_BoundsExpandedAliases(t *testing.T) {
	var content strings.Builder
	content.WriteString("a0: &a0 [x]\n")
	for i := 1; i <= 9; i++ {
		fmt.Fprintf(&content, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	var visit func(n Node) int
	visit = func(n Node) (values int) {
		switch n.yaml.Tag {
		case "!!map":
			for _, f := range n.Fields("x") {
				values += visit(f.Value)
			}
		case "!!seq":
			for _, item := range n.Items("x") {
				values += visit(item)
			}
		}
		return values + 1
	}
	got := read(content.String(), func(n Node) any { return visit(n) < 2_000_000 })
	if !strings.HasPrefix(got, "true; f:") || strings.Count(got, "takes more than 1000000 steps") != 1 {
		t.Error(got)
	}
}

func TestObjects_ReadsListsAndReportsOtherGroups(t *testing.T) {
	content := `kind: ThingList
apiVersion: v1
items:
- {apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: n}, spec: {}, status: {}}
- {apiVersion: example.com/v1, kind: Thing, metadata: {name: b}, data: {}}
---
{apiVersion: example.org/v1, kind: Thing}
---
{apiVersion: weir.dev/v1alpha1, kind: Thing}
---
{apiVersion: example.com/v1, kind: Other}
`
	var out Result
	var got []string
	for _, o := range Objects([]policyfile.File{{Name: "f", Content: []byte(content)}}, &out, "example.com", "Thing") {
		body := o.Body()
		_, hasStatus := o.Field("status")
		got = append(got, fmt.Sprint(o.Namespace, "/", o.Name, " ", body[0].Key, " ", len(body), " ", hasStatus))
	}
	for _, f := range out.Findings {
		got = append(got, f.String())
	}
	want := []string{
		"n/a spec 1 true", "default/b data 1 false",
		"f:7: not imported: Thing of example.org/v1 is not in the API group example.com; set apiVersion to this group if the fields are the same, or remove the object",
		"f:9: note: skipped: Thing of weir.dev/v1alpha1",
		"f:11: note: skipped: Other of example.com/v1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	out = Result{}
	if Objects(nil, &out, "example.com", "Thing"); len(out.Findings) != 0 {
		t.Errorf("%v without a file", out.Findings)
	}
}

// Helm charts, admission plugins and GitOps tools have objects inside of other documents. A reference to an object is not an object.
func TestObjects_ReadsObjectsInsideOfDocuments(t *testing.T) {
	content := `extra:
- {apiVersion: example.com/v1, kind: Thing, metadata: {name: a}, spec: {}}
- {apiVersion: v1, kind: Pod, metadata: {name: b, ownerReferences: [{apiVersion: example.com/v1, kind: Thing, name: c}]}}
---
[{apiVersion: example.com/v1, kind: Thing, metadata: {name: d}}]
---
{apiVersion: v1, kind: Pod, spec: {same: 1}, metadata: {ownerReferences: [{apiVersion: example.com/v1, kind: Thing, name: c}]}}
---
apiVersion: v1
kind: List
items: [{apiVersion: former.example/v1, kind: Thing, metadata: {name: e}}]
---
{b: 1, c: 2}
`
	var out Result
	var got []string
	format := Format{Group: "example.com", Former: []string{"former.example"}, Kinds: []string{"Thing"}}
	for _, o := range format.Objects([]policyfile.File{{Name: "f", Content: []byte(content)}}, &out) {
		got = append(got, o.Name)
	}
	for _, f := range out.Findings {
		got = append(got, f.String())
	}
	want := []string{
		"a", "d", "e",
		"f:1: note: only the objects inside are read: a document without apiVersion and kind, with the fields extra",
		"f:7: note: skipped: Pod of v1",
		"f:13: note: skipped: a document without apiVersion and kind, with the fields b, c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestObjects_CountsWhatOtherDocumentsHave(t *testing.T) {
	for content, want := range map[string]string{
		"kind: Used\napiVersion: v1":     "f:1: error: no file has an object of kind Thing in example.com",
		"kind: Imported\napiVersion: v1": "",
		"kind: Other\napiVersion: v1":    "f:1: note: skipped: Other of v1; f:1: error: no file has an object of kind Thing in example.com",
	} {
		var out Result
		format := Format{Group: "example.com", Kinds: []string{"Thing"}, Other: func(o *Object) Use {
			return map[string]Use{"Used": Used, "Imported": Imported}[o.Kind]
		}}
		format.Objects([]policyfile.File{{Name: "f", Content: []byte(content)}}, &out)
		var got []string
		for _, f := range out.Findings {
			got = append(got, f.String())
		}
		if joined := strings.Join(got, "; "); joined != want {
			t.Errorf("%s: %q, want %q", content, joined, want)
		}
	}
}

func TestObjects_RejectsAnObjectThatIsDefinedTwice(t *testing.T) {
	var out Result
	const thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"
	files := []policyfile.File{{Name: "f", Content: []byte(thing + "---\n" + strings.Replace(thing, "name: a", "name: a, namespace: shop", 1))}, {Name: "g", Content: []byte(thing)}}
	found := Objects(files, &out, "example.com", "Thing")
	if len(found) != 2 || len(out.Findings) != 1 || out.Findings[0].String() != "g:1: error: Thing default/a is already defined at f:1; remove one of them" {
		t.Errorf("%d objects, %v", len(found), out.Findings)
	}
}

func TestSetNames_NumbersPoliciesWithEqualPaths(t *testing.T) {
	at := func(domain string, path ...string) Policy { return Policy{Domain: domain, Path: path} }
	policies := []Policy{
		at("shop", "a"), at("shop", "a"), at("shop", "a"), at("shop", "a", "2"), // a number is taken
		at("bank", "a", "2"), at("bank", "a"), at("bank", "a"), // a number is not free
	}
	setNames(policies)
	var names []string
	for i := range policies {
		names = append(names, policies[i].name)
	}
	if diff := cmp.Diff([]string{"a", "a-2", "a-3", "a-2-2", "a-2", "a", "a-3"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestObjects_RejectsNamesThatNoObjectHas(t *testing.T) {
	var out Result
	Objects([]policyfile.File{{Name: "f", Content: []byte("apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: ${NAME}-a\n  namespace: <namespace>\n")}}, &out, "example.com", "Thing")
	var got []string
	for _, f := range out.Findings {
		got = append(got, f.String())
	}
	want := []string{
		`f:4: error: metadata.name is "${NAME}-a", which is not the name of an object; if it has a placeholder, fill it in first`,
		`f:5: error: metadata.namespace is "<namespace>", which is not the name of an object; if it has a placeholder, fill it in first`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRead_NamesOtherFormats(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"TOML":       {"a.toml", "[a]\nb =\n", "a.toml:2: error: invalid TOML: "},
		"a template": {"a.yaml", "{{- if .a }}\nb: 1\n", "a.yaml:1: error: invalid YAML: did not find expected node content; if the file is a template, render it first, for example with helm template"},
	} {
		var out Result
		if nodes := Read(policyfile.File{Name: c.file, Content: []byte(c.content)}, &out); len(nodes) > 0 || len(out.Findings) != 1 || !strings.HasPrefix(out.Findings[0].String(), c.want) {
			t.Errorf("%s: %v, %v", name, nodes, out.Findings)
		}
	}
}

func TestIsCredential(t *testing.T) {
	for value, want := range map[string]bool{
		"Authorization: Bearer sk_live_abc": true, "bearer x": true, "Basic YTpi": true, "/x?token=sk_live_abc": true, "/x?a=b&api_key=1": true, "secret=x": true,
		"x-api-key:abc": true, "session=abc; a=b": true, "sk_live_SECRETSECRET": true, "sk-proj-abcdefgh": true, "ghp_abcdefgh1234": true, "AKIAIOSFODNN7EXAMPLE": true,
		"eyJhbGciOiJIUzI1NiJ9.e30.x": true, "4eC39HqLyjWDarjtT1zdp7dc": true, "d41d8cd98f00b204e9800998ecf8427e": true,
		"": false, "acme": false, "GET": false, "/v1/search?q=x": false, "/tokens": false, "token=": false, "10.1.2.3": false, "free-plan-2026": false, "basic": false,
		"httproute/shop/cart/rule/0/match/0/www_example_com": false, "internationalization": false, "12345678901234567890": false, "pk": false, "sk-SK": false,
	} {
		if got := IsCredential(value); got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
	}
}
