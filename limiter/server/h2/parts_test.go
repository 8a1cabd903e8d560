package h2

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

func TestAppendLiteral_IsDecodedByHPACK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := hpack.HeaderField{Name: rapid.StringMatching(`[a-z-]{1,200}`).Draw(t, "name"), Value: rapid.String().Draw(t, "value")}
		if rapid.Bool().Draw(t, "long") {
			want.Value = strings.Repeat("x", rapid.IntRange(0, 70_000).Draw(t, "length"))
		}
		got, err := hpack.NewDecoder(0, nil).DecodeFull(appendLiteral(nil, want.Name, want.Value))
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q is decoded as %v, %v", want, got, err)
		}
	})
}

func TestPercentEncode(t *testing.T) {
	for message, want := range map[string]string{
		"":                  "",
		"plain ~ text":      "plain ~ text",
		"100 %":             "100 %25",
		"a\nb\x7fc":         "a%0Ab%7Fc",
		"ü":                 "%C3%BC",
		"not UTF-8: \xff\n": "not UTF-8: %EF%BF%BD%0A",
	} {
		if got := percentEncode(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

func TestParseTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4m": 4 * time.Millisecond, "5u": 5 * time.Microsecond, "6n": 6,
		"0n": 0, "99999999n": 99999999, "99999999H": math.MaxInt64,
	} {
		if got, valid := parseTimeout(value); got != want || !valid {
			t.Errorf("%q: %v, %v", value, got, valid)
		}
	}
	for _, value := range []string{"", "n", "1", "1x", "-1n", "+1n", "1.5S", "123456789n", " 1n"} {
		if got, valid := parseTimeout(value); valid {
			t.Errorf("%q is %v", value, got)
		}
	}
}

func TestHeaderBlock_Malformed(t *testing.T) {
	call := []string{":method", "POST", ":path", "/a/B", ":scheme", "http"}
	for name, test := range map[string]struct {
		fields    []string
		malformed bool
	}{
		"a call":                      {append(call, "te", "trailers", "x", "y"), false},
		"a pseudo-header field twice": {append(call, ":path", "/"), true},
		"an unknown one":              {append(call, ":protocol", "x"), true},
		"a late one":                  {append(call, "x", "y", ":authority", "x"), true},
		"upper case":                  {append(call, "X", "y"), true},
		"an empty name":               {append(call, "", "y"), true},
		"a line feed":                 {append(call, "x", "a\nb"), true},
		"connection":                  {append(call, "connection", "close"), true},
		"transfer-encoding":           {append(call, "transfer-encoding", "chunked"), true},
		"te":                          {append(call, "te", "gzip"), true},
		"content-length":              {append(call, "content-length", "0"), false},
		"a negative content-length":   {append(call, "content-length", "-1"), true},
		"no content-length":           {append(call, "content-length", ""), true},
		"two content-lengths":         {append(call, "content-length", "1", "content-length", "2"), true},
		"the same twice":              {append(call, "content-length", "1", "content-length", "1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var encoded bytes.Buffer
			encoder := hpack.NewEncoder(&encoded)
			for i := 0; i < len(test.fields); i += 2 {
				if err := encoder.WriteField(hpack.HeaderField{Name: test.fields[i], Value: test.fields[i+1]}); err != nil {
					t.Fatal(err)
				}
			}
			b := newHeaderBlock(1000, nil)
			b.begin()
			if err := b.read(encoded.Bytes(), true); err != nil || b.malformed != test.malformed {
				t.Errorf("malformed: %v, %v", b.malformed, err)
			}
		})
	}
}

func TestClosedStreams_RemembersTheLast(t *testing.T) {
	var c closedStreams
	for id := uint32(1); id < 1000; id += 2 {
		c.add(id, id%4 == 1)
	}
	for id, want := range map[uint32][2]bool{999: {true, false}, 997: {true, true}, 745: {true, true}, 743: {false, false}, 2: {false, false}} {
		if found, reset := c.find(id); found != want[0] || reset != want[1] {
			t.Errorf("%d: found %v, reset %v", id, found, reset)
		}
	}
}

func TestInput_GrowsWithWhatAClientSends(t *testing.T) {
	s := New(settings())
	sent := bytes.Repeat([]byte{'x'}, 100_000)
	ours := &readOnly{Reader: bytes.NewReader(sent)}
	in := &input{conn: newConn(s, ours)}
	var got bytes.Buffer
	if _, err := got.ReadFrom(in); err != nil || !bytes.Equal(got.Bytes(), sent) || len(in.buf) != maxRead {
		t.Errorf("%d bytes, a buffer of %d, %v", got.Len(), len(in.buf), err)
	}
}

func TestGrow_KeepsABufferThatIsNotFull(t *testing.T) {
	i := &input{buf: make([]byte, minRead)}
	for _, step := range []struct {
		n, size int
		busy    bool
	}{{1, minRead, false}, {minRead - 1, minRead, false}, {minRead, 4 * minRead, true}, {4 * minRead, maxRead, true}, {maxRead, maxRead, false}} {
		i.busy = false
		if i.grow(step.n); len(i.buf) != step.size || i.busy != step.busy {
			t.Errorf("after %d bytes: a buffer of %d bytes, busy %v; want %d and %v", step.n, len(i.buf), i.busy, step.size, step.busy)
		}
	}
}

// The fields of a block that is not decoded again are those of a decoder that decodes each block.
func TestHeaderBlock_AKnownBlockHasTheFieldsThatADecoderReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var encoded bytes.Buffer
		encoder, decoder, b := hpack.NewEncoder(&encoded), hpack.NewDecoder(tableSize, nil), newHeaderBlock(1<<20, nil)
		names := rapid.SampledFrom([]string{"a", "b", "accept-encoding", "accept"})
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			encoded.Reset()
			if rapid.IntRange(0, 9).Draw(t, "resize") == 0 {
				encoder.SetMaxDynamicTableSize(rapid.Uint32Range(0, 128).Draw(t, "size"))
			}
			for range rapid.IntRange(1, 3).Draw(t, "fields") {
				field := hpack.HeaderField{Name: names.Draw(t, "name"), Value: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")}
				if err := encoder.WriteField(field); err != nil {
					t.Fatal(err)
				}
			}
			want, err := decoder.DecodeFull(encoded.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if !b.isKnown(encoded.Bytes()) {
				b.begin()
				if err := b.read(encoded.Bytes(), true); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(b.fields, want) {
				t.Fatalf("% x: %v, want %v", encoded.Bytes(), b.fields, want)
			}
		}
	})
}

func TestHeaderBlock_KnowsABlockOfReferences(t *testing.T) {
	b := newHeaderBlock(1<<20, nil)
	read := func(block string) {
		b.begin()
		if err := b.read([]byte(block), true); err != nil {
			t.Fatal(err)
		}
	}
	if read("\x82\x86"); !b.isKnown([]byte("\x82\x86")) || b.isKnown([]byte("\x82\x87")) || b.isKnown([]byte("\x82")) {
		t.Error("the block of references")
	}
	if read("\x40\x01a\x01b"); b.isKnown([]byte("\x40\x01a\x01b")) || b.isKnown([]byte("\x82\x86")) {
		t.Error("a literal that changes the table")
	}
	if read(""); b.isKnown(nil) {
		t.Error("an empty block")
	}
}
