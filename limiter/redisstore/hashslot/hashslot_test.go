package hashslot

import (
	"strings"
	"testing"
)

// The slot of a key without a tag, or with an empty one, depends on the whole key.
func TestTag_IsWhatDecidesTheSlot(t *testing.T) {
	for key, want := range map[string]string{
		"weir:{acme}:daily": "acme", "{acme}": "acme", "weir:{a{b}}:c": "a{b", "weir:{a}:{b}": "a", "weir:}{a}": "a",
		"weir:daily": "weir:daily", "weir:{acme": "weir:{acme", "weir:acme}": "weir:acme}", "weir:{}:{acme}": "weir:{}:{acme}", "": "",
	} {
		if got := Tag(key); got != want {
			t.Errorf("the tag of %q is %q, want %q", key, got, want)
		}
	}
}

func TestNeighbour_IsInTheSlotWithoutTheIdentifier(t *testing.T) {
	for _, tag := range []string{"acme", "{", "user-4711", "ünïcode", strings.Repeat("x", 300)} {
		key := "weir:throttle:tenant:{" + tag + "}:shop/own"
		other := Neighbour(key, true)
		if Of(Tag(other)) != Of(Tag(key)) || strings.Contains(other, tag) && tag != "{" {
			t.Errorf("%q: %q", key, other)
		}
		if got, want := Neighbour(key, false), "weir:throttle:tenant:{probe}"; tag != "{" && got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if got := Of("123456789"); got != 0x31c3 { // of the specification
		t.Errorf("slot %d, want %d", got, 0x31c3)
	}
}
