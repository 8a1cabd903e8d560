package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/cluster/journal"
)

func TestALoadTellsDecisionsFromFailures(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question struct{ Domain, Path string }
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil || question.Domain != "shop" || question.Path != "/v1" {
			t.Errorf("asked %+v, %v", question, err)
		}
		switch asked.Add(1) % 4 {
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
	g := generator{url: server.URL, domain: "shop", rate: 2000, requests: 40, patience: time.Second, leave: 0.5}
	if err := g.add("1 /v1 3"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := g.run(t.Context(), &log); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Read(&log)
	if seen := j.All(); err != nil || seen.Of("redis") != 20 || seen.Denied() != 10 || seen.Failed() != 10 || seen.Connections < 2 {
		t.Errorf("%v over %d connections, %v", seen, seen.Connections, err)
	}
}

func TestAServerThatIsNotThereFailsEveryRequest(t *testing.T) {
	g := generator{url: "http://127.0.0.1:1", domain: "shop", rate: 1000, requests: 5, patience: time.Second, questions: []question{{1, "/", 1}}}
	var log bytes.Buffer
	if err := g.run(t.Context(), &log); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Read(&log)
	if seen := j.All(); err != nil || seen.Failed() != 5 || seen.Answered() != 0 || len(seen.Failures) != 1 {
		t.Errorf("%v, %v", seen, err)
	}
}

func TestWhatCannotBeAskedIsRefused(t *testing.T) {
	for _, text := range []string{"", "1 /v1", "0 /v1 1", "1 /v1 0", "much /v1 1"} {
		if err := new(generator).add(text); err == nil {
			t.Errorf("-ask %q is taken", text)
		}
	}
	if err := (&generator{url: "http://limiter", domain: "shop", rate: 1, patience: 1}).check(); err == nil {
		t.Error("a load that asks nothing is taken")
	}
}
