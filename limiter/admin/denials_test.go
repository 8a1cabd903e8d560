package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/test/fixture/connection"
)

// follow calls the stream of denials, and returns a function that returns its next line. The time that the server has to write the answer to a
// request is over before the handler begins.
func follow(t *testing.T, h http.Handler, query string) (next func() admin.DenialLine, end func()) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.WriteTimeout = time.Nanosecond
	return followFrom(t, server, query)
}

// followFrom is follow from this server.
func followFrom(t *testing.T, server *httptest.Server, query string) (next func() admin.DenialLine, end func()) {
	t.Helper()
	server.Start()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/admin/v1/denials"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	return func() (line admin.DenialLine) {
			t.Helper()
			if response.StatusCode != http.StatusOK || !lines.Scan() {
				t.Fatalf("%s, %v", response.Status, lines.Err())
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			return line
		}, func() {
			cancel()
			_ = response.Body.Close()
			server.Close()
		}
}

func TestDenials_AreStreamed(t *testing.T) {
	c := newCounting(t)
	next, end := follow(t, c, "?policy=shop/tenant&identifier=acme&endpoint=check")
	defer end()
	if first := next(); first.Denial != nil {
		t.Errorf("%+v, want an empty line at the beginning", first)
	}
	c.check(t, 3, "beta")
	c.check(t, 3, "acme")
	if line := next(); line.Denial == nil || line.Denial.Policy != "shop/tenant" || line.Denial.Identifier != "acme" || line.Dropped != 0 {
		t.Errorf("%+v", line)
	}
	c.check(t, 3000, "acme") // more than are sent in two seconds
	for {
		if line := next(); line.Dropped > 0 {
			break
		}
	}
	if w := call(t, c, http.MethodGet, "/admin/v1/denials?policy=shop/none", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestDenials_OutlastTheTimeoutsOfRequests(t *testing.T) {
	c := newCounting(t)
	server := httptest.NewUnstartedServer(c)
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Minute, time.Nanosecond
	reading := &connection.ReadDeadline{Listener: server.Listener}
	server.Listener = reading
	next, end := followFrom(t, server, "")
	defer end()
	next()
	for range 10 {
		c.check(t, 3, "acme")
		next()
	}
	if at := reading.At(); !at.IsZero() {
		t.Errorf("the limiter would end the stream at %v, because the caller sends nothing", at)
	}
}

func TestDenials_StatesThatNoDenialHasTheIdentifier(t *testing.T) {
	log, err := decisionlog.New(decisionlog.Options{Identifiers: decisionlog.Omitted}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	h := admin.NewHandler(admin.Options{Decisions: log})
	w := call(t, h, http.MethodGet, "/admin/v1/denials?identifier=acme", "")
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"field":"identifier"`) || !strings.Contains(w.Body.String(), "is Omitted") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	next, end := follow(t, h, "?endpoint=check")
	defer end()
	next()
}

func TestDenials_LimitsCallers(t *testing.T) {
	c := newCounting(t)
	for range 16 {
		next, end := follow(t, c, "")
		defer end()
		next()
	}
	if w := call(t, c, http.MethodGet, "/admin/v1/denials", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
