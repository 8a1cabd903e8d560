package adminproxy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
)

func TestAnswerWriter_WritesABodyOnce(t *testing.T) {
	var text strings.Builder
	a := newAnswerWriter(&text, `edge/"main`)
	for _, r := range []proxyapi.Replica{
		{Pod: "a", Status: 200, Body: json.RawMessage("{\"x\": 1}\n")},
		{Pod: "b", Status: 503, Body: json.RawMessage("{\"x\": 1}\n")},
		{Pod: "c", Status: 200, Body: json.RawMessage("{\"x\": 1}\n")},
		{Pod: "d", Error: `it "hangs"`},
		{Pod: "e", Status: 503, Body: json.RawMessage(`{"x": 1}`)},
	} {
		if !a.add(r) {
			t.Fatal(a.err)
		}
	}
	a.end()
	const want = `{"limiter":"edge/\"main","replicas":[{"pod":"a","status":200,"body":{"x": 1}},{"pod":"b","status":503,"body":{"x": 1}},` +
		`{"pod":"c","status":200,"sameAs":"a"},{"pod":"d","error":"it \"hangs\""},{"pod":"e","status":503,"sameAs":"b"}]}` + "\n"
	if text.String() != want {
		t.Errorf("got  %s\nwant %s", text.String(), want)
	}
}

// fullWriter accepts some bytes and then fails.
type fullWriter int

func (w *fullWriter) Write(text []byte) (int, error) {
	if *w -= fullWriter(len(text)); *w < 0 {
		return 0, errors.New("full")
	}
	return len(text), nil
}

func TestAnswerWriter_ReportsAUserWhoDoesNotRead(t *testing.T) {
	w := fullWriter(60)
	a := newAnswerWriter(&w, "edge/main")
	if !a.add(proxyapi.Replica{Pod: "a", Error: "x"}) || a.add(proxyapi.Replica{Pod: "b", Error: "x"}) || a.add(proxyapi.Replica{Pod: "c", Error: "x"}) {
		t.Errorf("%v, %d bytes are free", a.err, w)
	}
}
