package redisstore

import (
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/test/fixture"
)

// miniredis has no struct library. Its scripts must read what those of Redis have written.
func TestPack_IsTheSameWithoutTheStructLibrary(t *testing.T) {
	servers := map[string]*redisclient.Client{
		"redis-server": openURL(t, fixture.Redis(t).URL()), "miniredis": openURL(t, "redis://"+miniredis.RunT(t).Addr()),
	}
	source := numbersLua + `
		local bytes = pack(FOUR_NUMBERS, unpack(ARGV))
		local a, b, c, d = unpack_numbers(FOUR_NUMBERS, bytes)
		local again = unpack_numbers(ONE_NUMBER, 'L' .. pack(ONE_NUMBER, d), 2)
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

func TestDecodeReply_FailsIfNumbersAreMissing(t *testing.T) {
	store := NewStore(openURL(t, "redis://127.0.0.1:1"), patience)
	charges := []limiter.Charge{{Key: "a"}, {Key: "b"}}
	whole := []int64{1_000_000, 4*7 + replyWaits, 5, -6, 4*8 + replyWaits + replyIsAhead, 9, never, 10}
	for n := range whole {
		calls := []*call{{charges: charges}}
		store.decodeReply(calls, numbersReply(t, whole[:n]))
		if got := calls[0].reply; got.err == nil || got.decisions != nil {
			t.Errorf("%d of %d numbers: got %+v, want an error", n, len(whole), got)
		}
	}
	calls := []*call{{charges: charges}}
	store.decodeReply(calls, numbersReply(t, whole))
	want := result{decisions: []limiter.Decision{
		{At: 1_000_000, Remaining: 7, ResetAfter: 5 * time.Microsecond, RetryAfter: 6 * time.Microsecond},
		{At: 1_000_010, Ahead: 10 * time.Microsecond, Remaining: 8, ResetAfter: 9 * time.Microsecond, RetryAfter: limiter.Never},
	}}
	if diff := cmp.Diff(want, calls[0].reply, cmp.AllowUnexported(result{}), cmpopts.EquateErrors()); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// numbersReply returns a reply with these numbers.
func numbersReply(t *testing.T, numbers []int64) *redis.IntSliceCmd {
	t.Helper()
	cmd := redis.NewIntSliceCmd(t.Context())
	cmd.SetVal(numbers)
	return cmd
}
