// Package manifests pins the tools that check config/ and charts/: kustomize and helm, and the modules with the CRDs of cert-manager and
// Prometheus Operator, which a plain API server does not have.
package manifests

import (
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager"          // deploy/crds
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil" // example/prometheus-operator-crd
)
