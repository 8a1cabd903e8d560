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
	s, err := simulate.Parse(policyfile.File{Name: "s.yaml", Content: text}, compiler(t))
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

// An outage ends when all that overlap have ended, in whatever order they are listed.
func TestRun_OutagesOverlap(t *testing.T) {
	one := run(t, small("clients: [{name: a, kind: Steady, requestsPerSecond: 20}]\noutages: [{from: 10s, to: 90s}]")).Variants[0]
	for _, list := range []string{"{from: 10s, to: 60s}, {from: 30s, to: 90s}", "{from: 10s, to: 90s}, {from: 20s, to: 30s}", "{from: 60s, to: 90s}, {from: 10s, to: 60s}"} {
		several := run(t, small("clients: [{name: a, kind: Steady, requestsPerSecond: 20}]\noutages: ["+list+"]")).Variants[0]
		if diff := cmp.Diff(one, several); diff != "" {
			t.Errorf("%s (-one outage +several):\n%s", list, diff)
		}
	}
}

// A client that sends less than once in a simulation sends its first request.
func TestRun_RareRequests(t *testing.T) {
	for _, kind := range []string{"Steady", "Random", "Rotating"} {
		o := run(t, small("clients: [{name: a, kind: "+kind+", count: 3, requestsPerSecond: 0.0000000001}]")).Variants[0]
		if o.Requests > 1 {
			t.Errorf("%s: %d requests, want at most that of the first client", kind, o.Requests)
		}
	}
}

