#!/usr/bin/env bash
# Runs test/envoygateway in a network of its own: Envoy Gateway and Envoy use fixed ports, names and directories.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $(id -u) == 0 ]] || { echo "test.sh: needs root, for a network of its own" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=$(hack/envoygateway/programs.sh)
eval "$programs"
CGO_ENABLED=0 go build -o "$work/ratelimit" ./cmd/weir
CGO_ENABLED=0 go test -tags envoygateway -c -o "$work/test" ./test/envoygateway
export WEIR_BIN=$work
printf '127.0.0.1 localhost envoy-gateway envoy-ratelimit.envoy-gateway-system.svc.cluster.local\n' >"$work/hosts"
# Envoy reads the certificate authority of the rate limit service from /certs, as in a pod.
mkdir -p /certs
# shellcheck disable=SC2016 # the inner shell expands the arguments
unshare --net --mount bash -euc '
  ip link set lo up
  mount --bind "$1/hosts" /etc/hosts
  mount -t tmpfs tmpfs /certs
  cd test/envoygateway
  "$1/test" -test.v -test.timeout 5m "${@:2}"
' bash "$work" "$@"
