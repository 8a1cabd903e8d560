package ask

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// screen is a terminal that ends the command after its second update.
type screen struct {
	text strings.Builder
	end  context.CancelFunc
}

func (s *screen) Write(p []byte) (int, error) {
	if strings.Count(s.text.String(), eraseScreen) == 1 && bytes.Contains(p, []byte(eraseScreen)) {
		s.end()
	}
	return s.text.Write(p)
}

func TestTop_UpdatesATerminal(t *testing.T) {
	f := &topFlags{interval: 100 * time.Millisecond, limiters: replicas(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"limiter":"a/b","replicas":[{"pod":"x","status":200,"body":{
			"denied":{"identifiers":[{"policy":"shop/tenant","identifier":"acme","requests":1}]}}}]}`)
	})}
	ctx, end := context.WithCancel(t.Context())
	out := &screen{end: end}
	if err := watchTop(ctx, f, out, func() (int, int, error) { return 30, 8, nil }); err != nil {
		t.Fatal(err)
	}
	text, entered := strings.CutPrefix(out.text.String(), enterScreen)
	text, left := strings.CutSuffix(text, leaveScreen)
	updates := strings.Split(text, eraseScreen)
	if !entered || !left || len(updates) != 3 || updates[0] != "" {
		t.Fatalf("%q", out.text.String())
	}
	lines := strings.Split(updates[2], "\r\n")
	if len(lines) != 8 || len(lines[0]) != 30 || lines[3] != "acme         shop/tenant  1   " {
		t.Errorf("%q, want 8 lines of 30 characters", lines)
	}
	failing := &topFlags{limiters: &Process{Address: "unix:/nowhere"}, interval: time.Second}
	if err := watchTop(t.Context(), failing, &bytes.Buffer{}, func() (int, int, error) { return 0, 0, errors.New("no size") }); err == nil {
		t.Error("a limiter that does not answer from the beginning is no error")
	}
}
