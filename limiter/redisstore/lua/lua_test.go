package lua

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

var update = flag.Bool("update", false, "rewrite golden files")

func open(t *testing.T, url string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(url, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// packed is a number as the scripts store it.
func packed(n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n))[1:])
}

func TestScripts_EqualTheirGoldenCopies(t *testing.T) {
	for _, script := range Assembled().All() {
		golden := "testdata/" + script.Name + ".lua"
		if *update {
			if err := os.WriteFile(golden, []byte(script.Source), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), script.Source); diff != "" {
			t.Errorf("the script differs from %s (-golden +script; go test -run Golden -update rewrites the file):\n%s", golden, diff)
		}
	}
}

// miniredis has no struct library. Its scripts must read what those of Redis have written.
func TestPack_IsTheSameWithoutTheStructLibrary(t *testing.T) {
	servers := map[string]*redisclient.Client{
		"redis-server": open(t, fixture.Redis(t).URL()), "miniredis": open(t, "redis://"+miniredis.RunT(t).Addr()),
	}
	source := file("numbers") + `
		local bytes = pack('>I7I7I7I7', unpack(ARGV))
		local a, b, c, d = unpack_numbers('>I7I7I7I7', bytes)
		local again = unpack_numbers('>I7', 'L' .. pack('>I7', d), 2)
		local high, low = a % 4294967296, b % 4294967296
		local entry = pack('>I4I4', high, low)
		local high_again, low_again = unpack_numbers('>I4I4', 'L' .. entry, 2)
		if high_again ~= high or low_again ~= low then error('got ' .. high_again .. ' ' .. low_again) end
		return {bytes .. entry, format_integer(a), format_integer(b), format_integer(c), format_integer(d), format_integer(again)}`
	number := rapid.OneOf(rapid.Int64Range(0, 1<<53-1), rapid.Int64Range(0, 300), rapid.Int64Range(1e9-2, 1e9+2), rapid.Int64Range(5e15, 5e15+1000))
	rapid.Check(t, func(rt *rapid.T) {
		args, want := make([]any, 4), make([]string, 6)
		var numbers [4]int64
		for i := range args {
			n := number.Draw(rt, "number")
			args[i], numbers[i] = n, n
			want[0] += packed(n)
			want[i+1] = strconv.FormatInt(n, 10)
		}
		want[0] += string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(numbers[0])), uint32(numbers[1])))
		want[5] = want[4]
		for name, client := range servers {
			got, err := client.Redis().Eval(rt.Context(), source, nil, args...).StringSlice()
			if err != nil {
				rt.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%v in %s (-want +got):\n%s", args, name, diff)
			}
		}
	})
}

func TestMulDiv_IsExact(t *testing.T) {
	server := fixture.Redis(t)
	raw := open(t, server.URL()).Redis()
	source := file("numbers", "mul_div") + `
		local quotient, remainder = mul_div(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))
		return {string.format('%.0f', quotient), string.format('%.0f', remainder)}`
	window := limiter.MaxWindow.Microseconds()
	rapid.Check(t, func(rt *rapid.T) {
		// As the scripts call it: a count times a part of a window, divided by the window; or a count times the window, divided
		// by a count.
		near := rapid.Custom(func(rt *rapid.T) int64 { // a is multiplied ten bits at a time
			bits := rapid.SampledFrom([]int64{1 << 10, 1 << 20}).Draw(rt, "bits")
			return max(0, rapid.Int64Range(0, limiter.MaxUnits/bits).Draw(rt, "times")*bits+rapid.Int64Range(-1, 0).Draw(rt, "plus"))
		})
		a, b, c := rapid.OneOf(rapid.Int64Range(0, limiter.MaxUnits), near).Draw(rt, "a"), rapid.Int64Range(0, window).Draw(rt, "b"), window
		if rapid.Bool().Draw(rt, "divided by a count") {
			b, c = window, rapid.Int64Range(max(1, a), limiter.MaxUnits).Draw(rt, "c")
		}
		got, err := raw.Eval(rt.Context(), source, nil, a, b, c).StringSlice()
		if err != nil {
			rt.Fatal(err)
		}
		quotient, remainder := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c), new(big.Int))
		if diff := cmp.Diff([]string{quotient.String(), remainder.String()}, got); diff != "" {
			rt.Fatalf("%d * %d / %d (-want +got):\n%s", a, b, c, diff)
		}
	})
}

