package explain

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/topk"
)

// What a command prints can be an argument of the next one.
func TestIdentifier_MarksTheHashOfAnAPIKey(t *testing.T) {
	counters := []admin.Counter{{Identifier: "5f3a", Hashed: true}, {Identifier: "5f3a"}}
	top := admin.Top{Denied: topk.List{Identifiers: []topk.Entry{{Identifier: "5f3a", Hashed: true}, {Identifier: "acme"}}}}
	explanation := example()
	explanation.Policies[1].Charge.Identifier, explanation.Policies[1].Charge.Hashed = "5f3a", true
	for name, output := range map[string]func(*bytes.Buffer) error{
		"hash:5f3a 5f3a":     func(b *bytes.Buffer) error { return PrintCounters(b, Name, counters) },
		"hash:5f3a acme":     func(b *bytes.Buffer) error { return PrintDenied(b, &top) },
		"hash:5f3a - -":      func(b *bytes.Buffer) error { return PrintCounters(b, Table, counters[:1]) },
		"hash:5f3a 0 0 acme": func(b *bytes.Buffer) error { return PrintTop(b, &top) },
		"Denies hash:5f3a":   func(b *bytes.Buffer) error { return Print(b, Table, explanation) },
	} {
		var b bytes.Buffer
		if err := output(&b); err != nil || !strings.Contains(strings.Join(strings.Fields(b.String()), " "), name) {
			t.Errorf("no %q in (%v)\n%s", name, err, &b)
		}
	}
}
