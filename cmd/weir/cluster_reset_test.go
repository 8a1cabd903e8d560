package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/limiter/admin"
)

// fakeOperator serves answer, and returns the flags to call it.
func fakeOperator(t *testing.T, answer string) *adminClientFlags {
	t.Helper()
	return operatorThat(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
}

// operatorThat serves requests, and returns the flags to call it.
func operatorThat(t *testing.T, serves http.HandlerFunc) *adminClientFlags {
	t.Helper()
	s := httptest.NewTLSServer(serves)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca, kubeconfig := filepath.Join(dir, "ca"), filepath.Join(dir, "config")
	for path, text := range map[string]string{
		ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
		kubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
			"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: a, user: {token: secret}}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &adminClientFlags{cluster: clusterFlags{limiter: "a/b", kubeconfig: kubeconfig, operatorNamespace: "a", operator: s.URL, operatorCA: ca}}
}

// While Redis is unavailable, each replica has its own share.
func TestResetCounters_FailsIfAReplicaDoesNotConfirm(t *testing.T) {
	f := fakeOperator(t, `{"limiter":"a/b","replicas":[
		{"pod":"x","status":200,"body":{"identifier":"acme","counters":[{"policy":"p","identifier":"acme","key":"k","used":2,"limit":2,"local":true}]}},
		{"pod":"y","status":503,"body":{"detail":"the counters may not be reset: timeout"}},
		{"pod":"z","error":"no answer within 5s"}]}`)
	for _, isDryRun := range []bool{false, true} {
		var out, errs bytes.Buffer
		request := &admin.ResetRequest{Policy: "p", Identifier: "acme", Reason: "r", DryRun: isDryRun}
		err := resetCounters(t.Context(), f, nil, request, "json", streams{nil, &out, &errs})
		if isFailed := err != nil && strings.HasSuffix(err.Error(), "may not be reset: y, z"); isFailed == isDryRun || !strings.Contains(out.String(), `"acme"`) {
			t.Errorf("dry run %v: %v, stdout %s, stderr %s", isDryRun, err, out.String(), errs.String())
		}
	}
}

// A compromised limiter must not write to the terminal of the user.
func TestResetCounters_EscapesTheErrorsOfReplicas(t *testing.T) {
	const osc = `\u001b]0;owned\u0007\u001b[2J`
	f := fakeOperator(t, `{"limiter":"a/b","replicas":[{"pod":"x","status":503,"body":{"detail":"`+osc+`"}},{"pod":"y","error":"`+osc+`"}]}`)
	var out, errs bytes.Buffer
	err := resetCounters(t.Context(), f, nil, &admin.ResetRequest{Policy: "p", Identifier: "acme", Reason: "r"}, "table", streams{nil, &out, &errs})
	if err == nil || strings.Contains(err.Error()+errs.String(), "\x1b") || !strings.Contains(err.Error(), "owned") {
		t.Errorf("%v, stderr %q", err, errs.String())
	}
}
