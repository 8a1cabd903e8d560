#!/usr/bin/env bash
# Checks what you changed, in about a minute: builds everything, then lints and tests the packages with changed files, and
# checks the words of those files. It does not test the packages that import them: make test does.
#   hack/check.sh            changes since the branch left main, committed or not
#   BASE=REF hack/check.sh   changes since the commit REF
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$PWD/hack/tools/go.mod
failed=()

# step NAME COMMAND...: runs COMMAND and records a failure. In COMMAND, set -e has no effect.
step() {
  local began=$SECONDS
  printf '\n=== %s\n' "$1"
  "${@:2}" || failed+=("$1")
  printf '    %d s\n' $((SECONDS - began))
}

# folder_of FILE: prints the nearest folder with Go files, or nothing.
folder_of() {
  local folder=$1
  while [[ $folder == */* ]]; do
    folder=${folder%/*}
    if compgen -G "$folder/*.go" >/dev/null; then
      echo "$folder"
      return
    fi
  done
}

# module_of FOLDER: prints the folder of its go.mod file.
module_of() {
  local folder=$1
  while [[ ! -e $folder/go.mod && $folder == */* ]]; do folder=${folder%/*}; done
  if [[ -e $folder/go.mod ]]; then echo "$folder"; else echo .; fi
}

base=$(git merge-base HEAD "${BASE:-main}") || { echo "check: no common commit with ${BASE:-main}. Set BASE to a commit." >&2; exit 2; }
mapfile -t files < <({ git diff --name-only "$base" --; git ls-files --others --exclude-standard; } | sort -u)
existing=() modules=()
declare -A packages=() # packages with changed files, by module
for file in "${files[@]}"; do
  if [[ -e $file ]]; then existing+=("$file"); fi
  folder=$(folder_of "$file")
  if [[ -z $folder ]]; then continue; fi
  module=$(module_of "$folder")
  if [[ $folder == "$module" ]]; then package=.; else package=./${folder#"$module"/}; fi
  if [[ -z ${packages[$module]:-} ]]; then modules+=("$module"); fi
  if [[ " ${packages[$module]:-} " != *" $package "* ]]; then packages[$module]+=" $package"; fi
done
if ((${#files[@]} == 0)); then
  echo "check: nothing changed since $(git rev-parse --short "$base")"
  exit
fi
printf 'check: %d changed files since %s\n' ${#files[@]} "$(git rev-parse --short "$base")"

step "go build ./..." go build ./...
for module in ${modules[@]+"${modules[@]}"}; do
  read -ra folders <<<"${packages[$module]}"
  # Without packages that a build constraint excludes.
  mapfile -t changed < <(go -C "$module" list -e -f '{{if or .GoFiles .CgoFiles .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${folders[@]}" | grep .)
  if ((${#changed[@]} == 0)); then continue; fi
  step "lint in $module: ${folders[*]}" env -C "$module" go tool -modfile="$tools" golangci-lint run "${folders[@]}"
  step "test in $module: ${folders[*]}" env -C "$module" go tool -modfile="$tools" gotestsum --format pkgname --format-hide-empty-pkg -- "${changed[@]}"
done
mapfile -t prose < <(printf '%s\n' ${existing[@]+"${existing[@]}"} | grep -E '\.(md|go|lua|yaml)$' | grep -vE '^(api/v1alpha1/applyconfiguration|charts/weir/files|hack/prose/testdata)/|zz_generated\.')
if ((${#prose[@]})); then step "words and links" hack/prose/prose.sh "${prose[@]}"; fi
mapfile -t scripts < <(printf '%s\n' ${existing[@]+"${existing[@]}"} | grep -E '\.sh$|^\.ci/run$')
if ((${#scripts[@]})) && command -v shellcheck >/dev/null; then step "shellcheck" shellcheck "${scripts[@]}"; fi

if ((${#failed[@]})); then
  printf 'check: FAILED after %d s: %s\n' "$SECONDS" "$(printf '%s; ' "${failed[@]}")" >&2
  exit 1
fi
printf 'check: passed after %d s. Before a pull request, also run: make test verify lint\n' "$SECONDS"
