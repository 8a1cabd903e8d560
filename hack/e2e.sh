#!/usr/bin/env bash
# Tests Weir end to end on a real cluster: make e2e. The cluster must not have Weir. The test removes everything it creates.
#   KUBECONFIG=FILE      the cluster
#   IMAGE_LOAD=COMMAND   the command that loads an image from docker onto the nodes: "kind load docker-image". The image name is appended
#   LAB=PATH             a program that runs a cluster on this machine, instead of KUBECONFIG and IMAGE_LOAD. Its commands: PATH up,
#                        PATH down, PATH exec COMMAND…, PATH image NAME:TAG BINARY, and PATH redis-image, which creates localhost/redis:7
#   E2E='-help'          flags of the test, for example -steps REGEXP
#   KEEP=1               leave everything in the cluster at the end
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${LAB:-} && (-z ${KUBECONFIG:-} || -z ${IMAGE_LOAD:-}) ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  echo 'e2e: no cluster: set KUBECONFIG and IMAGE_LOAD, or LAB' >&2
  exit 2
fi
read -ra flags <<<"${E2E:-}"

echo 'e2e: compiling'
work=bin/e2e # one directory per version, because the image expects the file name of its binary
mkdir -p "$work/next"
CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=e2e' -o "$work/weir" ./cmd/weir
CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=e2e-next' -o "$work/next/weir" ./cmd/weir
CGO_ENABLED=0 go build -trimpath -o "$work/load" ./test/cluster/load
go build -o "$work/e2e" ./test/cluster
HELM=$(go tool -modfile=hack/manifests/go.mod -n helm)
export HELM

if [[ ${LAB:-} ]]; then
  image() { "$LAB" image "docker.io/library/$1" "$2" >/dev/null; }
else
  image() { # image NAME:TAG BINARY
    read -ra load <<<"$IMAGE_LOAD"
    docker build --quiet --tag "$1" --file - "$(dirname "$2")" >/dev/null <<END
FROM scratch
COPY $(basename "$2") /
USER 65532:65532
ENTRYPOINT ["/$(basename "$2")"]
END
    "${load[@]}" "$1"
  }
fi

if [[ ${LAB:-} ]]; then
  # A cluster that answers was started before and stays up. A cluster that does not answer may have lost its processes in a reboot,
  # while its files remain. Remove the files first, because they look like a running cluster.
  if ! "$LAB" exec kubectl get --raw /readyz >/dev/null 2>&1; then
    if [[ -z ${KEEP:-} ]]; then trap '"$LAB" down' EXIT; fi
    "$LAB" down
    "$LAB" up
  fi
  "$LAB" redis-image >/dev/null
  flags=(-redis localhost/redis:7 ${flags[@]+"${flags[@]}"})
fi
image weir:e2e "$work/weir"
image weir:e2e-next "$work/next/weir"
image weir-load:e2e "$work/load"

if [[ ${LAB:-} ]]; then
  "$LAB" exec "$work/e2e" ${flags[@]+"${flags[@]}"}
else
  "$work/e2e" ${flags[@]+"${flags[@]}"}
fi
