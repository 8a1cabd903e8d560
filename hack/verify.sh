#!/usr/bin/env bash
# Fails when the tree is not what its own tools make of it. It changes nothing: what is generated is generated in a copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=()

step() { # step NAME COMMAND...: COMMAND prints what is wrong and fails, or is quiet. Within it set -e does not work.
  local name=$1
  shift
  printf 'verify: %s\n' "$name"
  "$@" || failed+=("$name")
}

sources() { # sources [PATTERN...]: the files of the tree, each with a NUL behind it
  local path
  git ls-files -z --cached --others --exclude-standard "$@" | while IFS= read -r -d '' path; do
    if [[ -e $path ]]; then printf '%s\0' "$path"; fi # a file deleted but not yet committed is listed, too
  done
}

generated() { # the same as make generate would write
  local copy status=0
  copy=$(mktemp -d) || return
  mkdir "$copy/is" "$copy/made"
  if ! sources | tar --null --files-from=- -cf - | tar -xf - -C "$copy/is" || ! cp -R "$copy/is/." "$copy/made"; then
    status=1
  elif ! make --no-print-directory -C "$copy/made" generate >"$copy/log" 2>&1; then
    cat "$copy/log"
    status=1
  elif ! (cd "$copy" && diff -ruN is made); then
    echo "run: make generate"
    status=1
  fi
  rm -rf "$copy"
  return "$status"
}

formatted() {
  local files
  files=$(sources '*.go' | xargs -0 gofmt -l) || return
  [[ -z $files ]] || { printf 'not formatted, run gofmt -w on: %s\n' "$files"; return 1; }
}

step "generated code and manifests" generated
step "gofmt" formatted
step "go vet" go vet ./...
for module in hack/bench hack/prose test/gitops test/gitops/argocd; do
  step "go vet in $module" go -C "$module" vet ./...
done
for module in . hack/tools hack/kube hack/bench hack/prose hack/manifests hack/score test/gitops; do
  step "go mod tidy in $module" go -C "$module" mod tidy -diff
done

if ((${#failed[@]})); then
  printf 'verify: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "verify: all is as it should be"