func TestParse_NamesWhatIsWrong(t *testing.T) {
	client := "clients: [{name: a, kind: Steady, requestsPerSecond: 1}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":        {"{", "s.yaml:1: did not find expected node content"},
		"unknown field":  {string(small("client: []")), `client: unknown field; did you mean clients?`},
		"no title":       {"duration: 1m", "title: is required"},
		"no duration":    {"title: a", "duration: is required"},
		"a duration":     {"title: a\nduration: 1 minute", `s.yaml:2: duration: must be a length of time such as 90s, 5m, 1h or 1d, and is "1 minute"; write duration: 1m`},
		"no clients":     {string(small("")), "clients: is required"},
		"kind":           {string(small("clients: [{name: a, kind: Slow}]")), `clients[0].kind: must be Steady, Random, Bursty or Rotating, and is "Slow"`},
		"rate":           {string(small("clients: [{name: a, kind: Steady}]")), "requestsPerSecond 0 is invalid: it is required for Steady"},
		"burst":          {string(small("clients: [{name: a, kind: Bursty}]")), "burst 0 and every 0s are invalid: both are required"},
		"retry":          {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retry: Always}]")), `clients[0].retry: must be Never, Fixed or RetryAfter, and is "Always"`},
		"delay":          {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retry: Fixed}]")), "retryDelay is required"},
		"to":             {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, from: 5m}]")), "to 2m0s is invalid: must be after from, which is 5m0s"},
		"outage":         {string(small(client + "outages: [{from: 1m, to: 30s}]")), "the outage from 1m0s must end later"},
		"scaling":        {string(small(client + "scaling: [{at: 1m, replicas: 0}]")), "scaling[0].replicas: must be at least 1, and is 0"},
		"replicas":       {string(small(client + "replicas: 501")), "replicas 501 is invalid: must be at most 500"},
		"few replicas":   {string(small(client + "replicas: -1")), "replicas: must be at least 1, and is -1"},
		"a late outage":  {string(small(client + "outages: [{from: 100h, to: 101h}]")), "the outage from 100h0m0s has no effect: the simulation ends at"},
		"late scaling":   {string(small(client + "scaling: [{at: 100h, replicas: 2}]")), "scaling at 100h0m0s has no effect: the simulation ends at"},
		"count":          {string(small("clients: [{name: a, kind: Steady, count: -5, requestsPerSecond: 1}]")), `clients[0].count: must be at least 1, and is -5`},
		"retries":        {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retries: -1}]")), "clients[0].retries: must be at least 1, and is -1"},
		"short":          {"title: a\nduration: 1ms\npolicies: []\nclients: []", "duration 1ms is invalid: must be from 1s to 168h"},
		"escapes":        {"title: \"a\\e[31m\"\nduration: 1m\npolicies: []\nclients: []", `title "a\x1b[31m" is invalid: must not have control characters`},
		"escapes of one": {string(small(client + "variants: [{name: \"a\\e\"}]")), `variant "a\x1b" is invalid: must not have control characters`},
		"variants":       {string(small(client + "variants: [{name: a}, {name: b}, {name: c}, {name: d}]")), "at most 3 variants"},
		"too many":       {string(small("clients: [{name: a, kind: Steady, count: 1000, requestsPerSecond: 1000}]")), "must be at most 5000000"},
		"clients":        {string(small("clients: [{name: a, kind: Steady, count: 100001, requestsPerSecond: 0.001}]")), "at most 100000 clients"},
		"no replica":     {string(small(client + "replicas: 0")), "replicas: must be at least 1, and is 0"},
		"no count":       {string(small("clients: [{name: a, kind: Steady, count: 0, requestsPerSecond: 1}]")), "clients[0].count: must be at least 1, and is 0"},
		"a rate as text": {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1/s}]")), `clients[0].requestsPerSecond: must be of type number, and is the string "1/s"`},
		"a seed":         {strings.Replace(string(small(client)), "seed: 7", "seed: -1", 1), "seed: must be at least 0, and is -1"},
		"other case":     {strings.Replace(string(small(client)), "title", "Title", 1), "Title: unknown field; did you mean title?"},
		"a path":         {strings.Replace(string(small(client)), "policies:", "policies:\n- policies.yaml", 1), `policies[0]: must be of type object, and is the string "policies.yaml"`},
		"an outage of":   {string(small(client + "outages: [{from: 1m, duration: 30s}]")), "outages[0].duration: unknown field"},
		"scaling when":   {string(small(client + "scaling: [{replicas: 2}]")), "scaling[0].at: is required"},
		"no effect":      {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, burst: 5}]")), "burst and every have no effect for Steady"},
		"no burst rate":  {string(small("clients: [{name: a, kind: Bursty, burst: 1, every: 1m, requestsPerSecond: 1}]")), "requestsPerSecond has no effect for Bursty"},
		"no retry":       {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, retries: 5}]")), "retryDelay and retries have no effect without retry"},
		"addresses":      {string(small("clients: [{name: a, kind: Rotating, requestsPerSecond: 1, shared: true}]")), "shared has no effect for Rotating"},
		"two variants":   {string(small(client + "variants: [{name: a}, {name: a}]")), `two variants have the name "a"`},
		"a variant":      {string(small(client + "variants: [{spec: {limit: 5}}]")), "variants[0].name: is required"},
		"two documents":  {string(small(client)) + "---\n" + string(small(client)), "a scenario is one document, and there are 2"},
		"a policy":       {"apiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\n", "a scenario has no kind, and this is a RateLimitPolicy: write it into the list policies"},
		"a text":         {"hello\n", `a document must be an object with the fields of a scenario, and is the string "hello"`},
		"a tab":          {"title: a\n\tseed: 1\n", "s.yaml:2: a tab"},
		"empty":          {"# later\n", "s.yaml: the file is empty"},
		"late clients":   {string(small("clients: [{name: a, kind: Steady, requestsPerSecond: 1, from: 100h, to: 101h}]")), `clients "a": from 100h0m0s has no effect`},
		"two namespaces": {strings.Replace(string(small(client)), "policies:\n", "policies:\n- {apiVersion: weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {name: b, namespace: other}, "+
			"spec: {axis: IP, limit: 1, window: 1m}}\n", 1), "the requests have the domain other, and the policies of namespace shop have no effect"},
		"invalid policy": {string(small(client + "variants: [{name: a, spec: {limit: -1}}]")), `variant "a": `},
	} {
		if _, err := simulate.Parse(policyfile.File{Name: "s.yaml", Content: []byte(c.text)}, compiler(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	s, err := simulate.Parse(policyfile.File{Name: "s.yaml", Content: small("clients: [{name: a, kind: Steady, requestsPerSecond: 1000}]")}, compiler(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
