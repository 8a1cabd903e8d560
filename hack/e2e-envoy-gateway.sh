#!/usr/bin/env bash
# Tests Weir with a real Envoy Gateway on a real cluster: make e2e-envoy-gateway. The cluster must have neither. Runs docs/tutorials/envoy-gateway.md,
# then test/envoygateway/cluster: counts while limiters are replaced under load, and BackendTrafficPolicies with Weir as the rate limit service.
#   KUBECONFIG=FILE      the cluster
#   IMAGE_LOAD=COMMAND   the command that loads an archive with an image onto the nodes: "kind load image-archive". The file name is appended
#   LAB=PATH             a program that runs a cluster on this machine, as for hack/e2e.sh. Its further command: PATH load FILE
#   KEEP=1               leave everything in the cluster at the end
#   arguments            flags of the test, for example -test.run REGEXP; with arguments, the tutorial is not run
# The commands of the tutorial that the test replaces: those that create the cluster and the image, and helm install. Nothing is downloaded
# but Go modules and the Python wheel of Envoy, so Envoy Gateway is installed from the chart in its module, with images made here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${LAB:-} && (-z ${KUBECONFIG:-} || -z ${IMAGE_LOAD:-}) ]]; then
  sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  echo 'e2e-envoy-gateway: no cluster: set KUBECONFIG and IMAGE_LOAD, or LAB' >&2
  exit 2
fi

echo 'e2e-envoy-gateway: compiling'
work=$PWD/bin/e2e-envoy-gateway
mkdir -p "$work"
export CGO_ENABLED=0 # as make test, so that the go command compiles each package once
go build -ldflags '-X github.com/weir-dev/weir/cmd/internal/cli.version=tutorial' -o "$work" ./cmd/weir ./cmd/weir-operator ./cmd/kubectl-weir
go build -o "$work/load" ./test/cluster/load
go test -tags envoygatewaycluster -c -o "$work/test" ./test/envoygateway/cluster
go build -o "$work/tutorial" ./hack/tutorial
go build -o "$work/image" ./hack/image
HELM=$(go tool -modfile=hack/manifests/go.mod -n helm)
export HELM
programs=$(hack/envoygateway/programs.sh)
eval "$programs" # ENVOY_GATEWAY_BIN, ENVOY_BIN
module=$(cd hack/envoygateway && go list -m -f '{{.Dir}}' github.com/envoyproxy/gateway)

# The chart of a release: the version, and the values that the build of a release fills in.
version=v1.9.1
CHART=$work/chart
rm -rf "$CHART"
cp -r "$module/charts/gateway-helm" "$CHART"
chmod -R u+w "$CHART"
sed -i "s/v0.0.0-latest/$version/; s/\"latest\"/$version/" "$CHART/Chart.yaml"
# shellcheck disable=SC2016 # names in the template
sed 's|${GatewayImage}|docker.io/envoyproxy/gateway:'"$version"'|; s|${GatewayImagePullPolicy}|IfNotPresent|' "$CHART/values.tmpl.yaml" >"$CHART/values.yaml"
export CHART

if [[ ${LAB:-} ]]; then
  # As in hack/e2e.sh: a cluster that answers was started before and stays up.
  if ! "$LAB" exec kubectl get --raw /readyz >/dev/null 2>&1; then
    if [[ -z ${KEEP:-} ]]; then trap '"$LAB" down' EXIT; fi
    "$LAB" down
    "$LAB" up
  fi
fi
in_cluster() { if [[ ${LAB:-} ]]; then "$LAB" exec "$@"; else "$@"; fi; }
image() { # image NAME:TAG ARGUMENT…: as hack/image
  local archive=$work/image.tar
  "$work/image" -name "$1" -out "$archive" "${@:2}"
  if [[ ${LAB:-} ]]; then
    "$LAB" load "$archive" >/dev/null
  else
    read -ra load <<<"$IMAGE_LOAD"
    "${load[@]}" "$archive"
  fi
  rm "$archive"
}
echo 'e2e-envoy-gateway: images'
# Envoy Gateway starts its rate limit service as /bin/ratelimit, as the Dockerfile has it.
image docker.io/library/weir:tutorial -entrypoint /weir "$work/weir=/weir" "$work/weir-operator=/weir-operator" /bin/ratelimit@/weir
image docker.io/library/weir-load:e2e -entrypoint /load "$work/load=/load"
image docker.io/envoyproxy/gateway:$version -entrypoint /usr/local/bin/envoy-gateway "$ENVOY_GATEWAY_BIN=/usr/local/bin/envoy-gateway"
image docker.io/envoyproxy/envoy:e2e -libraries "$ENVOY_BIN=/usr/local/bin/envoy"
if [[ ${LAB:-} ]]; then # nothing can be pulled: images of the programs of this machine
  go run ./hack/prepare redis caddy
  image docker.io/library/redis:7 -libraries -entrypoint /redis-server "$(command -v redis-server)=/redis-server"
  image docker.io/library/caddy:2 -libraries "$(command -v caddy)=/usr/local/bin/caddy"
fi

status=0
if ! in_cluster kubectl get namespace envoy-gateway-system >/dev/null 2>&1; then
  # The chart has no field for the shutdown manager's image: it is that of Envoy Gateway.
  in_cluster "$HELM" install eg "$CHART" --namespace envoy-gateway-system --create-namespace --set global.images.envoyProxy.image=docker.io/envoyproxy/envoy:e2e
fi
if (($# == 0)); then
  echo 'e2e-envoy-gateway: the tutorial'
  in_cluster "$work/tutorial" -skip '^(git clone|make image|kind |helm install eg )' docs/tutorials/envoy-gateway.md || status=1
fi
echo 'e2e-envoy-gateway: the test'
(cd test/envoygateway/cluster && WEIR_BIN=$work in_cluster "$work/test" -test.v -test.timeout 10m "$@") || status=1
if [[ -z ${KEEP:-} ]]; then
  # Each also runs if another fails: a test that failed early has not installed everything.
  in_cluster kubectl delete namespace shop --ignore-not-found || status=1
  in_cluster kubectl delete gatewayclass envoy --ignore-not-found || status=1
  in_cluster kubectl delete limiters --all --all-namespaces || status=1
  in_cluster kubectl delete --ignore-not-found -f dist/install.yaml || status=1
  in_cluster "$HELM" uninstall eg --namespace envoy-gateway-system || status=1
  in_cluster kubectl delete namespace envoy-gateway-system --ignore-not-found || status=1
fi
exit "$status"
