# make help lists the targets with one line each.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
IMAGE ?= weir:$(VERSION)
# The compiler collects no garbage, which is a quarter of its CPU time, until one of its processes has 1.5 GiB of memory.
FAST := GOGC=off GOMEMLIMIT=1536MiB
# The same settings as those of make demo and make test, so that the go command compiles each package once.
BUILD := $(FAST) CGO_ENABLED=0 go build -ldflags '-X github.com/weir-dev/weir/cmd/internal/cli.version=$(VERSION)'
# The versions of the tools are pinned in hack/tools/go.mod. The go command builds the tools on first use and caches them.
TOOL := go tool -modfile=hack/tools/go.mod

# Without cgo, as make test, make build and the build of kube-apiserver, so that the go command compiles each package once. Vale needs cgo.
test-gateways verify mutate mutate-diff: export CGO_ENABLED = 0
lint: GOLANGCI_LINT = CGO_ENABLED=0 go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
# The same settings as those of make build and make test, so that the go command compiles each package once.
demo: export CGO_ENABLED = 0
demo: export WEIR_BIN = $(CURDIR)/bin
demo: ## Run Weir on this machine: from files, then with a real API server and Redis (DEMO=once: exit at the end)
	@echo 'Compiling the limiter. The first time takes two to three minutes on two cores.'
	@$(BUILD) -o bin/ ./cmd/weir
	@$(FAST) go build -o bin/demo-files ./hack/demo/files
	@bin/demo-files
	@printf '\n%s\n' 'Compiling the operator, and kube-apiserver unless it can be downloaded. The first time takes about seven minutes on two cores.'
	@$(BUILD) -o bin/ ./cmd/weir-operator
	@$(FAST) go build -o bin/demo ./hack/demo
	@exec bin/demo # not go run: after Ctrl-C it fails whatever the exit status of the demo

.PHONY: test
test: bin/test/runner ## Run the tests that need only Redis and kube-apiserver (15 minutes at first, later minutes; RACE=1: with the race detector)
	@exec bin/test/runner $(if $(RACE),-race) test $(PACKAGES)

.PHONY: test-all
test-all: bin/test/runner ## Run all tests: also with the race detector, on two API servers, in proxies, of manifests and under faults (40 minutes)
	@exec bin/test/runner test-all $(PACKAGES)

# make test and make test-all: the go command builds it again only if it changes. Not go run, which ends without waiting after Ctrl-C.
.PHONY: bin/test/runner
bin/test/runner:
	@echo 'Compiling the test runner.'
	@$(FAST) CGO_ENABLED=0 go build -buildvcs=false -o $@ ./hack/test

.PHONY: test-gateways
test-gateways: ## Test gateways, gRPC clients and pre-commit, whose programs come from Python wheels, Node.js, curl and nghttp (needs pip and npm)
	go test -tags gateways -count=1 -run Traefik ./test/proxies
	go test -tags gateways -count=1 -run Envoy ./test/redisservers
	go test -tags gateways -count=1 ./test/gateways ./test/grpcclients
	go test -tags gateways -count=1 -run PreCommit ./test/policyci

.PHONY: test-envoy-gateway
test-envoy-gateway: ## Test weir ratelimit in a real Envoy Gateway (needs root; builds it once, about ten minutes)
	@hack/envoygateway/test.sh

.PHONY: build
build: ## Build bin/weir: the limiter and the tools that need no cluster
	$(BUILD) -o bin/ ./cmd/weir

.PHONY: plugin
plugin: ## Build bin/kubectl-weir, the plugin of kubectl, and the link by which kubectl completes it
	$(BUILD) -o bin/ ./cmd/kubectl-weir
	ln -sf kubectl-weir bin/kubectl_complete-weir

##@ Develop

.PHONY: check
check: ## Compile what imports your change, then lint and test what you changed (about a minute; BASE=commit)
	@hack/check.sh

.PHONY: generate
generate: generate-api ## Generate code and CRDs from api/, the copies of manifests in the chart, and reference pages
	go run ./hack/dashboards # config/grafana
	hack/install.sh chart
	go run ./hack/apireference >docs/reference/api.md
	go test ./cmd/weir ./cmd/kubectl-weir ./cmd/weir-operator -run '^TestReference_' -update # docs/reference/commands.md, metrics.md and those of the other programs

.PHONY: generate-api
generate-api:
	rm -rf api/v1alpha1/applyconfiguration config/crd/bases
	$(TOOL) controller-gen object crd:crdVersions=v1 applyconfiguration paths=./api/... output:crd:dir=config/crd/bases
	go run ./hack/labelselectors config/crd/bases
	go run ./hack/policystructure config/crd/bases >internal/policyfile/structure/structure.json

.PHONY: go-module
go-module: ## Write the Go module that programs import to dist/go
	rm -rf dist/go
	go run ./hack/gomodule dist/go

.PHONY: fmt
fmt: ## Format the Go code
	$(TOOL) golangci-lint fmt

.PHONY: verify
verify: ## Check that generated files are current, the code is formatted and vetted, and each go.mod is tidy
	@hack/verify.sh