func TestCounts_DecodeWhatWasEncoded(t *testing.T) {
	raw := open(t, fixture.Redis(t).URL()).Redis()
	source := file("numbers", "counts") + `
		local value = encode_counts(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))
		local index, current, previous = decode_counts(value, tonumber(ARGV[4]), tonumber(ARGV[5]))
		return {string.format('%.0f %.0f %.0f', index, current, previous), #value}`
	lengths := map[int64]bool{}
	rapid.Check(t, func(rt *rapid.T) {
		now := limiter.At(time.Now())
		window := rapid.SampledFrom([]int64{1, 60, 3600, 86400, 30 * 86400}).Draw(rt, "window in seconds") * 1_000_000
		index := int64(now)/window + rapid.Int64Range(-10, 1).Draw(rt, "windows from now")
		count := rapid.OneOf(
			rapid.Int64Range(0, 300), rapid.Int64Range(4090, 4100), rapid.Int64Range(65530, 65540),
			rapid.Int64Range(limiter.MaxUnits-5, limiter.MaxUnits),
		)
		current, previous := count.Draw(rt, "current"), count.Draw(rt, "previous")
		got, err := raw.Eval(rt.Context(), source, nil, index, current, previous, int64(now), window).Slice()
		if err != nil {
			rt.Fatal(err)
		}
		if want := fmt.Sprintf("%d %d %d", index, current, previous); got[0] != want {
			rt.Fatalf("decoded %v, want %s", got[0], want)
		}
		length, _ := got[1].(int64)
		lengths[length] = true
		if length > 21 || max(current, previous) < 256 && length == 21 {
			rt.Fatalf("%d bytes for the counts %d and %d", length, current, previous)
		}
	})
	if !lengths[21] || len(lengths) < 3 {
		t.Errorf("lengths %v: not all encodings were tested", lengths)
	}
}

// Stored counters outlive the process that wrote them, so the encoding does not change.
func TestCounts_AreOneIntegerBelow65536(t *testing.T) {
	raw := open(t, fixture.Redis(t).URL()).Redis()
	source := file("numbers", "counts") + `return encode_counts(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))`
	for _, test := range []struct {
		index, current, previous int64
		want                     string
	}{
		{1, 0, 0, "262144"},          // in radix 256
		{1, 255, 254, "524280"},      // (1·256 + 255)·256 + 254, times 4
		{1, 256, 0, "71303169"},      // in radix 4096, and 1
		{1, 0, 4095, "67125245"},     // (1·4096·4096 + 4095)·4 + 1
		{1, 4096, 0, "18253611010"},  // in radix 65536, and 2
		{1, 0, 65535, "17180131326"}, // (65536·65536 + 65535)·4 + 2
		{524_287, 65_535, 65_535, "9007199254740990"},
		{524_288, 65_535, 65_535, "\x00\x00\x00\x00\x08\x00\x00" + "\x00\x00\x00\x00\x00\xff\xff" + "\x00\x00\x00\x00\x00\xff\xff"}, // above 2^53
		{1 << 35, 0, 0, "\x00\x00\x08\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00"},           // exactly 2^53
		{1, 65_536, 1, "\x00\x00\x00\x00\x00\x00\x01" + "\x00\x00\x00\x00\x01\x00\x00" + "\x00\x00\x00\x00\x00\x00\x01"},
	} {
		got, err := raw.Eval(t.Context(), source, nil, test.index, test.current, test.previous).Text()
		if err != nil || got != test.want {
			t.Errorf("window %d with %d and %d units is stored as %q (%v), want %q", test.index, test.current, test.previous, got, err, test.want)
		}
	}
}
