#!/usr/bin/env bash
# Tests Weir on one Kubernetes version, and prints the result as the last line: "kubernetes VERSION passed|failed N tests".
#   hack/kubernetes.sh VERSION   for example v1.32.13. The first run builds kube-apiserver, which takes minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${1:?usage: hack/kubernetes.sh VERSION, for example v1.32.13}
export WEIR_TEST_KUBE=$version
go run ./hack/prepare kube redis
status=passed
events=$(mktemp)
trap 'rm -f "$events"' EXIT
# The CRDs, all controllers and webhooks, the manifests and the chart, and Weir as a whole.
go test -json -timeout 20m ./test/crd ./controllers/... ./webhook/... ./test/manifests ./test/e2e >"$events" || status=failed
# Output of failed tests only.
if [[ $status == failed ]]; then
  grep -E '"Action":"(output|build-output)"' "$events" | grep -E -- '--- FAIL|_test\.go:|FAIL|panic' | sed -E 's/.*"Output":"(.*)"\}$/\1/; s/\\n$//' >&2 || true
fi
echo "kubernetes $version $status $(grep -cE '"Action":"(pass|fail)".*"Test":' "$events") tests"
[[ $status == passed ]]
