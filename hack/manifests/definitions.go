// Package manifests pins what config/ and charts/ are checked with: kustomize and helm, and the modules that hold the
// definitions of the kinds that they may use and a bare API server does not know.
package manifests

import (
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager"          // deploy/crds
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil" // example/prometheus-operator-crd
)
