package decisionlog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/decisionlog"
)

func (l *logging) let(t *testing.T, policy, identifier string) {
	t.Helper()
	now := time.Now()
	_, err := l.bypasses.Add(bypass.Bypass{
		Name: policy, Policy: policy, Identifier: identifier, Reason: "INC-1", CreatedBy: "jane", CreatedAt: now, ExpiresAt: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLog_WritesBypassedPolicies(t *testing.T) {
	var out bytes.Buffer
	l := newLogging(t, decisionlog.Options{SampleOneIn: 1, Handler: slog.NewJSONHandler(&out, nil)})
	secret := hashKey(t).Hash("sk-1")
	l.let(t, "shop/tenant", "acme")
	l.let(t, "shop/key", secret)
	l.written(func() {
		l.check(t, 1, "x-tenant-id", "acme")
		l.check(t, 1, "x-api-key", "sk-1")
	})
	var got []string
	for _, r := range lines(t, &out) {
		got = append(got, fmt.Sprintf("%v %v %v %v %v %v", r["result"], r["policy"], r["identifier"], r["source"], r["limit"], r["bypassed"]))
	}
	want := []string{"allowed shop/trial acme memory 1 [shop/tenant]", "allowed shop/key " + secret + " none 0 [shop/key]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
