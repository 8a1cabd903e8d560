#!/usr/bin/env bash
# Checks that generated files are current, the code is formatted and vetted, and each go.mod is tidy. It does not change the tree: it
# generates files in a copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=()

# step NAME COMMAND...: runs COMMAND, which prints the problem and fails, or prints nothing. In COMMAND, set -e has no effect.
step() {
  local name=$1
  shift
  printf 'verify: %s\n' "$name"
  "$@" || failed+=("$name")
}

# sources [PATTERN...]: prints the files of the tree, each followed by a NUL.
sources() {
  local path
  git ls-files -z --cached --others --exclude-standard "$@" | while IFS= read -r -d '' path; do
    if [[ -e $path ]]; then printf '%s\0' "$path"; fi # git also lists a file that is deleted but not committed
  done
}

# generated: checks that make generate changes nothing.
generated() {
  local copy status=0
  copy=$(mktemp -d) || return
  mkdir "$copy/current" "$copy/generated"
  if ! sources | tar --null --files-from=- -cf - | tar -xf - -C "$copy/current" || ! cp -R "$copy/current/." "$copy/generated"; then
    status=1
  elif ! make --no-print-directory -C "$copy/generated" generate >"$copy/log" 2>&1; then
    cat "$copy/log"
    status=1
  elif ! (cd "$copy" && diff -ruN current generated); then
    echo "generated files are out of date. Run: make generate"
    status=1
  fi
  rm -rf "$copy"
  return "$status"
}

formatted() {
  local files
  files=$(sources '*.go' | xargs -0 gofmt -l) || return
  [[ -z $files ]] || { printf 'not formatted. Run: gofmt -w %s\n' "$files"; return 1; }
}

step "generated code and manifests" generated
step "gofmt" formatted
step "go vet" go vet ./...
for module in go/examples hack/bench hack/prose test/conformance test/gitops test/gitops/argocd; do
  step "go vet in $module" go -C "$module" vet ./...
done
for module in . go/examples hack/tools hack/kube hack/mutate/gremlins hack/bench hack/prose hack/manifests hack/score hack/envoygateway test/conformance test/gitops; do
  step "go mod tidy in $module" go -C "$module" mod tidy -diff
done

if ((${#failed[@]})); then
  printf 'verify: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "verify: passed"
