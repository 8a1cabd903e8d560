#!/usr/bin/env bash
# Runs the proofs for long, every fault of Redis, and fuzzing.
#   WEIR_SOAK=DURATION   how long each proof goes on (5m)
#   FUZZTIME=DURATION    how long each fuzz target goes on (1m)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export WEIR_SOAK=${WEIR_SOAK:-1}

go run ./hack/prepare redis cc # the compiler makes the clock that a fault is about
echo "soak: the proofs, each for ${WEIR_SOAK/#1/5m}"
go test -count=1 -timeout 6h -v ./test/proof/...
echo "soak: every fault of Redis"
go test -count=1 -timeout 1h -v ./test/reliability/...
echo "soak: writes to the Kubernetes API in a storm"
go run ./hack/prepare kube kube-controller-manager
go test -count=1 -timeout 30m -v -run ExemptLose ./test/kubernetes
packages=$(go list ./limiter/...)
for package in $packages; do
  targets=$(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
  for target in $targets; do
    echo "soak: $target of $package"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-1m}" "$package"
  done
done
echo "soak: all held"
