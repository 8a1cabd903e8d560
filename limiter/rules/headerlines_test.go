package rules_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

// A request has the same headers whether they were joined before, or are joined when a rule reads them.
func TestRequest_HeaderLinesAreReadAsHeaders(t *testing.T) {
	long := strings.Repeat("x", 100)
	h := http.Header{}
	for _, line := range [][2]string{
		{"x-tenant-id", "acme"}, {"x-repeated", "a"}, {"X-Repeated", "b"}, {"cookie", "a=1"}, {"cookie", "b=2"}, {"etag", ""}, {"x_under-1st", "y"}, {long, "z"},
	} {
		h.Add(line[0], line[1])
	}
	joined, lines := rules.Request{}, rules.Request{HeaderLines: h}
	joined.Headers, joined.RepeatedHeaders = rules.NormalHeaders(h)
	for _, name := range []string{"x-tenant-id", "x-repeated", "cookie", "etag", "x_under-1st", long, "absent", ""} {
		want, wantFound := joined.Header(name)
		got, found := lines.Header(name)
		if got != want || found != wantFound || joined.IsRepeated(name) != lines.IsRepeated(name) {
			t.Errorf("%s: %q, %t, repeated %t, want %q, %t, repeated %t", name, got, found, lines.IsRepeated(name), want, wantFound, joined.IsRepeated(name))
		}
	}
	if value, err := lines.Cookie("b"); value != "2" || err != nil {
		t.Errorf("cookie %q, %v", value, err)
	}
	lines.ReadHeaders()
	if len(lines.Headers) != len(joined.Headers) || lines.HeaderLines != nil || lines.Headers["x-repeated"] != "a,b" {
		t.Errorf("ReadHeaders sets %v, want %v", lines.Headers, joined.Headers)
	}
}
