package rules

import (
	"strings"
	"testing"
)

func TestRouteTarget_NamesARouteOrARuleOfIt(t *testing.T) {
	for rule, want := range map[string]string{"": "HTTPRoute/checkout", "pay": "HTTPRoute/checkout/pay"} {
		if got := RouteTarget("HTTPRoute", "checkout", rule); got != want || RouteOf(got) != "HTTPRoute/checkout" {
			t.Errorf("%s of %s, want %s", got, RouteOf(got), want)
		}
	}
}

func TestTruncate_KeepsTextsOf64Bytes(t *testing.T) {
	fits := strings.Repeat("x", 64)
	if got := Shorten(fits); got != fits {
		t.Errorf("64 bytes became %q", got)
	}
	if got, want := Shorten(fits+"x"), fits+"…"; got != want {
		t.Errorf("65 bytes became %q, want %q", got, want)
	}
}
