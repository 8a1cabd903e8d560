package limiter

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
)

const (
	minHashKey = 32   // bytes
	maxHashKey = 4096 // bytes
)

// HashKey hashes secrets, such as API keys, for counter keys, answers, logs and rules. Without the key, a hash cannot be compared with
// guesses. Processes that share counters must have the same key. It is safe for concurrent use. The zero HashKey hashes with an empty key, which
// protects nothing: its hashes must not leave the process.
type HashKey struct {
	text   []byte
	hashes sync.Pool // of *keyedHash
}

// keyedHash is a reusable HMAC-SHA-256 with its buffers.
type keyedHash struct {
	mac        hash.Hash
	input, sum []byte
}

// NewHashKey returns the key with this text: 32 to 4096 bytes, without the white space around them.
func NewHashKey(text []byte) (*HashKey, error) {
	text = bytes.TrimSpace(text)
	if len(text) < minHashKey || len(text) > maxHashKey {
		return nil, fmt.Errorf("a hash key must have from %d to %d bytes, got %d: create one with `openssl rand -hex 32`", minHashKey, maxHashKey, len(text))
	}
	return &HashKey{text: bytes.Clone(text)}, nil
}

// RandomHashKey returns a new key.
func RandomHashKey() *HashKey {
	var b [minHashKey]byte
	_, _ = rand.Read(b[:]) // never fails
	return &HashKey{text: hexText(b[:])}
}

// Text returns the text of the key, as NewHashKey reads it. It is secret.
func (k *HashKey) Text() []byte { return bytes.Clone(k.text) }

// ID identifies the key, and does not reveal it.
func (k *HashKey) ID() string { return string(hexText(k.sum("weir: ID of the hash key")[:8])) }

// String returns the ID, so that the key does not appear in logs.
func (k *HashKey) String() string { return "hash key " + k.ID() }

// Derive returns the key for one purpose. The derived key does not reveal k or the keys for other purposes.
func (k *HashKey) Derive(purpose string) *HashKey {
	return &HashKey{text: hexText(k.sum("weir: hash key for " + purpose))}
}

// HashLength is the length of what [HashKey.Hash] returns, in bytes.
const HashLength = 32

// Hash returns the text that replaces a secret: 128 bits of its HMAC-SHA-256 in hex.
func (k *HashKey) Hash(secret string) string {
	h := k.hasher()
	h.input = append(h.input[:0], secret...)
	var text [32]byte
	hex.Encode(text[:], h.sumIn()[:16])
	k.hashes.Put(h)
	return string(text[:])
}

// hash64 returns 64 bits of the HMAC-SHA-256 of two texts, of which the first has no zero byte.
func (k *HashKey) hash64(a, b string) (sum [8]byte) {
	h := k.hasher()
	h.input = append(append(append(h.input[:0], a...), 0), b...)
	copy(sum[:], h.sumIn())
	k.hashes.Put(h)
	return sum
}

func (k *HashKey) hasher() *keyedHash {
	if h, ok := k.hashes.Get().(*keyedHash); ok {
		return h
	}
	return &keyedHash{mac: hmac.New(sha256.New, k.text)}
}

// sumIn returns the hash of h.in. It is valid until the next one.
func (h *keyedHash) sumIn() []byte {
	h.mac.Reset()
	h.mac.Write(h.input)
	h.sum = h.mac.Sum(h.sum[:0])
	return h.sum
}

func (k *HashKey) sum(message string) []byte {
	mac := hmac.New(sha256.New, k.text)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

func hexText(b []byte) []byte { return hex.AppendEncode(nil, b) }