.PHONY: lint
lint: lint-words ## Run golangci-lint, the checks of words and links, and shellcheck if it is installed
	$(GOLANGCI_LINT) run ./...
	$(GOLANGCI_LINT)-kube-api-linter run --config=api/kube-api-linter.yml ./api/v1alpha1
	cd hack/bench && $(GOLANGCI_LINT) run ./...
	cd go/examples && $(GOLANGCI_LINT) run ./...
	cd test/conformance && $(GOLANGCI_LINT) run ./...
	cd test/gitops && $(GOLANGCI_LINT) run ./...
	cd test/gitops/argocd && $(GOLANGCI_LINT) run ./...
	cd hack/prose && $(GOLANGCI_LINT) run ./...
	@if command -v shellcheck >/dev/null; then set -x; shellcheck hack/*.sh hack/*/*.sh .ci/run; \
	else echo 'shellcheck is not installed, so the scripts are not checked. Run: apt-get install shellcheck'; fi

.PHONY: lint-words
lint-words: ## Check the words of docs, comments and messages with Vale, and the links of docs (hack/prose/README.md)
	go test -C hack/prose ./...
	hack/prose/prose.sh

.PHONY: bench
bench: ## Compare decisions in Redis with other rate limiters, and write docs/reference/performance.md (takes minutes; BENCH='-help' for flags)
	@go run -C hack/bench . -page ../../docs/reference/performance.md $(BENCH)

.PHONY: bench-endpoints
bench-endpoints: ## Measure the endpoints of a limiter, its capacity and its latency under load, and write docs/reference/performance.md (takes minutes; BENCH='-help' for flags)
	@go run -C hack/bench ./endpoints -page ../../docs/reference/performance.md -plot ../../docs/reference/latency-under-load.svg $(BENCH)

.PHONY: bench-golibraries
bench-golibraries: ## Compare go/weir with other Go libraries (takes a minute; BENCH='-help' for flags)
	@go run -C hack/bench ./golibraries $(BENCH)

.PHONY: bench-compare
bench-compare: ## Compare the endpoints of this tree with those of a revision (takes minutes; BASE=main; BENCH='-help' for flags)
	@go build -C hack/bench -o ../../bin/bench-compare ./compare
	@exec bin/bench-compare -base '$(BASE)' $(BENCH) # not go run, which replaces the exit code

.PHONY: bench-gateways
bench-gateways: ## Measure what a decision adds to the latency of Envoy, and write dist/bench-gateways.md (two minutes; needs pip)
	go test -tags gateways -run '^$$' -bench Envoy_AddedLatency -benchtime 1x ./test/gateways

.PHONY: bench-go
bench-go: ## Run the Go benchmarks
	go test -run '^$$' -bench . -benchmem ./limiter/... ./internal/...

.PHONY: reliability
reliability: ## Inject every fault of Redis under load and write docs/reference/outages.md (takes minutes; RELIABILITY='-help' for flags)
	@go run ./hack/prepare redis cc
	@go run ./hack/reliability $(RELIABILITY)

.PHONY: mutate
mutate: ## Change the code in small ways and check that a test fails for each (hours; MUTATE='./limiter/engine', MUTATE=-help)
	@go build -o bin/mutate ./hack/mutate
	@exec bin/mutate $(MUTATE)

.PHONY: mutate-diff
mutate-diff: ## The same for the lines that changed since the branch left main (DIFF=commit)
	@$(MAKE) mutate MUTATE='-diff $(or $(DIFF),main) $(MUTATE)'

.PHONY: compatibility
compatibility: ## Test on all supported versions of Redis, Valkey and Kubernetes, and write docs/reference/compatibility.md (takes minutes)
	@go run ./hack/prepare redis cc
	@go run ./hack/compatibility

.PHONY: soak
soak: ## Run the proofs, all faults of Redis and fuzzing for about an hour (WEIR_SOAK=30s FUZZTIME=5s for less)
	@hack/soak.sh

.PHONY: e2e
e2e: ## Test Weir end to end on a real cluster (about 15 minutes; KUBECONFIG=file IMAGE_LOAD='kind load image-archive')
	@hack/e2e.sh

.PHONY: e2e-envoy-gateway
e2e-envoy-gateway: ## Test Weir with Envoy Gateway on a real cluster, and run the tutorial (about 8 minutes; KUBECONFIG=file IMAGE_LOAD='kind load image-archive')
	@hack/e2e-envoy-gateway.sh

.PHONY: kube-assets
kube-assets: ## Download or build kube-apiserver, etcd and kubectl into the cache
	@go run ./hack/prepare kube

.PHONY: image
image: ## Build the container image (IMAGE=name:tag)
	docker build --build-arg VERSION=$(VERSION) --tag $(IMAGE) .

.PHONY: install-yaml
install-yaml: ## Write dist/install.yaml for kubectl apply (IMAGE=name:tag, or name@sha256:…)
	@hack/install.sh manifest '$(IMAGE)'

.PHONY: chart
chart: ## Update the copies of config/ in the Helm chart
	@hack/install.sh chart

.PHONY: clean
clean: ## Remove bin/; the caches of Go and of kube-apiserver stay
	rm -rf bin
