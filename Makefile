# Every target says in one line what it does: make help.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
IMAGE ?= weir:$(VERSION)
# Tools are pinned in a module of their own; the go command builds and caches them.
TOOL := go tool -modfile=hack/tools/go.mod

##@ For everybody

.PHONY: help
help: ## Say what the targets do
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
# For all that it builds, so that packages are compiled once.
demo: export CGO_ENABLED = 0
demo: ## Show Weir at work on a real API server and Redis (DEMO=once: show it and end)
	@echo 'Compiling (a first run takes minutes, and some more for kube-apiserver)'
	@go build -o bin/demo ./hack/demo
	@exec bin/demo # not go run, which fails after Ctrl-C whatever the demo says

.PHONY: test
test: ## Run every test: unit, conformance, CRDs on a real API server, end to end
	@hack/test.sh

.PHONY: build
build: ## Build bin/weir
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/weir ./cmd/weir

##@ For who changes it

.PHONY: generate
generate: ## Write the code and manifests that are made from api/ and controllers/
	rm -rf api/v1alpha1/applyconfiguration config/crd/bases
	$(TOOL) controller-gen object crd:crdVersions=v1 applyconfiguration paths=./api/... output:crd:dir=config/crd/bases
	@if grep -rqs '^// +kubebuilder:rbac:' controllers; then set -x; \
	$(TOOL) controller-gen rbac:roleName=weir-operator paths=./controllers/... output:rbac:dir=config/rbac; fi
	hack/install.sh chart
	go run ./hack/apireference >docs/reference/api.md

.PHONY: fmt
fmt: ## Format the Go code as make lint wants it
	$(TOOL) golangci-lint fmt

.PHONY: verify
verify: ## Fail when generated files, format, go vet or a go.mod are not as they should be
	@hack/verify.sh

.PHONY: lint
lint: ## Run golangci-lint, and shellcheck where it is installed
	$(TOOL) golangci-lint run ./...
	cd hack/bench && go tool -modfile=../tools/go.mod golangci-lint run ./...
	cd test/gitops && go tool -modfile=../../hack/tools/go.mod golangci-lint run ./...
	cd test/gitops/argocd && go tool -modfile=../../../hack/tools/go.mod golangci-lint run ./...
	cd hack/prose && go tool -modfile=../tools/go.mod golangci-lint run ./...
	@if command -v shellcheck >/dev/null; then set -x; shellcheck hack/*.sh .ci/run; \
	else echo 'shellcheck is not installed: the scripts are not checked (Debian, Ubuntu: apt-get install shellcheck)'; fi

.PHONY: lint-words
lint-words: ## Check the words of docs, comments and messages with Vale, and the links of docs (hack/prose/README.md)
	go test -C hack/prose ./...
	hack/prose/prose.sh

.PHONY: bench
bench: ## Measure decisions in Redis beside what else decides there (some minutes; BENCH='-help' for flags)
	@go run -C hack/bench . $(BENCH)

.PHONY: bench-endpoints
bench-endpoints: ## Measure the endpoints of a limiter and compare with servers that answer without deciding (takes minutes; BENCH='-help' for flags)
	@go run -C hack/bench ./endpoints $(BENCH)

.PHONY: bench-go
bench-go: ## Run the Go benchmarks of single functions
	go test -run '^$$' -bench . -benchmem ./limiter/... ./internal/...

.PHONY: reliability
reliability: ## Break Redis in every way under load and write docs/reference/outages.md (some minutes; RELIABILITY='-help' for flags)
	@go run ./hack/prepare redis cc
	@go run ./hack/reliability $(RELIABILITY)

.PHONY: soak
soak: ## Run the proofs for long, and fuzzing (about an hour; WEIR_SOAK=30s FUZZTIME=5s for less)
	@hack/soak.sh

.PHONY: e2e
e2e: ## Run Weir end to end on a real cluster (some 9 minutes; KUBECONFIG=file IMAGE_LOAD='kind load docker-image')
	@hack/e2e.sh

.PHONY: kube-assets
kube-assets: ## Get kube-apiserver, etcd and kubectl into the cache (downloads or builds them, once)
	@go run ./hack/prepare kube

.PHONY: image
image: ## Build the container image (IMAGE=name:tag)
	docker build --build-arg VERSION=$(VERSION) --tag $(IMAGE) .

.PHONY: install-yaml
install-yaml: ## Write dist/install.yaml, all that kubectl applies to install Weir (IMAGE=name:tag, or name@sha256:…)
	@hack/install.sh manifest '$(IMAGE)'

.PHONY: chart
chart: ## Bring the chart's copies of manifests up to date with config/
	@hack/install.sh chart

.PHONY: clean
clean: ## Remove what was built here; the caches of Go and of the API server stay
	rm -rf bin
