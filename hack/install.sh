#!/usr/bin/env bash
# Writes the files that install Weir.
#   hack/install.sh manifest IMAGE [FILE]   build config/default with IMAGE, which has a tag, a digest or both, and write it to FILE
#                                           (default: dist/install.yaml)
#   hack/install.sh chart                   update the copies of config/ in the Helm chart
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

manifest() { # manifest IMAGE FILE
  local image=$1 file=$2 name digest='' tag=''
  name=$image
  if [[ $name == *@* ]]; then
    digest=${name#*@}
    name=${name%%@*}
  fi
  if [[ ${name##*/} == *:* ]]; then # a colon before the last slash is a port
    tag=${name##*:}
    name=${name%:*}
  fi
  if [[ -z $name || ($digest && ! $digest =~ ^sha256:[0-9a-f]{64}$) || (-z $tag && -z $digest) || ! $tag =~ ^[A-Za-z0-9_.-]*$ ]]; then
    echo "install: invalid IMAGE \"$image\": must be name:tag, name@sha256:… with 64 hexadecimal digits, or name:tag@sha256:…" >&2
    return 2
  fi
  mkdir -p dist
  work=$(mktemp -d dist/.install-XXXXXX)
  trap 'rm -rf "$work"' EXIT
  # A kustomization accepts only relative paths to its bases.
  {
    printf '%s\n' 'apiVersion: kustomize.config.k8s.io/v1beta1' 'kind: Kustomization' 'resources: [../../config/default]' 'images:'
    printf -- '- name: weir\n  newName: "%s"\n' "$name"
    if [[ $tag ]]; then printf '  newTag: "%s"\n' "$tag"; fi
    if [[ $digest ]]; then printf '  digest: "%s"\n' "$digest"; fi
  } >"$work/kustomization.yaml"
  go tool -modfile=hack/manifests/go.mod kustomize build "$work" >"$work/install.yaml"
  mv "$work/install.yaml" "$file"
  echo "$file installs $image"
}

chart() {
  local files=charts/weir/files file
  rm -rf "$files"
  for file in config/crd/bases/*.yaml config/rbac/*.yaml config/operator/{disruption_budget,network_policy}.yaml config/prometheus/{alerts,token}.yaml \
    config/webhook/{configuration,service,role}.yaml config/webhook/cert-manager/certificate.yaml \
    config/restrict-webhooks/policy.yaml config/grafana/*.json; do
    if [[ ${file##*/} == kustomization.yaml ]]; then continue; fi
    mkdir -p "$files/$(dirname "${file#config/}")"
    cp "$file" "$files/${file#config/}"
  done
}

case ${1:-} in
  manifest) manifest "${2:-}" "${3:-dist/install.yaml}" ;;
  chart) chart ;;
  *)
    sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
