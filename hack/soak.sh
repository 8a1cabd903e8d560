#!/usr/bin/env bash
# Runs the long tests: the proofs, random histories, every fault of Redis, mutation tests, and fuzzing.
#   HISTORIES=NUMBER     number of random histories on each store (default: 10000)
#   WEIR_SOAK=DURATION   duration of each proof (default: 5m)
#   FUZZTIME=DURATION    duration of each fuzz target (default: 1m)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export WEIR_SOAK=${WEIR_SOAK:-1}

go run ./hack/prepare redis cc # the compiler builds the clock for the clock faults
echo "soak: proofs, each for ${WEIR_SOAK/#1/5m}"
go test -count=1 -timeout 6h -v ./test/proof/...
echo "soak: random histories on every store"
go test -count=1 -timeout 6h -run 'Histories|Conforms' ./limiter ./limiter/redisstore -rapid.checks "${HISTORIES:-10000}"
echo "soak: all faults of Redis"
go test -count=1 -timeout 1h -v ./test/reliability/...
echo "soak: a Limiter with 10 000 policies scales"
go test -count=1 -timeout 30m -v -run WritesNoPolicyStatusWhileALimiterScales ./controllers/ruleset
echo "soak: a storm of writes to the Kubernetes API"
go run ./hack/prepare kube kube-controller-manager
go test -count=1 -timeout 30m -v -run ExemptLose ./test/kubernetes
packages=$(go list ./limiter/... ./test/http2)
for package in $packages; do
  targets=$(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
  for target in $targets; do
    echo "soak: fuzz $target of $package"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-1m}" "$package"
  done
done
echo "soak: mutants"
make mutate
echo "soak: passed"
