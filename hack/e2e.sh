#!/usr/bin/env bash
# Tests Weir end to end on a real cluster, and runs the tutorial there: make e2e. The cluster must not have Weir. The test removes everything it creates.
#   KUBECONFIG=FILE      the cluster
#   IMAGE_LOAD=COMMAND   the command that loads an archive with an image onto the nodes: "kind load image-archive". The file name is appended
#   LAB=PATH             a program that runs a cluster on this machine, instead of KUBECONFIG and IMAGE_LOAD. Its commands: PATH up,
#                        PATH down, PATH exec COMMAND…, PATH load FILE, PATH image NAME:TAG BINARY FILE…, and PATH redis-image, which creates localhost/redis:7
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
export CGO_ENABLED=0 # as make test, so that the go command compiles each package once
work=bin/e2e
mkdir -p "$work/this" "$work/next"
for version in this next; do
  go build -ldflags "-X github.com/weir-dev/weir/cmd/internal/cli.version=e2e-$version" -o "$work/$version" ./cmd/weir ./cmd/weir-operator
done
go build -o "$work/kubectl-weir" ./cmd/kubectl-weir
go build -o "$work/image" ./hack/image
go build -o "$work/load" ./test/cluster/load
go build -o "$work/e2e" ./test/cluster
go build -o "$work/tutorial" ./hack/tutorial
HELM=$(go tool -modfile=hack/manifests/go.mod -n helm)
export HELM

image() { # image NAME:TAG ARGUMENT…: as hack/image
  local archive=$work/image.tar
  "$work/image" -name "docker.io/library/$1" -out "$archive" "${@:2}"
  if [[ ${LAB:-} ]]; then
    "$LAB" load "$archive" >/dev/null
  else
    read -ra load <<<"$IMAGE_LOAD"
    "${load[@]}" "$archive"
  fi
  rm "$archive"
}
weir_image() { image "$1" -entrypoint /weir "$2/weir=/weir" "$2/weir-operator=/weir-operator"; } # weir_image NAME:TAG DIRECTORY

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
weir_image weir:e2e "$work/this"
weir_image weir:e2e-next "$work/next"
image weir-load:e2e -entrypoint /load "$work/load=/load"

in_cluster() { if [[ ${LAB:-} ]]; then "$LAB" exec "$@"; else "$@"; fi; }
in_cluster "$work/e2e" ${flags[@]+"${flags[@]}"}
if [[ ${E2E:-} ]]; then exit; fi # only some steps were wanted

echo 'e2e: the tutorial'
weir_image weir:tutorial "$work/this"
if [[ ${LAB:-} ]]; then # nothing can be pulled: images of the programs of this machine
  go run ./hack/prepare redis caddy
  for program in redis-server caddy; do
    path=$(command -v "$program") # not what it links to: the name decides what redis-server does
    mapfile -t libraries < <(ldd "$path" | grep -oE '/[^ ]+' | sort -u)
    case $program in
      redis-server) "$LAB" image docker.io/library/redis:7 "$path" "${libraries[@]}" >/dev/null ;;
      caddy) "$LAB" image docker.io/library/caddy:2 "$path" /usr/bin/caddy "${libraries[@]}" >/dev/null ;;
    esac
  done
fi
status=0
in_cluster "$work/tutorial" -skip '^(git clone|make image|kind )' docs/tutorials/first-policy.md || status=1
if [[ -z ${KEEP:-} ]]; then # as docs/how-to/upgrade-and-uninstall.md describes it
  # Each also runs if another fails: a tutorial that failed early has not installed everything.
  in_cluster kubectl delete limiters --all --all-namespaces || status=1
  in_cluster kubectl delete namespace shop --ignore-not-found || status=1
  in_cluster kubectl delete --ignore-not-found -f dist/install.yaml || status=1
fi
exit "$status"
