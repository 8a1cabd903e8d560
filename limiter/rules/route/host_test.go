package route_test

import "testing"

// Envoy with ignore_port_in_host_matching ignores any text after the last colon, and with strip_any_host_port only a number of up to 32 bits. A request
// counts for both hosts if they differ: otherwise, a client could choose the host that it counts for.
func TestRoutesOf_OnlyNumbersArePorts(t *testing.T) {
	x := indexOfTable(t, tableOf(t, map[string]map[string][]string{"": {
		"": {"any: ^/"}, "shop.example": {"shop: ^/"}, "shop.example:abc": {"text: ^/"}, "[::1]": {"six: ^/"}, "*.example": {"wild: ^/"},
	}}))
	for host, want := range map[string]string{
		"shop.example": "shop", "Shop.Example:80": "shop", "shop.example:65536": "shop", "shop.example:000000080": "shop",
		"shop.example:": "shop any", "shop.example:a": "shop any", "shop.example:8o": "shop any", "shop.example:+80": "shop any", "shop.example:-1": "shop any",
		"shop.example:4294967296": "shop any", "shop.example:80:x": "any", "shop.example:x:80": "any", "shop.example:]x": "shop any", "shop.example:x]": "any",
		"shop.example:ABC": "shop text", "[::1]": "six", "[::1]:80": "six", "[::1]:x": "six any", ":80": "any", ":": "any",
		"x.shop.example:80": "wild", "x.shop.example:x": "wild any", "shop.example.": "any",
	} {
		if got := routesFor(x, "GET "+host+"/"); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
