package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/cluster/loadstats"
)

func TestGenerator_CountsDecisionsAndFailures(t *testing.T) {
	var received atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Domain, Path string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Domain != "shop" || body.Path != "/v1" {
			t.Errorf("received %+v, %v", body, err)
		}
		switch received.Add(1) % 4 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"policy":"shop/daily","limit":5,"source":"cache"}`))
		default:
			_, _ = w.Write([]byte(`{"policy":"shop/daily","limit":5,"source":"redis"}`))
		}
	}))
	defer server.Close()
	g := generator{url: server.URL, domain: "shop", rate: 2000, requests: 40, timeout: time.Second, closeShare: 0.5}
	if err := g.add("1 /v1 3"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := g.run(t.Context(), &log); err != nil {
		t.Fatal(err)
	}
	j, err := loadstats.Read(&log)
	if seen := j.Total(); err != nil || seen.FromSource("redis") != 20 || seen.Denied() != 10 || seen.Failed() != 10 || seen.Connections < 2 {
		t.Errorf("%v over %d connections, %v", seen, seen.Connections, err)
	}
}

func TestGenerator_SendsRequestsToAGateway(t *testing.T) {
	var received atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1" || r.Header.Get("X-Tenant-Id") != "tenant-0" {
			t.Errorf("received %s %s of %q", r.Method, r.URL, r.Header.Get("X-Tenant-Id"))
		}
		w.WriteHeader([]int{http.StatusOK, http.StatusTooManyRequests, http.StatusForbidden}[received.Add(1)%3])
	}))
	defer server.Close()
	g := generator{url: server.URL, gateway: true, rate: 2000, requests: 30, timeout: time.Second}
	if err := g.add("1 /v1 1"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := g.run(t.Context(), &log); err != nil {
		t.Fatal(err)
	}
	j, err := loadstats.Read(&log)
	if seen := j.Total(); err != nil || seen.Answers["200 gateway"] != 10 || seen.Denied() != 10 || seen.Failed() != 10 {
		t.Errorf("%v, %v", seen, err)
	}
}

func TestGenerator_CountsEveryRequestToAMissingServerAsFailed(t *testing.T) {
	g := generator{url: "http://127.0.0.1:1", domain: "shop", rate: 1000, requests: 5, timeout: time.Second, targets: []target{{1, "/", 1}}}
	var log bytes.Buffer
	if err := g.run(t.Context(), &log); err != nil {
		t.Fatal(err)
	}
	j, err := loadstats.Read(&log)
	if seen := j.Total(); err != nil || seen.Failed() != 5 || seen.Answered() != 0 || len(seen.Failures) != 1 {
		t.Errorf("%v, %v", seen, err)
	}
}

func TestGenerator_RejectsInvalidFlags(t *testing.T) {
	for _, text := range []string{"", "1 /v1", "0 /v1 1", "1 /v1 0", "much /v1 1"} {
		if err := new(generator).add(text); err == nil {
			t.Errorf("-request %q is accepted", text)
		}
	}
	both := generator{url: "http://limiter", domain: "shop", gateway: true, rate: 1, timeout: 1, targets: []target{{1, "/", 1}}}
	if err := both.check(); err == nil {
		t.Error("-domain with -gateway is accepted")
	}
	if err := (&generator{url: "http://limiter", domain: "shop", rate: 1, timeout: 1}).check(); err == nil {
		t.Error("a generator without requests is accepted")
	}
}
