package socket

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	for _, test := range []struct {
		name          string
		got           time.Duration
		page, pattern string
	}{

		{"StopTimeout", StopTimeout, "reference/http.md", `requests in progress, for at most (\d+ s), and exits`},
		{"ReadTimeout", ReadTimeout, "reference/http.md", `its body longer than (\d+ s),`},
		{"readHeaderTimeout", readHeaderTimeout, "reference/http.md", `the headers of a request take longer than (\d+ s)`},
		{"idleTimeout", idleTimeout, "reference/http.md", `if it has been idle for (\d+ minutes)`},
	} {
		if want := documented.Duration(t, test.page, test.pattern); test.got != want {
			t.Errorf("%s is %v, docs/%s promises %v", test.name, test.got, test.page, want)
		}
	}
}
