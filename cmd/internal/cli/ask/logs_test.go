package ask

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter/decisionlog"
)

func TestPrintDenial_StatesThatAShadowPolicyDeniesNothing(t *testing.T) {
	for policy, want := range map[string]string{"shop/trial": "would be denied (Shadow)", "shop/tenant": "denied, retry never"} {
		var out bytes.Buffer
		r := decisionlog.Record{Policy: policy, Identifier: "acme", Denied: []string{"shop/tenant"}, ShadowDenied: []string{"shop/trial"}}
		if err := printDenial(&out, "table", &r, ""); err != nil || !strings.Contains(out.String(), policy+"  acme  "+want+"  ") {
			t.Errorf("%s: %s (%v), want %s", policy, &out, err, want)
		}
	}
}

func TestDenialLine_NamesTheReplica(t *testing.T) {
	var out, errs bytes.Buffer
	s := cli.Streams{Out: &out, Err: &errs}
	for _, line := range []string{
		`{"pod":"x","following":true}`, `{}`, `{"pod":"y","error":"it has ended the stream"}`,
		`{"pod":"x","dropped":2,"denial":{"time":"2026-01-02T03:04:05Z","policy":"shop/daily","identifier":"acme","denied":["shop/daily"],"endpoint":"check","method":"GET","path":"/a"}}`,
	} {
		var l denialLine
		if err := errors.Join(json.Unmarshal([]byte(line), &l), l.show("table", s), l.show("json", s)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	var record map[string]any
	text, object, _ := strings.Cut(out.String(), "\n")
	if want := "03:04:05.000  shop/daily  acme  denied, retry never  limit 0    check GET /a  x"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if err := json.Unmarshal([]byte(object), &record); err != nil || record["replica"] != "x" || record["policy"] != "shop/daily" {
		t.Errorf("%s (%v)", object, err)
	}
	want := strings.Repeat("following replica x\n", 2) + strings.Repeat("replica y is not followed: it has ended the stream\n", 2) +
		strings.Repeat("2 denials of replica x not shown, because there are too many\n", 2)
	if errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
	if err := (&denialLine{Error: "the operator stops"}).show("table", s); err == nil || err.Error() != "the operator stops" {
		t.Errorf("%v", err)
	}
}
