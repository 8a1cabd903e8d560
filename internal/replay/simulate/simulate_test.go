package simulate_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/internal/replay/report/chart"
	"github.com/weir-dev/weir/internal/replay/simulate"
	"github.com/weir-dev/weir/limiter/rules"
)

var update = flag.Bool("update", false, "write the pictures of the documentation")

const directory = "../../../config/scenarios"

// compiler compiles policies as weir serve does.
func compiler(t testing.TB) simulate.Compile {
	t.Helper()
	schema, err := apischema.New()
	if err != nil {
		t.Fatal(err)
	}
	loader := policyfile.NewLoader(compile.DefaultIdentity(), schema)
	return func(policies []byte) (rules.Set, error) {
		compiled := loader.Compile([]policyfile.File{{Name: "scenario", Content: policies}})
		for _, p := range compiled.Problems {
			return rules.Set{}, errors.New(p.String())
		}
		return compiled.Rules, nil
	}
}

// run simulates a scenario.
func run(t testing.TB, text []byte) *simulate.Result {
	t.Helper()
	s, err := simulate.Parse(text, compiler(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scenario returns the text of a scenario of the repository.
func scenario(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each scenario shows what its description states.
func TestScenarios_ShowWhatTheyDescribe(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, v []simulate.Outcome) bool{
		"boundary-burst": func(_ *testing.T, v []simulate.Outcome) bool {
			return v[0].MostInWindow == 200 && v[1].MostInWindow <= 115 && v[2].MostInWindow == 100
		},
		"token-and-leaky-bucket": func(_ *testing.T, v []simulate.Outcome) bool {
			return slices.Max(v[0].AdmittedOver) == 40 && slices.Max(v[1].AdmittedOver) == 1 && v[0].Denied+v[1].Denied == 0
		},
		"retries-at-the-reset": func(_ *testing.T, v []simulate.Outcome) bool {
			return slices.Max(v[0].Offered) > 10*slices.Max(v[1].Offered) && v[0].MostInWindow == 1200 && v[1].MostInWindow <= 660
		},
		"redis-unavailable": func(t *testing.T, v []simulate.Outcome) bool {
			during := func(v *simulate.Outcome) (offered, admitted int64) { // from 2m30s to 3m30s, in buckets of 1.5 s
				for i := 100; i < 140; i++ {
					offered, admitted = offered+v.Offered[i], admitted+v.AdmittedOver[i]
				}
				return offered, admitted
			}
			offered, inLocalMode := during(&v[0])
			_, withAllow := during(&v[1])
			_, withDeny := during(&v[2])
			t.Logf("%d requests in the outage: %d, %d and %d admitted", offered, inLocalMode, withAllow, withDeny)
			return inLocalMode >= 540 && inLocalMode <= 606 && withAllow == offered && withDeny == 0
		},
		"exact-and-leased": func(_ *testing.T, v []simulate.Outcome) bool {
			return v[1].RedisCalls*2 < v[0].RedisCalls && v[1].Admitted*100 > v[0].Admitted*98
		},
		"two-hundred-replicas": func(_ *testing.T, v []simulate.Outcome) bool { // from 1m30s to 2m30s
			return v[0].NeedlessDenials > 5000 && v[1].NeedlessDenials*4 < v[0].NeedlessDenials && v[0].MostInWindow <= 600 && v[1].MostInWindow <= 600
		},
		"rotating-addresses": func(_ *testing.T, v []simulate.Outcome) bool {
			return v[0].Denied == 0 && v[1].Denied > 10_000 && v[1].MostInWindow < 3100
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := scenario(t, name)
			r := run(t, text)
			if !check(t, r.Variants) {
				for i := range r.Variants {
					t.Errorf("%+v", r.Variants[i])
				}
			}
			comparePicture(t, name, r)
			if diff := cmp.Diff(r, run(t, text)); diff != "" {
				t.Errorf("the second run differs:\n%s", diff)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil || len(files) != 7 {
		t.Errorf("%d scenarios, %v: each needs a check", len(files), err)
	}
}

// comparePicture compares the picture of a result with that in the documentation.
func comparePicture(t *testing.T, name string, r *simulate.Result) {
	t.Helper()
	var got bytes.Buffer
	if err := chart.Standalone(&got, r.Picture()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("../../../docs/concepts/scenarios", name+".svg")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, got.Bytes()) {
		t.Errorf("the picture of %s in docs/concepts/scenarios is out of date (%v): run go test ./internal/replay/simulate -update", name, err)
	}
}

// small returns a scenario with more fields.
func small(fields string) []byte {
	return []byte(`
title: small
seed: 7
duration: 2m
policies:
- apiVersion: weir.dev/v1alpha1
  kind: RateLimitPolicy
  metadata: {name: per-address, namespace: shop}
  spec: {axis: IP, limit: 60, window: 1m, algorithm: SlidingWindowLog}
` + fields)
}

func TestRun_CountsWhatClientsSend(t *testing.T) {
	for name, c := range map[string]struct {
		fields            string
		requests, clients int64
	}{
		"steady":      {"clients: [{name: a, kind: Steady, count: 3, requestsPerSecond: 2}]", 720, 3},
		"bursty":      {"clients: [{name: a, kind: Bursty, burst: 5, every: 30s, from: 10s, to: 50s}]", 10, 1},
		"shared":      {"clients: [{name: a, kind: Steady, count: 3, shared: true, requestsPerSecond: 1}]", 360, 1},
		"of one name": {"clients: [{name: a, kind: Steady, requestsPerSecond: 1}, {name: a, kind: Steady, requestsPerSecond: 1}]", 240, 1},
		"rotating":    {"clients: [{name: a, kind: Rotating, requestsPerSecond: 1}]", 120, 120},
		"retries":     {"clients: [{name: a, kind: Bursty, burst: 61, every: 10m, retry: Fixed, retryDelay: 1s, retries: 3}]", 61 + 3, 1},
		"retry after": {"clients: [{name: a, kind: Bursty, burst: 61, every: 10m, retry: RetryAfter}]", 61 + 1, 1},
	} {
		o := run(t, small(c.fields)).Variants[0]
		if o.Requests != c.requests || o.Clients != c.clients || o.Admitted+o.Denied != o.Requests || o.MostInWindow > 60 || o.NeedlessDenials != 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestRun_RandomClientsDependOnTheSeed(t *testing.T) {
	fields := "clients: [{name: a, kind: Random, requestsPerSecond: 5}]"
	first, second := run(t, small(fields)), run(t, bytes.Replace(small(fields), []byte("seed: 7"), []byte("seed: 8"), 1))
	if n := first.Variants[0].Requests; n < 500 || n > 700 || cmp.Equal(first.Variants[0].Offered, second.Variants[0].Offered) {
		t.Errorf("%d requests, the same with another seed: %v", n, cmp.Equal(first.Variants[0].Offered, second.Variants[0].Offered))
	}
}

// A replica that is added during an outage learns of the others after a heartbeat, and then has its share. The units of the replicas that were there
// before, in their larger shares, are the rest.
func TestRun_ScalesReplicas(t *testing.T) {
	fields := "replicas: 2\nclients: [{name: a, kind: Steady, requestsPerSecond: 20}]\noutages: [{from: 10s, to: 110s}]\nscaling: [{at: 20s, replicas: 6}, {at: 90s, replicas: 1}]"
	o := run(t, small(fields)).Variants[0]
	if o.Admitted < 60 || o.Admitted > 220 || o.Requests != 2400 {
		t.Errorf("%+v", o)
	}
}

func TestParse_NamesWhatIsWrong(t *testing.T) {
	client := "clients: [{name: a, kind: Steady, requestsPerSecond: 1}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":        {"{", "the scenario is invalid"},
		"unknown field":  {string(small("client: []")), `the scenario is invalid: unknown field "client"`},
		"no title":       {"duration: 1m", "has no title"},
		"no duration":    {"title: a", "duration 0s is invalid: must be from 1s to 168h"},
		"a duration":     {"title: a\nduration: 1 minute", `"1 minute" is no duration: must be as 90s, 5m or 1h`},
		"no clients":     {string(small("")), "has no clients"},
		"kind":           {string(small("clients: [{name: a, kind: Slow}]")), `clients "a": kind "Slow" is invalid: must be Steady, Random, Bursty or Rotating`},
		"rate":           {string(small("clients: [{name: a, kind: Steady}]")), "requestsPerSecond 0 is invalid: it is required for Steady"},
		"burst":          {string(small("clients: [{name: a, kind: Bursty}]")), "burst 0 and every 0s are invalid: both are required"},
		"retry":          {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retry: Always}]")), `retry "Always" is invalid`},
		"delay":          {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retry: Fixed}]")), "retryDelay is required"},
		"to":             {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, from: 5m}]")), "to 2m0s is invalid: must be after from, which is 5m0s"},
		"outage":         {string(small(client + "outages: [{from: 1m, to: 30s}]")), "the outage from 1m0s must end later"},
		"scaling":        {string(small(client + "scaling: [{at: 1m, replicas: 0}]")), "replicas must be from 1 to 500, and is 0"},
		"replicas":       {string(small(client + "replicas: 501")), "replicas 501 is invalid: must be from 1 to 500"},
		"few replicas":   {string(small(client + "replicas: -1")), "replicas -1 is invalid: must be from 1 to 500"},
		"a late outage":  {string(small(client + "outages: [{from: 100h, to: 101h}]")), "the outage from 100h0m0s has no effect: the simulation ends at"},
		"late scaling":   {string(small(client + "scaling: [{at: 100h, replicas: 2}]")), "scaling at 100h0m0s has no effect: the simulation ends at"},
		"count":          {string(small("clients: [{name: a, kind: Steady, count: -5, requestsPerSecond: 1}]")), `clients "a": count -5 is invalid: must be at least 1`},
		"retries":        {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retries: -1}]")), "retries -1 is invalid"},
		"short":          {"title: a\nduration: 1ms", "duration 1ms is invalid: must be from 1s to 168h"},
		"escapes":        {"title: \"a\\e[31m\"", `title "a\x1b[31m" is invalid: must not have control characters`},
		"escapes of one": {string(small(client + "variants: [{name: \"a\\e\"}]")), `variant "a\x1b" is invalid: must not have control characters`},
		"variants":       {string(small(client + "variants: [{name: a}, {name: b}, {name: c}, {name: d}]")), "at most 3 variants"},
		"too many":       {string(small("clients: [{name: a, kind: Steady, count: 1000, requestsPerSecond: 1000}]")), "must be at most 5000000"},
		"clients":        {string(small("clients: [{name: a, kind: Steady, count: 100001, requestsPerSecond: 0.001}]")), "at most 100000 clients"},
		"invalid policy": {string(small(client + "variants: [{name: a, spec: {limit: -1}}]")), `variant "a": `},
	} {
		if _, err := simulate.Parse([]byte(c.text), compiler(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	s, err := simulate.Parse(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1000}]"), compiler(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
