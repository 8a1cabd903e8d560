package redisstore

import "testing"

// The slot of a key without a tag, or with an empty one, depends on the whole key.
func TestHashTag_IsWhatDecidesTheSlot(t *testing.T) {
	for key, want := range map[string]string{
		"weir:{acme}:daily": "acme", "{acme}": "acme", "weir:{a{b}}:c": "a{b", "weir:{a}:{b}": "a", "weir:}{a}": "a",
		"weir:daily": "weir:daily", "weir:{acme": "weir:{acme", "weir:acme}": "weir:acme}", "weir:{}:{acme}": "weir:{}:{acme}", "": "",
	} {
		if got := hashTag(key); got != want {
			t.Errorf("the tag of %q is %q, want %q", key, got, want)
		}
	}
}
