package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/webhook/throttle"
)

// throttling returns flags for a limiter with the admission endpoint and the certificate in files.
func throttling(files *fixture.TLSFiles) socketFlags {
	f := anyPort
	f.throttle = throttleFlags{
		listen: "127.0.0.1:0", certificate: files.ServerCert, key: files.ServerKey,
		additional: exempt.Lists{Users: []string{"root"}}, maxRetryAfter: 5 * time.Second, warnPercent: 50,
	}
	return f
}

// throttleCounters have the longest Redis timeout that the admission endpoint allows.
func throttleCounters() counterFlags {
	f := countersOf("weir:")
	f.timeout = throttle.MaxStoreTimeout
	return f
}

func newFiles(t *testing.T) *fixture.TLSFiles {
	t.Helper()
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// secretSet limits the creation of secrets by user.
func secretSet(units int64) rules.Set {
	return rules.Set{Rules: []rules.Rule{{
		Policy: "_cluster/secrets", AllDomains: true, Axis: "User", Identifier: rules.Identifier{From: rules.FromKubernetesUser},
		Match: rules.Match{Kubernetes: &rules.KubernetesMatch{Resources: []rules.KubernetesResources{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Operations: []string{"CREATE"},
		}}}},
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 3600,
	}}}
}

// limiting publishes a set to a Redis and returns its URL.
func limiting(t *testing.T, set rules.Set) string {
	t.Helper()
	url := "redis://" + miniredis.RunT(t).Addr()
	client, err := redisclient.Open(url, limiterTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	publishSet(t, controlplane.NewExchange(client, "weir:", "weir-system/default"), set)
	return url
}

// apiServer returns a client with its own connections.
func apiServer(t *testing.T, files *fixture.TLSFiles) *http.Client {
	t.Helper()
	config, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

type reviewed struct {
	Response struct {
		UID      string
		Allowed  bool
		Warnings []string
		Status   struct{ Message string }
	}
}

// review sends an admission review for the creation of a Secret by user.
func review(client *http.Client, address, user string) (reviewed, *tls.ConnectionState, error) {
	body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u1","operation":"CREATE",`+
		`"resource":{"group":"","version":"v1","resource":"secrets"},"namespace":"shop","userInfo":{"username":%q}}}`, user)
	response, err := client.Post("https://"+address+throttle.Path+"?timeout=2s", "application/json", strings.NewReader(body))
	if err != nil {
		return reviewed{}, nil, err
	}
	defer response.Body.Close()
	var got reviewed
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, json.Unmarshal(text, &got)); err == nil && (response.StatusCode != http.StatusOK || got.Response.UID != "u1") {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return got, response.TLS, err
}

func TestThrottle_ReplicasShareCounters(t *testing.T) {
	redis, files := limiting(t, secretSet(3)), newFiles(t)
	var addresses, ops []string
	for _, replica := range []string{"a", "b"} {
		log := &Transcript{}
		launch(t, func(ctx context.Context) error {
			return runLimiter(ctx, limiterFlags{
				limiter: "weir-system/default", redis: redis, counters: throttleCounters(), replica: replica, sockets: throttling(files),
			}, log.Logger())
		})
		addresses, ops = append(addresses, find(t, log, `throttle=(\S+)`)), append(ops, "http://"+find(t, log, `ops=(\S+)`))
		fixture.Await(t, "ready", func() bool { status, _ := get(t, ops[len(ops)-1]+"/readyz"); return status == http.StatusOK })
	}
	client := apiServer(t, files)
	var passed, warned int
	for i := range 6 {
		got, _, err := review(client, addresses[i%2], "alice")
		if err != nil {
			t.Fatal(err)
		}
		warned += len(got.Response.Warnings)
		if got.Response.Allowed {
			passed++
		} else if !strings.Contains(got.Response.Status.Message, "over the limit of policy _cluster/secrets: 3 per 1h for User alice; retry in ") {
			t.Errorf("%+v", got)
		}
	}
	if passed != 3 || warned != 2 {
		t.Errorf("%d passed and %d were warned, want 3 and 2", passed, warned)
	}
	if got, _, err := review(client, addresses[0], "root"); err != nil || !got.Response.Allowed {
		t.Errorf("an exempt user: %+v, %v", got, err)
	}
	if _, text := get(t, ops[0]+"/metrics"); !strings.Contains(text, `weir_decision_duration_seconds_count{endpoint="throttle"} 4`) {
		t.Errorf("the metrics do not report 4 decisions at the endpoint:\n%s", text)
	} else if !strings.Contains(text, `weir_requests_total{code="200",endpoint="throttle"} 3`) ||
		!strings.Contains(text, `weir_requests_total{code="429",endpoint="throttle"} 1`) {
		t.Errorf("the metrics do not report the codes of 3 writes that pass and of one that is denied:\n%s", text)
	}
}

func TestCertReloader_UsesARenewedCertificateWithoutARestart(t *testing.T) {
	redis, files := limiting(t, secretSet(100)), newFiles(t)
	log := &Transcript{}
	launch(t, func(ctx context.Context) error {
		return runLimiter(ctx, limiterFlags{
			limiter: "weir-system/default", redis: redis, counters: throttleCounters(), sockets: throttling(files),
		}, log.Logger())
	})
	address := find(t, log, `throttle=(\S+)`)
	first := apiServer(t, files)
	_, before, err := review(first, address, "alice")
	if err != nil {
		t.Fatal(err)
	}
	renewed := newFiles(t)
	if err := os.Rename(renewed.ServerCert, files.ServerCert); err != nil {
		t.Fatal(err)
	}
	// Between the writes of the two files, new connections get the old pair.
	if _, state, err := review(apiServer(t, files), address, "alice"); err != nil || !state.PeerCertificates[0].Equal(before.PeerCertificates[0]) {
		t.Errorf("with half of the new pair: %v", err)
	}
	if err := os.Rename(renewed.ServerKey, files.ServerKey); err != nil {
		t.Fatal(err)
	}
	trusting := &fixture.TLSFiles{CA: renewed.CA, ClientCert: files.ClientCert, ClientKey: files.ClientKey}
	if _, state, err := review(apiServer(t, trusting), address, "alice"); err != nil || state.PeerCertificates[0].Equal(before.PeerCertificates[0]) {
		t.Errorf("a new connection does not get the new pair: %v", err)
	}
	if _, _, err := review(apiServer(t, files), address, "alice"); err == nil {
		t.Error("a client that trusts only the old CA can connect")
	}
	if _, _, err := review(first, address, "alice"); err != nil {
		t.Errorf("an existing connection: %v", err)
	}
}

// TestThrottle_AnswersEachCallDuringShutdown sends SIGTERM to a real limiter during calls of API servers. The calls continue for a
// while after the limiter is not ready, as they do until a Service has removed its endpoint.
func TestThrottle_AnswersEachCallDuringShutdown(t *testing.T) {
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	redis, files := limiting(t, secretSet(1_000_000)), newFiles(t)
	address, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ops, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	process, err := fixture.StartWeir(weir, "limiter", "--redis="+redis, "--listen=127.0.0.1:0", "--grpc-listen=", "--ops-listen="+ops, "--drain=2s",
		"--throttle-listen="+address, "--throttle-cert="+files.ServerCert, "--throttle-key="+files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, "http://"+ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err, process.Log())
	}
	const more = 20 // calls after the limiter is not ready
	var asking sync.WaitGroup
	draining := make(chan struct{})
	for range 4 {
		client := apiServer(t, files)
		asking.Go(func() {
			for left := more; left > 0; {
				if got, _, err := review(client, address, "alice"); err != nil || !got.Response.Allowed {
					t.Errorf("with %d reviews left: %+v, %v", left, got, err)
					return
				}
				select {
				case <-draining:
					left--
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Stop() }()
	if err := fixture.WaitHTTP(ctx, "http://"+ops+"/readyz", http.StatusServiceUnavailable); err != nil {
		t.Error(err)
	}
	close(draining)
	asking.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestThrottleFlags_RejectInvalidValues(t *testing.T) {
	files := newFiles(t)
	listen, cert, key := "--throttle-listen=127.0.0.1:0", "--throttle-cert="+files.ServerCert, "--throttle-key="+files.ServerKey
	tests := map[string]struct {
		flags   []string
		message string
	}{
		"no certificate":                   {[]string{listen}, "--throttle-listen requires --throttle-cert and --throttle-key"},
		"no key":                           {[]string{listen, cert}, "--throttle-listen requires --throttle-cert and --throttle-key"},
		"a certificate without address":    {[]string{cert, key}, "--throttle-cert and --throttle-key require --throttle-listen"},
		"a missing certificate file":       {[]string{listen, "--throttle-cert=/nowhere.pem", key}, "/nowhere.pem"},
		"a key of another certificate":     {[]string{listen, cert, "--throttle-key=" + files.ClientKey}, "--throttle-cert, --throttle-key: "},
		"a maximum wait that is too long":  {[]string{listen, cert, key, "--throttle-max-retry-after=2m"}, "--throttle-max-retry-after"},
		"a Redis timeout that is too long": {[]string{listen, cert, key, "--redis-timeout=751ms"}, "--redis-timeout 751ms is invalid with --throttle-listen: must be at most 750ms"},
		"more than 100 percent":            {[]string{listen, cert, key, "--throttle-warn-percent=101"}, "--throttle-warn-percent"},
	}
	for _, command := range [][]string{{"limiter"}, {"serve", "--policies", t.TempDir()}} {
		for name, test := range tests {
			t.Run(command[0]+": "+name, func(t *testing.T) {
				expectUsageError(t, append(command, test.flags...), test.message)
			})
		}
	}
}

func TestServe_RejectsRedisFlagsWithoutRedis(t *testing.T) {
	serve := []string{"serve", "--policies", t.TempDir()}
	expectUsageError(t, append(serve, "--redis-credentials=/secret"), "--redis-credentials and --redis-auth require --redis, which is empty")
	expectUsageError(t, append(serve, "--redis-ca=/ca.pem"), "require --redis, which is empty")
	expectUsageError(t, append(serve, "--memory=lots"), `--memory "lots"`)
}

// expectUsageError runs a command and expects a usage error with the message.
func expectUsageError(t *testing.T, args []string, message string) {
	t.Helper()
	root := rootCommand()
	root.SetArgs(append(slices.Clone(args), "--listen=127.0.0.1:0", "--grpc-listen=", "--ops-listen=127.0.0.1:0"))
	ctx, cancel := context.WithTimeout(t.Context(), patience) // ends the command if it serves
	defer cancel()
	err := root.ExecuteContext(ctx)
	if exit, is := errors.AsType[*cli.ExitError](err); !is || exit.Code != cli.ExitUsage || !strings.Contains(err.Error(), message) {
		t.Errorf("%v, want a usage error: %s", err, message)
	}
}

// TestThrottleFlags_HaveTheDefaultsOfTheLimiterAPI ensures that a limiter without the operator is as safe as one with the operator.
func TestThrottleFlags_HaveTheDefaultsOfTheLimiterAPI(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "weir.dev_limiters.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Description string            `json:"description"`
		Properties  map[string]schema `json:"properties"`
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	of := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["kubernetesThrottle"].Properties
	var got throttleFlags
	got.add(pflag.NewFlagSet("", pflag.ContinueOnError))
	for field, value := range map[string]string{"maxRetryAfter": got.maxRetryAfter.String(), "warnAt": strconv.Itoa(got.warnPercent) + "%"} {
		if !strings.HasSuffix(of[field].Description, "Defaults to "+value+".") {
			t.Errorf("the flag has the default %s, want the one of %s: %s", value, field, of[field].Description)
		}
	}
	if l := got.additional; len(l.Namespaces)+len(l.Users)+len(l.Groups) > 0 {
		t.Errorf("additional exemptions %+v, want none", l)
	}
}

func TestSheddingEngine_CountsWritesWithoutADecision(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := server.NewMetrics(registry)
	e := sheddingEngine{
		engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry())), // without rules
		metrics.Shed("throttle"), metrics.Failures("throttle"),
	}
	if _, err := e.Check(t.Context(), &engine.Check{Cost: 1}); err == nil {
		t.Fatal("a decision without rules")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "weir_failed_requests_total" {
			for _, m := range family.GetMetric() {
				counts[m.String()] = m.GetCounter().GetValue()
			}
		}
	}
	if len(counts) != 2 {
		t.Errorf("%d series, want one for each reason: %v", len(counts), counts)
	}
	for series, count := range counts {
		if unavailable := strings.Contains(series, `"unavailable"`); unavailable != (count == 1) {
			t.Errorf("%s counts %v", series, count)
		}
	}
}
