package ask

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/bypass"
)

// Another process, or a compromised replica, can have written the names.
func TestPrintBypasses_EscapesNamesAndPolicies(t *testing.T) {
	var out bytes.Buffer
	b := bypass.Bypass{
		Name: "bypass-a\x1b[2J", Policy: "shop/a\nbypass-b  forged", Identifier: "acme", Reason: "r", CreatedBy: "jane", ExpiresAt: time.Now().Add(time.Hour),
	}
	if err := printBypasses(cli.Streams{Out: &out, Err: &out}, "table", []ListedBypass{{b, 1}}, 1, "bypasses"); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(out.String(), 0x1b) || strings.Contains(out.String(), "\nbypass-b") {
		t.Errorf("%q", out.String())
	}
}
