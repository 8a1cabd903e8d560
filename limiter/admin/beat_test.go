package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/decisionlog"
)

// timedLines is a response that records when its lines are written.
type timedLines struct {
	*httptest.ResponseRecorder

	began time.Time
	lines []string
}

func (w *timedLines) Write(line []byte) (int, error) {
	w.lines = append(w.lines, time.Since(w.began).String()+" "+strings.TrimSpace(string(line)))
	return len(line), nil
}

// The operator ends a stream without lines after 30 seconds.
func TestDenials_SendAnEmptyLineEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := decisionlog.New(decisionlog.Options{Identifiers: decisionlog.Counted}, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		h := admin.NewHandler(admin.Options{Decisions: log})
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		w := &timedLines{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/admin/v1/denials", nil))
		if want := []string{"0s {}", "10s {}", "20s {}", "30s {}"}; !slices.Equal(w.lines, want) {
			t.Errorf("%q, want %q", w.lines, want)
		}
	})
}
