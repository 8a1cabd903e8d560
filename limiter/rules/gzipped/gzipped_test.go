package gzipped

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// The texts share compressors and decompressors, also after errors.
func TestDecompress_ReturnsWhatWasCompressed(t *testing.T) {
	var users sync.WaitGroup
	for user := range 4 {
		users.Go(func() {
			for i := range 100 {
				plain, comment := []byte(strings.Repeat(fmt.Sprint(user, i), 50*i)), fmt.Sprint("comment ", user)
				data := append(Compress(plain, comment), "rest"...)
				text, err := Decompress(data, len(plain))
				if err != nil || !bytes.Equal(text.Plain, plain) || text.Header.Comment != comment || string(text.Rest) != "rest" {
					t.Errorf("%d bytes: got %d, comment %q, rest %q, %v", len(plain), len(text.Plain), text.Header.Comment, text.Rest, err)
				}
				if header, err := Header(data); err != nil || header.Comment != comment {
					t.Errorf("header %+v, %v", header, err)
				}
				data[len(data)/2] ^= 1
				_, _ = Decompress(data, len(plain))
				if _, err := Header([]byte("text")); err == nil {
					t.Error("a text without a header has one")
				}
			}
		})
	}
	users.Wait()
}

func TestDecompress_IsBounded(t *testing.T) {
	data := Compress(make([]byte, 1<<20), "")
	for limit, valid := range map[int]bool{0: false, 1: false, usualSize: false, 1<<20 - 1: false, 1 << 20: true, 1 << 30: true} {
		text, err := Decompress(data, limit)
		if (err == nil) != valid || !valid && !strings.Contains(err.Error(), fmt.Sprintf("exceeds %d bytes", limit)) {
			t.Errorf("at most %d bytes: got %d, %v", limit, len(text.Plain), err)
		}
	}
	if _, err := Decompress(data[:len(data)-1], 1<<20); err == nil {
		t.Error("a truncated text is returned")
	}
}

// A limit reserves no memory that the text does not need.
func TestDecompress_ReservesAsMuchAsTheTextNeeds(t *testing.T) {
	data := Compress([]byte("text"), "")
	for limit, most := range map[int]int{4: 4 << 10, 1 << 30: 64 << 10} {
		text, err := Decompress(data, limit)
		if err != nil || cap(text.Plain) > most {
			t.Errorf("at most %d bytes: %d are reserved (%v), want at most %d", limit, cap(text.Plain), err, most)
		}
	}
}
