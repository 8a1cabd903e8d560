package envoy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// readiness is ready unless a reason is set.
type readiness struct{ not atomic.Pointer[error] }

func (r *readiness) ready() error {
	if err := r.not.Load(); err != nil {
		return *err
	}
	return nil
}

func (r *readiness) unready(why string) { err := errors.New(why); r.not.Store(&err) }

func TestHealth_ReportsReadiness(t *testing.T) {
	r := &readiness{}
	r.unready("no rules yet")
	w := serve(t, Options{Engine: newEngine(t, noon()), Ready: r.ready})
	wantList := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		list, err := w.health.List(t.Context(), &grpc_health_v1.HealthListRequest{})
		if err != nil || len(list.GetStatuses()) != 3 || list.GetStatuses()[""].GetStatus() != want {
			t.Errorf("list %v, %v", list, err)
		}
	}
	wantCheck := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization"} {
			got, err := w.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if err != nil || got.GetStatus() != want {
				t.Errorf("%q: %v, %v, want %v", service, got.GetStatus(), err, want)
			}
		}
	}
	wantCheck(notServing)
	wantList(notServing)
	r.not.Store(nil)
	wantList(serving) // without a check before it
	wantCheck(serving)
	r.unready("draining")
	wantCheck(notServing)
	_, err := w.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "another"})
	wantError(t, err, codes.NotFound, "")
}

func TestHealth_WatchReportsChangesAndEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &readiness{}
		r.unready("no rules yet")
		w := serveInMemory(t, Options{Engine: newEngine(t, noon()), Ready: r.ready, Transport: StandardTransport})
		next := w.watch(t)
		next(notServing)
		r.not.Store(nil)
		began := time.Now()
		next(serving)
		if took := time.Since(began); took > time.Second {
			t.Errorf("reported after %v, want at most 1s", took)
		}
		r.unready("draining")
		next(notServing)
		began = time.Now()
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the watch delayed the stop by %v", took)
		}
	})
}

func TestServer_ServesWhileItDrainsAndIsNotHealthy(t *testing.T) {
	const drain = time.Minute
	synctest.Test(t, func(t *testing.T) {
		w := serveInMemory(t, Options{Engine: newEngine(t, noon(), per("a", 5, time.Minute, "a")), Drain: drain})
		next := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
			t.Helper()
			synctest.Wait()
			if got, err := w.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil || got.GetStatus() != want {
				t.Errorf("%v, %v, want %v", got.GetStatus(), err, want)
			}
		}
		next(serving)
		stopped := make(chan error, 1)
		began := time.Now()
		go func() { stopped <- w.stop() }()
		next(notServing)
		time.Sleep(drain - time.Second)
		wantSummary(t, w.ask(t, describe("a=x")), "OK: OK 4")
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != drain {
			t.Errorf("drained for %v, want %v", took, drain)
		}
		_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("a=x")))
		wantError(t, err, codes.Unavailable, "")
	})
}

// TestServer_ClosesOldConnectionsGracefully checks that a client reconnects after ten minutes, so that the load balances over new
// replicas. gRPC varies the age by 10 %.
func TestServer_ClosesOldConnectionsGracefully(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveInMemory(t, Options{Engine: newEngine(t, noon(), per("a", 5000, time.Hour, "a"))})
		if w.ask(t, describe("a=x")); w.dials.Load() != 1 {
			t.Fatalf("%d connections, want 1", w.dials.Load())
		}
		for minute := 1; minute <= 33; minute++ {
			time.Sleep(time.Minute)
			w.ask(t, describe("a=x")) // no call fails
			switch dials := w.dials.Load(); {
			case minute < 9 && dials != 1, minute == 12 && dials != 2:
				t.Fatalf("%d connections after %d minutes", dials, minute)
			case minute == 33 && dials != 4:
				t.Fatalf("%d connections after %d minutes, want 4", dials, minute)
			}
		}
	})
}

