package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/clitest"
	"github.com/weir-dev/weir/controllers/adminproxy/proxyapi"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

// replicas are the replicas of a Limiter whose operator serves the function.
type replicas http.HandlerFunc

// answering returns replicas whose operator answers each request with text.
func answering(text string) replicas {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func (replicas) AddFlags(*cobra.Command) {}

func (replicas) Selected() error { return nil }

func (r replicas) Request(ctx context.Context, method, path string, in []byte) (*http.Response, func(), error) {
	recorder := httptest.NewRecorder()
	r(recorder, httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(in)))
	return recorder.Result(), func() {}, nil
}

func (replicas) Replicated() bool { return true }

func (replicas) Keep() (end func()) { return func() {} }

func (replicas) Policies(context.Context) []string { return nil }

func (replicas) String() string { return "the operator" }

// runAsking runs a command line that asks limiters, and returns its exit status. Without limiters, the flag --admin selects a process.
func runAsking(t *testing.T, limiters Limiters, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "weir"}
	root.AddCommand(Commands(func() Limiters {
		if limiters == nil {
			return &Process{}
		}
		return limiters
	})...)
	return clitest.Run(cli.Complete(root), "", args...)
}

func TestCall_RefusesRedirects(t *testing.T) {
	var stolen string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	from := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Process{Address: strings.TrimPrefix(from.URL, "http://"), TokenFile: token}
	_, err := call[admin.RuleSet](t.Context(), p, http.MethodGet, "/admin/v1/rules", nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the admin endpoint answers 307 Temporary Redirect") || stolen != "" {
		t.Errorf("%v; another server got %q", err, stolen)
	}
}

func TestSplit_NamesReplicasThatDoNotAnswer(t *testing.T) {
	ok, no := json.RawMessage(`{"revision":"a"}`), json.RawMessage(`{"detail":"no rules are loaded yet"}`)
	for _, test := range []struct {
		replicas  []proxyapi.Replica
		want      []string
		notes     string
		wantError string
	}{
		{[]proxyapi.Replica{{Pod: "x", Status: 200, Body: ok}, {Pod: "y", Status: 200, SameAs: "x"}}, []string{"x a", "y a"}, "", ""},
		{
			[]proxyapi.Replica{{Pod: "x", Error: "the pod is starting"}, {Pod: "y", Status: 503, Body: no}, {Pod: "z", Status: 200, Body: ok}},
			[]string{"z a"},
			"replica x does not answer: the pod is starting\nsome replicas answer with an error: no rules are loaded yet\n", "",
		},
		{[]proxyapi.Replica{{Pod: "x", Status: 503, Body: no}, {Pod: "y", Status: 503, SameAs: "x"}}, nil, "", "no rules are loaded yet"},
		{[]proxyapi.Replica{{Pod: "x", Error: "refused"}}, nil, "replica x does not answer: refused\n", "no replica of Limiter a/b answers"},
	} {
		var notes bytes.Buffer
		answers, missing, err := split[admin.RuleSet](&proxyapi.Answer{Limiter: "a/b", Replicas: test.replicas}, &notes)
		var got []string
		for _, a := range answers {
			got = append(got, a.replica+" "+a.value.Revision)
		}
		if !slices.Equal(got, test.want) || len(got)+len(missing) != len(test.replicas) || notes.String() != test.notes || (err == nil) != (test.wantError == "") || err != nil && err.Error() != test.wantError {
			t.Errorf("%+v: %q, notes %q, %v", test.replicas, got, notes.String(), err)
		}
	}
}

