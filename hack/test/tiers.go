package main

import (
	"slices"
	"strings"
)

// modulePath is the prefix of the import paths of this module.
const modulePath = "github.com/weir-dev/weir/"

// The targets of make. Each runs a tier of the packages.
const (
	targetTest    = "test"     // what proves a promise on a real Redis and a real kube-apiserver
	targetTestAll = "test-all" // everything
)

// onlyTestAll returns the packages that only make test-all tests, with the reason. make test tests all others. test/README.md has the same
// tiers, which TestTiers_AreThoseOfThePage checks.
func onlyTestAll() map[string]string {
	return map[string]string{
		"test/contributing": "compiles the programs with the edits of each page",
		"test/dashboards":   "needs Prometheus, and proves what Grafana shows",
		"test/gomodule":     "downloads the oldest versions of the libraries, and builds five programs",
		"test/kubernetes":   "needs kube-controller-manager and two API servers, and measures latency",
		"test/manifests":    "needs kustomize, helm, kube-score and promtool, and proves the chart and the manifests",
		"test/permissions":  "needs helm, and proves the permissions that the chart grants",
		"test/proxies":      "needs nginx, HAProxy and Caddy, and proves their configurations",
		"test/redisservers": "needs HAProxy, stunnel and twemproxy, and stops and starts Redis in twelve setups",
		"test/reliability":  "measures what clients notice of each fault of Redis, alone on the machine",
	}
}

// modules returns the folders of the other modules with tests. Only make test-all tests them: they prove that Weir fits other programs.
func modules() []string {
	return []string{"go/examples", "hack/bench", "test/conformance", "test/gitops", "test/gitops/argocd"}
}

// isTimed reports whether a package measures latency, so that it runs alone.
func isTimed(pkg string) bool { return pkg == "test/reliability" }

// isPartlyTimed reports whether the last tests of a package measure latency. They wait until no other package runs, see latency.Alone.
func isPartlyTimed(pkg string) bool {
	return slices.Contains([]string{"limiter/redisclient/identity", "limiter/redisstore", "test/kubernetes"}, pkg)
}

// isConcurrent reports whether a package runs with the race detector. The others have no concurrent code, or run it in separate processes.
func isConcurrent(pkg string) bool {
	return slices.ContainsFunc([]string{"limiter", "controllers", "cmd", "webhook", "go"}, func(folder string) bool {
		return pkg == folder || strings.HasPrefix(pkg, folder+"/")
	})
}

// tierOf returns the smallest target that tests a package of this module.
func tierOf(pkg string) string {
	if _, later := onlyTestAll()[pkg]; later {
		return targetTestAll
	}
	return targetTest
}

// inTier reports whether a target tests a package of this module.
func inTier(target, pkg string) bool { return target == targetTestAll || tierOf(pkg) == targetTest }

// short returns an import path without the module.
func short(importPath string) string { return strings.TrimPrefix(importPath, modulePath) }