func TestServer_FinishesCallsInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		call time.Duration // the time that the call takes after the stop
		want string        // the error of the stop
	}{
		"waits for a call":              {9 * time.Second, ""},
		"aborts calls after 10 seconds": {11 * time.Second, "gRPC calls did not end within 10s and were aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slow{Store: memstore.New(noon().now), entered: make(chan struct{}), leave: make(chan struct{})}
				e := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
				swap(t, e, per("a", 5, time.Minute, "a"))
				w := serveInMemory(t, Options{Engine: e})
				answered := make(chan error, 1)
				go func() {
					_, err := w.rls.ShouldRateLimit(t.Context(), request(describe("a=x")))
					answered <- err
				}()
				<-store.entered
				stopped := make(chan error, 1)
				go func() { stopped <- w.stop() }()
				time.Sleep(test.call)
				close(store.leave)
				synctest.Wait()
				err := <-stopped
				if aborted := <-answered; (aborted != nil) != (test.want != "") {
					t.Errorf("the call ended with %v", aborted)
				}
				if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
					t.Errorf("the server stopped with %v, want %q", err, test.want)
				}
			})
		})
	}
}

func TestServer_RunFailsIfTheListenerFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	err = NewServer(Options{Engine: newEngine(t, noon()), Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), listener)
	if err == nil || !strings.Contains(err.Error(), "serve gRPC on "+listener.Addr().String()) {
		t.Errorf("error %v", err)
	}
}

// Reflection and streams have no place in the fast transport, and reflection is off unless asked for.
func TestServer_ServesStreamsOnlyWhenAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		watch   codes.Code
	}{
		"fast":     {Options{Transport: FastTransport, Reflection: true}, codes.Unimplemented},
		"standard": {Options{Transport: StandardTransport}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Engine = newEngine(t, noon())
			w := serve(t, test.options)
			reflected, err := grpc_reflection_v1.NewServerReflectionClient(w.conn).ServerReflectionInfo(t.Context())
			if err == nil {
				_, err = reflected.Recv()
			}
			wantError(t, err, codes.Unimplemented, "")
			watched, err := w.health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if err == nil {
				_, err = watched.Recv()
			}
			wantError(t, err, test.watch, "")
		})
	}
}

func TestServer_ReflectionListsTheServices(t *testing.T) {
	w := serve(t, Options{Engine: newEngine(t, noon()), Transport: StandardTransport, Reflection: true})
	stream, err := grpc_reflection_v1.NewServerReflectionClient(w.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{
		ratelimitv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName, "grpc.health.v1.Health",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
}

// An Envoy with transport_api_version V2 calls other services. Its failure mode decides.
func TestServer_RejectsCallsOfAnOlderAPI(t *testing.T) {
	w := serve(t, Options{Engine: newEngine(t, noon())})
	for _, method := range []string{"/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "/envoy.service.auth.v2.Authorization/Check"} {
		err := w.conn.Invoke(t.Context(), method, &ratelimitv3.RateLimitRequest{Domain: "shop"}, &ratelimitv3.RateLimitResponse{})
		service, _, _ := strings.Cut(method[1:], "/")
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), service) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestServer_RequiresAClientCertificate(t *testing.T) {
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	authority, errCA := os.ReadFile(files.CA)
	pair, errPair := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	client, errClient := files.ClientConfig()
	if err := errors.Join(errCA, errPair, errClient); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	mutual := credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	options := func() Options {
		return Options{Engine: newEngine(t, noon(), per("a", 5, time.Minute, "a")), Credentials: mutual}
	}
	w := serve(t, options(), grpc.WithTransportCredentials(credentials.NewTLS(client)))
	wantSummary(t, w.ask(t, describe("a=x")), "OK: OK 4")
	anonymous := client.Clone()
	anonymous.Certificates = nil
	w = serve(t, options(), grpc.WithTransportCredentials(credentials.NewTLS(anonymous)))
	_, err = w.rls.ShouldRateLimit(t.Context(), request(describe("a=x")))
	wantError(t, err, codes.Unavailable, "")
}

func TestServer_ObservesTheDurationOfDecisions(t *testing.T) {
	var rls, auth observations
	e := newEngine(t, noon(), per("a", 1, time.Minute, "a"))
	w := serve(t, Options{Engine: e, RateLimitSeconds: &rls, ExtAuthzSeconds: &auth})
	w.ask(t, describe("a=x"))
	w.ask(t, describe("a=x")) // a denial is a decision
	_, err := w.rls.ShouldRateLimit(t.Context(), request())
	wantError(t, err, codes.InvalidArgument, "")
	w.check(t, attributes("GET", "/"))
	if rls.Load() != 2 || auth.Load() != 1 {
		t.Errorf("%d and %d decisions, want 2 and 1", rls.Load(), auth.Load())
	}
}

// observations counts calls of Observe.
type observations struct{ atomic.Int64 }

func (o *observations) Observe(seconds float64) {
	if seconds > 0 {
		o.Add(1)
	}
}