func TestMergeCounters_AddsTheSharesOfReplicas(t *testing.T) {
	counter := func(key string, used int64, local bool) admin.Counter {
		return admin.Counter{Key: key, Limit: 5, Used: used, Remaining: 5 - used, Over: used == 5, Local: local}
	}
	got := mergeCounters([]replicaAnswer[[]admin.Counter]{
		{"x", []admin.Counter{counter("local", 5, true), counter("redis", 4, false), counter("both", 3, true), counter("idle", 0, true), counter("here", 0, true)}},
		{"y", []admin.Counter{counter("local", 4, true), counter("redis", 4, false), counter("both", 4, false), counter("idle", 0, true), counter("here", 1, true)}},
	}, func(c []admin.Counter) []admin.Counter { return c })
	want := []admin.Counter{
		{Key: "local", Limit: 10, Used: 9, Remaining: 1, Local: true},
		counter("redis", 4, false), counter("both", 4, false),
		{Key: "here", Limit: 10, Used: 1, Remaining: 9, Local: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAdminClient_StatesWhatToDo(t *testing.T) {
	for args, want := range map[string]string{
		"rules":                                        "--admin is required: set it to the --admin-listen of a limiter. To ask the limiters of a cluster, use kubectl weir",
		"rules --admin unix:/nowhere":                  "does not answer: dial unix /nowhere: connect: no such file or directory; start the limiter with --admin-listen",
		"rules --admin 127.0.0.1:1 -o xml":             `--output "xml" is invalid`,
		"rules --admin a:b":                            `--admin "a:b" is invalid`,
		"explain --domain shop":                        "set --policies to explain with policies in files, or --admin for those of a limiter",
		"explain --policies a --admin b --domain shop": "--policies and --admin exclude each other",
	} {
		if _, _, stderr := runAsking(t, nil, strings.Fields(args)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: %s, want %q", args, stderr, want)
		}
	}
}

// The token must not leave the machine unencrypted.
func TestAdminClient_SendsTheTokenToThisMachineOnly(t *testing.T) {
	for _, address := range []string{"192.0.2.2:9091", "weir.example:9091", "localhost:9091", ":9091", "%"} {
		p := &Process{Address: address, TokenFile: "/nonexistent"}
		_, err := call[admin.RuleSet](t.Context(), p, http.MethodGet, "/admin/v1/rules", nil, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "must be unix:PATH, or a loopback address and a port") {
			t.Errorf("%s: %v, want an error about the address", address, err)
		}
	}
}

// While Redis is unavailable, each replica has its own share.
func TestResetCounters_FailsIfAReplicaDoesNotConfirm(t *testing.T) {
	f := answering(`{"limiter":"a/b","replicas":[
		{"pod":"x","status":200,"body":{"identifier":"acme","counters":[{"policy":"p","identifier":"acme","key":"k","used":2,"limit":2,"local":true}]}},
		{"pod":"y","status":503,"body":{"detail":"the counters may not be reset: timeout"}},
		{"pod":"z","error":"no answer within 5s"}]}`)
	for _, isDryRun := range []bool{false, true} {
		var out, errs bytes.Buffer
		request := &adminapi.ResetRequest{Policy: "p", Identifier: "acme", Reason: "r", DryRun: isDryRun}
		err := resetCounters(t.Context(), f, nil, request, "json", cli.Streams{Out: &out, Err: &errs})
		if isFailed := err != nil && strings.HasSuffix(err.Error(), "may not be reset: y, z"); isFailed == isDryRun || !strings.Contains(out.String(), `"acme"`) {
			t.Errorf("dry run %v: %v, stdout %s, stderr %s", isDryRun, err, out.String(), errs.String())
		}
	}
}

// A compromised limiter must not write to the terminal of the user.
func TestResetCounters_EscapesTheErrorsOfReplicas(t *testing.T) {
	const osc = `\u001b]0;owned\u0007\u001b[2J`
	f := answering(`{"limiter":"a/b","replicas":[{"pod":"x","status":503,"body":{"detail":"` + osc + `"}},{"pod":"y","error":"` + osc + `"}]}`)
	var out, errs bytes.Buffer
	err := resetCounters(t.Context(), f, nil, &adminapi.ResetRequest{Policy: "p", Identifier: "acme", Reason: "r"}, "table", cli.Streams{Out: &out, Err: &errs})
	if err == nil || strings.Contains(err.Error()+errs.String(), "\x1b") || !strings.Contains(err.Error(), "owned") {
		t.Errorf("%v, stderr %q", err, errs.String())
	}
}
