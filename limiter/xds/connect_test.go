package xds

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// disconnectedClient is a client whose connections fail after connect has returned.
func disconnectedClient(connect func(attempt int)) (*Client, *bytes.Buffer) {
	var log bytes.Buffer
	attempts := 0
	return New(Options{
		Server: "ratelimit.example:18001", TypeURL: typeURL, MinWait: time.Second, MaxWait: 8 * time.Second,
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Credentials: func() (*tls.Config, error) {
			attempts++
			connect(attempts)
			return nil, errors.New("no certificate")
		},
	}), &log
}

// All clients of a server that is replaced must not connect at the same time, and not too often.
func TestRun_WaitsLongerAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Time
		c, log := disconnectedClient(func(attempt int) {
			switch at = append(at, time.Now()); attempt {
			case 7: // as long as a connection that a server has accepted
				time.Sleep(30*time.Second + 1)
			case 8:
				cancel()
			}
		})
		c.Run(ctx)
		for i, longest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second, 31*time.Second + 1} {
			shortest := longest / 2
			if i == 6 {
				shortest = 30*time.Second + 500*time.Millisecond + 1
			}
			if wait := at[i+1].Sub(at[i]); wait < shortest || wait > longest {
				t.Errorf("attempt %d after %v, want %v to %v", i+2, wait, shortest, longest)
			}
		}
		if n := strings.Count(log.String(), "cannot connect to the xDS server"); n != 7 || strings.Contains(log.String(), "lost the connection") ||
			!strings.Contains(log.String(), "no certificate") {
			t.Errorf("%d warnings, want one for each failure before the end:\n%s", n, log)
		}
	})
}

func TestRun_KeepsItsWaitAfterAShortConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Time
		c, _ := disconnectedClient(func(attempt int) {
			switch at = append(at, time.Now()); attempt {
			case 3:
				time.Sleep(30 * time.Second)
			case 4:
				cancel()
			}
		})
		c.Run(ctx)
		if wait := at[3].Sub(at[2]); wait < 32*time.Second {
			t.Errorf("connects again after %v, want at least 2 s after the 30 s", wait)
		}
	})
}

func TestRun_EndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		c, _ := disconnectedClient(func(int) {})
		began := time.Now()
		c.Run(ctx)
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestClient_ReportsAConnectionThatWasNeverAccepted(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	h.send("1", "a")
	if log := h.log.String(); !strings.Contains(log, "connected to the xDS server") {
		t.Errorf("log:\n%s", log)
	}
	for range 2 {
		h.hangup <- struct{}{}
		receive(t, h.requests)
	}
	log := h.log.String()
	if strings.Count(log, "lost the connection") != 1 || strings.Count(log, "cannot connect") != 1 {
		t.Errorf("log:\n%s", log)
	}
	h.send("1", "a")
	if strings.Count(h.log.String(), `msg="connected to the xDS server"`) != 2 || testutil.ToFloat64(h.metrics.connected) != 1 {
		t.Errorf("log:\n%s", h.log)
	}
}

func TestClient_AppliesAnotherVersionAfterARejectedOne(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	for i, version := range []string{"1", "2", "2"} {
		h.send(version, "bad")
		if got := testutil.ToFloat64(h.metrics.rejected); got != float64(min(i+1, 2)) {
			t.Errorf("%v rejected versions after %d responses", got, i+1)
		}
	}
	if ack := h.send("1", "good"); ack.GetVersionInfo() != "1" || ack.GetErrorDetail() != nil {
		t.Errorf("%v", ack)
	}
}

// Some thousands of limits are larger than the messages that gRPC accepts by default.
func TestClient_AcceptsLargeConfigurations(t *testing.T) {
	h := start(t)
	receive(t, h.requests)
	if ack := h.send("1", strings.Repeat("a", 9<<20)); ack.GetVersionInfo() != "1" {
		t.Errorf("%v", ack)
	}
}

func TestClient_ConnectsWithItsCredentials(t *testing.T) {
	certified := httptest.NewTLSServer(nil) // only for its certificate
	certified.Close()
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	trusted := x509.NewCertPool()
	trusted.AddCert(certified.Certificate())
	h := startWith(t, server, func() (*tls.Config, error) {
		return &tls.Config{RootCAs: trusted, ServerName: "example.com", MinVersion: tls.VersionTLS13}, nil
	})
	receive(t, h.requests)
	if ack := h.send("1", "a"); ack.GetVersionInfo() != "1" {
		t.Errorf("%v", ack)
	}
}

func TestRun_AcceptsTheShortestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		c, _ := disconnectedClient(func(attempt int) {
			if attempts = attempt; attempt == 5 {
				cancel()
			}
		})
		c.MinWait, c.MaxWait = 1, 1
		c.Run(ctx)
		if attempts != 5 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

func TestNewMetrics_RegistersThem(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	NewMetrics(registry)
	if n, err := testutil.GatherAndCount(registry, "weir_xds_connected", "weir_xds_responses_total"); n != 3 || err != nil {
		t.Errorf("%d series, want one of the connection and two of responses (%v)", n, err)
	}
}
