package rules

import (
	"bytes"
	"testing"
)

func TestSequence_IsInTheHeader(t *testing.T) {
	data, revision := Encode(Set{})
	for _, want := range []int64{1, 7, MaxSequence} {
		ordered := WithSequence(WithSequence(data, 3), want) // replaces it
		if got, err := Sequence(ordered); got != want || err != nil {
			t.Errorf("Sequence = %d, %v; want %d", got, err, want)
		}
		if _, got, err := DecodeShards(ordered); got != revision || err != nil {
			t.Errorf("revision %s, %v; want %s", got, err, revision)
		}
		for i := 10; i < 10+2+4+12; i++ {
			damaged := bytes.Clone(ordered)
			damaged[i] ^= 1
			if _, err := Sequence(damaged); err == nil {
				t.Errorf("byte %d is damaged, and Sequence returns no error", i)
			}
			if _, err := DecodeAs(damaged, revision); err == nil {
				t.Errorf("byte %d is damaged, and DecodeAs returns no error", i)
			}
		}
	}
	if got, err := Sequence(data); got != 0 || err != nil {
		t.Errorf("without a sequence: %d, %v", got, err)
	}
	if got := WithSequence([]byte("x"), 1); string(got) != "x" {
		t.Errorf("other data: %q", got)
	}
	for _, invalid := range []int64{0, -1, MaxSequence + 1} {
		if _, err := Sequence(WithSequence(data, invalid)); err == nil {
			t.Errorf("sequence %d is not rejected", invalid)
		}
	}
}
