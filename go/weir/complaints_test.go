package weir_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/go/weir"
)

// Tests of a program can replace the clock: time in a bubble of testing/synctest passes immediately, for limits, waits and headers.
func TestNewMemory_FollowsTheClockOfATest(t *testing.T) {
	policies := parse(t, perTenant("shop", "2", ""))
	synctest.Test(t, func(t *testing.T) {
		l, err := weir.NewMemory(policies, discard())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		h := l.Handler(ok())
		for range 3 {
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) // the window begins
			if got := fmt.Sprint(statuses(h, "acme", 3)); got != "[200 200 429]" {
				t.Errorf("statuses %s", got)
			}
			time.Sleep(20 * time.Minute)
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-Tenant-Id", "acme")
			if h.ServeHTTP(w, r); w.Header().Get("Retry-After") != "2400" {
				t.Errorf("Retry-After %s after 20 minutes, want 40 minutes", w.Header().Get("Retry-After"))
			}
		}
	})
}

// Limits with windows of a second and of an hour are in one store, and do not end each other's windows.
func TestNewMemory_HasLimitsOfASecondAndOfAnHour(t *testing.T) {
	policies := parse(t, perTenant("shop", "4", "")+`
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {namespace: shop, name: burst}
spec: {axis: Tenant, window: 1s, algorithm: FixedWindow, limit: 2}
`)
	synctest.Test(t, func(t *testing.T) {
		l, err := weir.NewMemory(policies, discard())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		h := l.Handler(ok())
		for i, want := range []string{"[200 200 429]", "[200 200 429]", "[429 429 429]"} {
			if got := fmt.Sprint(statuses(h, "acme", 3)); got != want {
				t.Errorf("second %d: statuses %s, want %s", i, got, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		if got := served(statuses(h, "acme", 3)); got != 2 {
			t.Errorf("%d requests are served after an hour", got)
		}
	})
}
