package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/controllers/adminproxy"
	"github.com/weir-dev/weir/limiter/admin"
)

func TestCallerHeader_IsTheOneThatLimitersRead(t *testing.T) {
	if adminproxy.CallerHeader != admin.CallerHeader {
		t.Errorf("the operator sends %s, and limiters read %s", adminproxy.CallerHeader, admin.CallerHeader)
	}
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
	f := adminClientFlags{address: strings.TrimPrefix(from.URL, "http://"), tokenFile: token}
	err := f.call(t.Context(), http.MethodGet, "/admin/v1/rules", nil, &struct{}{})
	if err == nil || !strings.Contains(err.Error(), "the admin endpoint answers 307 Temporary Redirect") || stolen != "" {
		t.Errorf("%v; another server got %q", err, stolen)
	}
}

func TestSplitAnswer_NamesReplicasThatDoNotAnswer(t *testing.T) {
	ok, no := json.RawMessage(`{"revision":"a"}`), json.RawMessage(`{"detail":"no rules are loaded yet"}`)
	for _, test := range []struct {
		replicas  []adminproxy.Replica
		want      []string
		notes     string
		wantError string
	}{
		{[]adminproxy.Replica{{Pod: "x", Status: 200, Body: ok}, {Pod: "y", Status: 200, SameAs: "x"}}, []string{"x a", "y a"}, "", ""},
		{
			[]adminproxy.Replica{{Pod: "x", Error: "the pod is starting"}, {Pod: "y", Status: 503, Body: no}, {Pod: "z", Status: 200, Body: ok}},
			[]string{"z a"},
			"replica x does not answer: the pod is starting\nsome replicas answer with an error: no rules are loaded yet\n", "",
		},
		{[]adminproxy.Replica{{Pod: "x", Status: 503, Body: no}, {Pod: "y", Status: 503, SameAs: "x"}}, nil, "", "no rules are loaded yet"},
		{[]adminproxy.Replica{{Pod: "x", Error: "refused"}}, nil, "replica x does not answer: refused\n", "no replica of Limiter a/b answers"},
	} {
		var notes bytes.Buffer
		answers, missing, err := splitAnswer[admin.RuleSet](&adminproxy.Answer{Limiter: "a/b", Replicas: test.replicas}, &notes)
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

func TestClusterFlags_RejectWhatCannotWork(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := func(name, user string) string {
		path := filepath.Join(dir, name)
		text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
			"contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\nusers: [{name: u, user: {" + user + "}}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := kubeconfig("plain", "token: t")
	for want, flags := range map[string]clusterFlags{
		"read the kubeconfig: stat /none: no such file or directory":                 {kubeconfig: "/none", limiter: "a/b"},
		`read the kubeconfig: context "none" does not exist`:                         {kubeconfig: plain, context: "none", limiter: "a/b"},
		"the kubeconfig impersonates a user, which the operator does not support":    {kubeconfig: kubeconfig("as", "token: t, as: jane"), limiter: "a/b"},
		`--limiter "a/b/c" is invalid: must be namespace/name`:                       {kubeconfig: plain, limiter: "a/b/c"},
		`--limiter "" is invalid: must be namespace/name`:                            {kubeconfig: plain, operatorNamespace: "weir-system"},
		`--operator "http://x" is invalid: must be an https URL`:                     {kubeconfig: plain, limiter: "a/b", operator: "http://x"},
		"the operator does not answer: dial tcp 127.0.0.1:1: connect: connection re": {kubeconfig: plain, limiter: "a/b", operator: "https://127.0.0.1:1"},
		"find the operator: ": {kubeconfig: plain, limiter: "a/b"},
	} {
		_, _, err := askCluster[admin.RuleSet](context.Background(), &flags, http.MethodGet, "/admin/v1/rules", nil, &bytes.Buffer{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
