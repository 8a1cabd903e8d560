package limiter_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weir-dev/weir/limiter"
)

const hashKeyText = "3f0b6d6c1e1f4b1c9a7d2e5f8091a2b3"

func mustHashKey(t testing.TB, text string) *limiter.HashKey {
	t.Helper()
	key, err := limiter.NewHashKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestHashKey_HashIsTheDocumentedHMAC(t *testing.T) {
	// printf %s sk-live-0123456789 | openssl dgst -sha256 -hmac 3f0b6d6c1e1f4b1c9a7d2e5f8091a2b3 | cut -d' ' -f2 | cut -c1-32
	const want = "f9def7ae545630d70dda75473e2f6b03"
	for _, text := range []string{hashKeyText, hashKeyText + "\n", " " + hashKeyText + "\r\n"} {
		if got := mustHashKey(t, text).Hash("sk-live-0123456789"); got != want {
			t.Errorf("hash %q, want %q", got, want)
		}
	}
}

func TestHashKey_HashIsTheSameForConcurrentCalls(t *testing.T) {
	key := mustHashKey(t, hashKeyText)
	short, long := key.Hash("a"), key.Hash(strings.Repeat("b", 60_000))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if key.Hash("a") != short || key.Hash(strings.Repeat("b", 60_000)) != long {
					t.Error("another hash of the same text")
				}
			}
		})
	}
	group.Wait()
}

// One allocation is the result. With the race detector, a sync.Pool drops objects at random, which makes about four on average.
// A Hash that reuses nothing makes at least ten.
func TestHashKey_HashReusesItsState(t *testing.T) {
	key := mustHashKey(t, hashKeyText)
	if got := testing.AllocsPerRun(1000, func() { key.Hash("sk-live-0123456789") }); got > 6 {
		t.Errorf("%v allocations, want at most 6", got)
	}
}

func TestNewHashKey_RejectsKeysThatAreTooShortOrTooLong(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("x", 31), strings.Repeat(" ", 40), strings.Repeat("x", 4097)} {
		if _, err := limiter.NewHashKey([]byte(text)); err == nil || !strings.Contains(err.Error(), "must have from 32 to 4096 bytes") ||
			!strings.Contains(err.Error(), "openssl rand -hex 32") {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	for _, n := range []int{32, 4096} {
		if _, err := limiter.NewHashKey([]byte(strings.Repeat("x", n))); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestHashKey_NeverPrintsItsText(t *testing.T) {
	key := mustHashKey(t, hashKeyText)
	for _, format := range []string{"%v", "%+v", "%s", "%q"} {
		if got := fmt.Sprintf(format, key); strings.Contains(got, hashKeyText[:8]) || !strings.Contains(got, key.ID()) {
			t.Errorf("%s: %s", format, got)
		}
	}
	if again := mustHashKey(t, string(key.Text())); again.ID() != key.ID() || len(key.ID()) != 16 {
		t.Errorf("ID %q, then %q", key.ID(), again.ID())
	}
}

func TestDerive_GivesEachPurposeAKeyOfItsOwn(t *testing.T) {
	master := mustHashKey(t, hashKeyText)
	seen := map[string]bool{}
	for _, key := range []*limiter.HashKey{
		master, master.Derive("a"), master.Derive("b"), master.Derive("a").Derive("a"), limiter.RandomHashKey(), limiter.RandomHashKey(),
	} {
		if seen[key.ID()] || seen[key.Hash("x")] {
			t.Errorf("another key has the ID %s or the same hashes", key.ID())
		}
		seen[key.ID()], seen[key.Hash("x")] = true, true
		if again := mustHashKey(t, string(key.Text())); again.Hash("x") != key.Hash("x") {
			t.Error("the text of the key is another key")
		}
	}
	if again := mustHashKey(t, hashKeyText); again.Derive("a").ID() != master.Derive("a").ID() {
		t.Error("a derived key differs each time")
	}
}

func BenchmarkHashKey_Hash(b *testing.B) {
	key := mustHashKey(b, hashKeyText)
	b.ReportAllocs()
	for b.Loop() {
		key.Hash("sk-live-0123456789")
	}
}

// BenchmarkHashKey_BareHash is what Hash replaced.
func BenchmarkHashKey_BareHash(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sum := sha256.Sum256([]byte("sk-live-0123456789"))
		_ = hex.EncodeToString(sum[:16])
	}
}
