package endpoints_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server"
)

const claimsHeader = "X-JWT-Payload"

// serveHTTP serves l on a socket until the test ends.
func serveHTTP(t *testing.T, l *testLimiter) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(server.NewHandler(server.Options{
		Engine: l.engine, Style: reply.RateLimitHeaders, Metrics: server.NewMetrics(prometheus.NewRegistry()), Log: quiet(),
		Clients: trust(t), ClaimsHeader: claimsHeader,
	}))
	t.Cleanup(s.Close)
	return s
}

// roundTrip sends a request to s and reads the whole response.
func roundTrip(t *testing.T, s *httptest.Server, request *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func unsupportedByCheck(r *row) string {
	switch {
	case r.repeatsHeaders():
		return "a repeated header"
	case !r.isText():
		return "a header that is not valid UTF-8"
	case r.isAbsoluteURL():
		return "an absolute URL"
	default:
		return ""
	}
}

// entry is a part of a descriptor in JSON.
type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// openCheck sends requests to POST /v1/check.
func openCheck(t *testing.T, l *testLimiter) sender {
	s := serveHTTP(t, l)
	return func(t *testing.T, r *row) result {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/check", strings.NewReader(checkBody(t, r)))
		if err != nil {
			t.Fatal(err)
		}
		response, body := roundTrip(t, s, request)
		var answer struct {
			Allowed bool
			DelayMs int64
			Results []struct {
				Policy, Identifier, Tier string
				Shadow, Allowed          bool
				Remaining, Limit         int64
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(body) == 0 {
			t.Fatalf("line %d: %s: %s %v", r.line, response.Status, body, err)
		}
		if want := map[bool]int{true: 200, false: 429}[answer.Allowed]; response.StatusCode != want {
			t.Errorf("line %d: %s: status %d of %s", r.line, r.sentence, response.StatusCode, body)
		}
		outcomes := []outcome{}
		for _, x := range answer.Results {
			outcomes = append(outcomes, outcome{
				Policy: x.Policy, Identifier: x.Identifier, Tier: x.Tier, Shadow: x.Shadow, Allowed: x.Allowed,
				Waits: answer.DelayMs > 0, Remaining: x.Remaining, Limit: x.Limit,
			})
		}
		return result{allowed: answer.Allowed, fields: response.Header, outcomes: outcomes, text: body + fmt.Sprint(response.Header)}
	}
}

// checkBody returns the row as the JSON body of POST /v1/check.
func checkBody(t *testing.T, r *row) string {
	t.Helper()
	headers := map[string]string{}
	for _, h := range r.headers {
		headers[h.name] = h.value
	}
	body := map[string]any{"domain": r.domain, "headers": headers, "cost": r.cost, "peek": r.peek}
	if r.isHTTP() {
		body["method"], body["host"], body["path"] = r.method, r.host, r.target
	}
	if r.client.IsValid() {
		body["clientIP"] = r.client.String()
	}
	if r.claims != "" {
		body["claims"] = json.RawMessage(r.claims)
	}
	var descriptors [][]entry
	for _, d := range r.descriptors {
		var entries []entry
		for _, e := range d {
			entries = append(entries, entry(e))
		}
		descriptors = append(descriptors, entries)
	}
	if descriptors != nil {
		body["descriptors"] = descriptors
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func unsupportedByAuth(r *row) string {
	switch {
	case !r.isHTTP():
		return "a request that is not HTTP"
	case len(r.descriptors) > 0:
		return "descriptors"
	case r.cost != 1 || r.peek:
		return "a cost or a peek"
	case !r.client.IsValid():
		return "a client without an address"
	default:
		return ""
	}
}

// setTraefikHeaders sets the headers that Traefik and Caddy add.
func setTraefikHeaders(request *http.Request, r *row) {
	request.Header["X-Forwarded-Method"] = []string{r.method}
	request.Header["X-Forwarded-Uri"] = []string{r.target}
	request.Header["X-Forwarded-Host"] = []string{r.host}
}

// setNginxHeaders sets the headers that nginx adds.
func setNginxHeaders(request *http.Request, r *row) {
	request.Host = r.host
	request.Header["X-Original-Method"] = []string{r.method}
	request.Header["X-Original-URI"] = []string{r.target}
}

// openAuth sends requests to /v1/auth/{domain} as a proxy that all endpoints trust. setHeaders adds the headers of the proxy.
func openAuth(setHeaders func(*http.Request, *row)) func(*testing.T, *testLimiter) sender {
	return func(t *testing.T, l *testLimiter) sender {
		s := serveHTTP(t, l)
		return func(t *testing.T, r *row) result {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/auth/"+r.domain, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range r.headers {
				request.Header[h.name] = append(request.Header[h.name], h.value)
			}
			for name := range request.Header {
				if strings.EqualFold(name, forwardedFor) {
					delete(request.Header, name)
				}
			}
			request.Header["X-Forwarded-For"] = []string{r.forwardedFor()}
			if r.claims != "" {
				request.Header[claimsHeader] = []string{base64.RawURLEncoding.EncodeToString([]byte(r.claims))}
			}
			setHeaders(request, r)
			response, body := roundTrip(t, s, request)
			if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
				t.Errorf("line %d: %s: got status %s, want 200 or 429: %s", r.line, r.sentence, response.Status, body)
			}
			return result{allowed: response.StatusCode == http.StatusOK, fields: response.Header, text: body + fmt.Sprint(response.Header)}
		}
	}
}
