package jsonscan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// collect is a visitor that keeps the last value of each id, and of each key with a prefix.
type collect struct {
	values map[string]string
	keys   []string // by id
}

func (c collect) Visit(id int, key, raw string) error {
	if c.keys[id] == "pre_" {
		key = "*" + key
	} else {
		key = c.keys[id]
	}
	c.values[key] = raw
	return nil
}

func treeOf(keys ...string) (*Tree, collect) {
	t := &Tree{}
	for id, key := range keys {
		if strings.HasSuffix(key, "_") {
			t.AddPrefix(id, key)
		} else {
			t.Add(id, strings.Split(key, ".")...)
		}
	}
	return t, collect{map[string]string{}, keys}
}

// FuzzScan compares what a tree finds in valid JSON with encoding/json, also if other lines came before it.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : 1 } `, `{"a":{"b":"c"},"x":[1,{"a":2}],"a":null}`, `{"a":{"b":{"c":1}},"pre_x":"\"\\"}`, `{"\u0061":"\u00e4"}`, `{"a":"\\\"","b":[]}`,
		`{"a":-1.5e3}`, `{"x":1,"a":2}`, `{"a\"":1,"a":2}`, `{"x":"","y":"\\"}`,
	} {
		f.Add(seed, `{"a":1,"x":2,"pre_y":3}`)
	}
	f.Fuzz(func(t *testing.T, text, before string) {
		tree, got := treeOf("a", "a.b", "x", "pre_")
		for range 2 {
			_ = tree.Scan(before, got)
		}
		for range 2 { // the second time with the order of the keys
			clear(got.values)
			err := tree.Scan(text, got)
			var want map[string]json.RawMessage
			if json.Unmarshal([]byte(text), &want) != nil || want == nil {
				return // Scan validates only what it needs
			}
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for key, raw := range want {
				if strings.HasPrefix(key, "pre_") {
					key = "*" + key
				} else if key != "a" && key != "x" {
					continue
				}
				if string(raw) != got.values[key] && strings.ToValidUTF8(text, "") == text {
					t.Errorf("%q: %s is %q, want %q", text, key, got.values[key], raw)
				}
				if _, err := Text(string(raw)); err != nil {
					t.Errorf("text of %q: %v", raw, err)
				}
				var list []json.RawMessage
				if json.Unmarshal(raw, &list) != nil {
					continue
				}
				elements, err := Elements(string(raw))
				if err != nil || !slices.EqualFunc(elements, list, func(a string, b json.RawMessage) bool { return a == string(b) }) {
					t.Errorf("elements of %q: %q, %v", raw, elements, err)
				}
			}
		}
	})
}

func TestTree_FindsKeysInAnyOrder(t *testing.T) {
	tree, got := treeOf("a", "b", "c.d", "c.e", "pre_")
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{`{"a":1,"b":2,"c":{"d":3,"e":4}}`, map[string]string{"a": "1", "b": "2", "c.d": "3", "c.e": "4"}},
		{`{"b":2,"c":{"e":4,"d":3},"a":1}`, map[string]string{"a": "1", "b": "2", "c.d": "3", "c.e": "4"}},
		{`{"z":0,"a":1,"y":"\"b\":7","b":2,"c":{"x":[1,{"d":9}],"d":3}}`, map[string]string{"a": "1", "b": "2", "c.d": "3"}},
		{`{"ab":0,"a":1,"bb":0,"pre_b":5,"pre_b2":6}`, map[string]string{"a": "1", "*pre_b": "5", "*pre_b2": "6"}},
		{`{"a":1,"a":2,"c":7,"c":{"d":8}}`, map[string]string{"a": "2", "c.d": "8"}},
		{`{"\u0061":1,"a":2,"\u0061":3}`, map[string]string{"a": "3"}},
	} {
		for range 3 {
			clear(got.values)
			if err := tree.Scan(c.text, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.values); diff != "" {
				t.Errorf("%s: %s", c.text, diff)
			}
		}
	}
}

// A client can choose the keys of some logs, such as those of headers.
func TestTree_KeepsABoundedNumberOfKeys(t *testing.T) {
	tree, got := treeOf("a", "pre_")
	for i := range 10_000 {
		clear(got.values)
		key := fmt.Sprintf("pre_%d", i)
		if err := tree.Scan(fmt.Sprintf(`{%q:1,%q:2,"a":%d}`, key, strings.Repeat("k", i), i), got); err != nil {
			t.Fatal(err)
		}
		if got.values["*"+key] != "1" || got.values["a"] != strconv.Itoa(i) {
			t.Fatalf("%d: %v", i, got.values)
		}
	}
	if n := len(tree.root.members); n > maxMembers {
		t.Errorf("%d keys are kept", n)
	}
	for key := range tree.root.members {
		if len(key) > maxKey {
			t.Errorf("a key of %d bytes is kept", len(key))
		}
	}
}

func TestScan_NamesWhatIsWrong(t *testing.T) {
	tree, got := treeOf("a", "c.d")
	for text, want := range map[string]string{
		"":               "expected { at column 1",
		"[1]":            "expected { at column 1",
		`{"a":1} x`:      "expected the end of the line at column 9",
		`{"a" 1}`:        "expected : at column 6",
		`{"a":1 "b":2}`:  "expected , or } at column 8",
		`{"a":1,}`:       "expected a key in quotes at column 8",
		`{"a":"x}`:       "expected a closing quote at column 6",
		`{"a":[1,"x}`:    "expected a closing quote at column 9",
		`{"a":{"b":[}`:   "expected } or ] at column 13",
		`{"a":nil}`:      "expected a value at column 6",
		`{"c":{"d":1`:    "expected , or } at column 12",
		`{"\x":1,"a":1}`: "is no string",
	} {
		if err := tree.Scan(text, got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Elements(`[1 2]`); err == nil || !strings.Contains(err.Error(), "expected , or ] at column 4") {
		t.Error(err)
	}
}
