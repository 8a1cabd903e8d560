package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// fakeOperator serves answer, and returns the flags to call it.
func fakeOperator(t *testing.T, answer string) *clusterFlags {
	t.Helper()
	return operatorThat(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
}

// operatorThat serves requests, and returns the flags to call it.
func operatorThat(t *testing.T, serves http.HandlerFunc) *clusterFlags {
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
	return &clusterFlags{limiter: "a/b", kubeconfig: kubeconfig, operatorNamespace: "a", operator: s.URL, operatorCA: ca}
}
