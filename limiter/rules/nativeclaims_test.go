package rules_test

import (
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter/rules"
)

type (
	userID  string
	number  uint16
	isAdmin bool
	uuid    [2]byte
	secret  string
)

func (u uuid) String() string { return "uuid-" + string(u[:]) }

// String hides the value, and would make all callers one.
func (secret) String() string { return "***" }

func TestNativeClaims_ReadsTheTypesOfPrograms(t *testing.T) {
	pointer := new(userID("ann"))
	for name, test := range map[string]struct{ claim, want any }{
		"named string":            {userID("ann"), "ann"},
		"named number":            {number(7), uint64(7)},
		"small number":            {int8(-7), int64(-7)},
		"named bool":              {isAdmin(true), true},
		"UUID":                    {uuid{'a', 'b'}, "uuid-ab"},
		"pointer to a UUID":       {&uuid{'a', 'b'}, "uuid-ab"},
		"address":                 {netip.MustParseAddr("192.0.2.1"), "192.0.2.1"},
		"pointer":                 {pointer, "ann"},
		"nil pointer":             {(*userID)(nil), nil},
		"nil UUID":                {(*uuid)(nil), nil},
		"string that hides":       {secret("ann"), "ann"},
		"map of strings":          {map[string]string{"tenant": "acme"}, map[string]any{"tenant": "acme"}},
		"map of named strings":    {map[userID]userID{"tenant": "acme"}, map[string]any{"tenant": "acme"}},
		"nested map":              {map[string]any{"a": map[string]userID{"b": "c"}}, map[string]any{"a": map[string]any{"b": "c"}}},
		"list":                    {[]userID{"a", "b"}, []any{"a", "b"}},
		"empty string":            {"", ""},
		"not a number":            {math.NaN(), math.NaN()},
		"empty named string":      {userID(""), ""},
		"string stays as it is":   {"ann", "ann"},
		"integer stays as it is":  {5, 5},
		"JSON object as it is":    {map[string]any{"a": []any{"b"}}, map[string]any{"a": []any{"b"}}},
		"an absent claim of JSON": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claims := map[string]any{"claim": test.claim, "other": "o"}
			got, err := rules.NativeClaims(claims)
			if f, ok := test.claim.(float64); ok && math.IsNaN(f) {
				if err != nil || len(got) != 2 {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if diff := cmp.Diff(map[string]any{"claim": test.want, "other": "o"}, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			if !reflect.DeepEqual(claims["claim"], test.claim) {
				t.Errorf("the map of the program was changed to %v", claims)
			}
		})
	}
}

func TestNativeClaims_NamesWhatNoPolicyCanRead(t *testing.T) {
	var cycle []any
	cycle = append(cycle, &cycle)
	got, err := rules.NativeClaims(map[string]any{
		"user": struct{ Name string }{"ann"}, "call": func() {}, "ids": map[int]string{1: "a"}, "cycle": cycle, "sub": userID("ann"),
		"key": []byte("ann"), "raw": [16]byte{1}, "list": []any{[]byte("ann")},
	})
	if err == nil || !strings.Contains(err.Error(), "call (func()), cycle ([]interface {}), ids (map[int]string), key ([]uint8), "+
		"list ([]interface {}), raw ([16]uint8), user (struct { Name string })") {
		t.Errorf("error %v", err)
	}
	if got["sub"] != "ann" || len(got) != 8 {
		t.Errorf("claims %v, want that which can be read", got)
	}
}

func TestNativeClaims_CostsNothingWithoutAConversion(t *testing.T) {
	claims := map[string]any{"sub": "ann", "iat": 1.5e9, "n": 7, "ok": true}
	if n := testing.AllocsPerRun(100, func() { _, _ = rules.NativeClaims(claims) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
	got, err := rules.NativeClaims(nil)
	if got != nil || err != nil {
		t.Errorf("%v, %v without claims", got, err)
	}
}
