package migration

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/importer"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server/envoy"
)

// TB is what testing.TB and rapid.T have in common.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// weir is a limiter that serves Envoy's rate limit service with a clock that the test sets.
type weir struct {
	client ratelimitv3.RateLimitServiceClient
	auth   authv3.AuthorizationClient
	engine *engine.Engine
	loader *policyfile.Loader
	shadow bool         // import all policies in Shadow
	now    atomic.Int64 // nanoseconds
}

func newWeir(t testing.TB) *weir {
	t.Helper()
	return newWeirWith(t, nil)
}

// newWeirWith starts a limiter that answers as the reference does, unless that is nil.
func newWeirWith(t testing.TB, reference *envoy.Reference) *weir {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	w := &weir{loader: loader}
	w.reset()
	listener := bufconn.Listen(64 << 10)
	ctx, cancel := context.WithCancel(context.Background())
	w.engine = engine.New(memstore.New(w.time), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	server := envoy.NewServer(envoy.Options{Engine: w.engine, Log: slog.New(slog.DiscardHandler), Reference: reference})
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, listener) }()
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := conn.Close()
		cancel()
		if err := errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
	})
	w.client, w.auth = ratelimitv3.NewRateLimitServiceClient(conn), authv3.NewAuthorizationClient(conn)
	return w
}

func (w *weir) time() time.Time { return time.Unix(0, w.now.Load()) }

func (w *weir) pass(d time.Duration) { w.now.Add(int64(d)) }

// reset sets the clock to a moment before the end of a minute, an hour and a day.
func (w *weir) reset() {
	w.now.Store(time.Date(2026, 5, 1, 23, 59, 58, 500_000_000, time.UTC).UnixNano())
}

// importFrom imports a configuration and enforces its policies, with counters of their own.
func (w *weir) importFrom(t TB, config, counters string) *importer.Result {
	t.Helper()
	return w.enforce(t, envoyratelimit.Import([]policyfile.File{{Name: "config.yaml", Content: []byte(config)}}, envoyratelimit.Options{Algorithm: v1alpha1.FixedWindow}), counters)
}

// enforce enforces the policies of an import.
func (w *weir) enforce(t TB, result *importer.Result, counters string) *importer.Result {
	t.Helper()
	for i := range result.Policies {
		if w.shadow {
			result.Policies[i].Spec.Enforcement = v1alpha1.EnforcementShadow
		}
	}
	outputs, err := result.Finish(w.loader)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var files []policyfile.File
	for _, o := range outputs {
		files = append(files, policyfile.File{Name: o.Name, Content: o.Content})
	}
	loaded := w.loader.Compile(files)
	for _, problem := range loaded.Problems {
		t.Errorf("an imported policy is invalid: %s", problem)
	}
	index, err := matching.NewIndex(loaded.Rules, "sha256:1", counters)
	if err != nil {
		t.Fatalf("%v", err)
	}
	w.engine.Swap(index)
	return result
}

// decide sends one request of one or more descriptors.
func (w *weir) decide(t TB, domain string, request [][]entry) *ratelimitv3.RateLimitResponse {
	t.Helper()
	message := &ratelimitv3.RateLimitRequest{Domain: domain}
	for _, descriptor := range request {
		d := &descriptorv3.RateLimitDescriptor{}
		for _, e := range descriptor {
			d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: e.key, Value: e.value})
		}
		message.Descriptors = append(message.Descriptors, d)
	}
	response, err := w.client.ShouldRateLimit(context.Background(), message)
	if err != nil {
		t.Fatalf("%v: %v", request, err)
	}
	return response
}

func isOver(code ratelimitv3.RateLimitResponse_Code) bool {
	return code == ratelimitv3.RateLimitResponse_OVER_LIMIT
}
