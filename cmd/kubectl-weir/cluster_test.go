package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-dev/weir/controllers/adminproxy"
	"github.com/weir-dev/weir/limiter/admin"
)

func TestCallerHeader_IsTheOneThatLimitersRead(t *testing.T) {
	if adminproxy.CallerHeader != admin.CallerHeader {
		t.Errorf("the operator sends %s, and limiters read %s", adminproxy.CallerHeader, admin.CallerHeader)
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
		_, _, err := flags.Request(context.Background(), http.MethodGet, "/admin/v1/rules", nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
