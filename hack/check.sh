#!/usr/bin/env bash
# Checks what you changed, in about a minute: compiles the packages that import what changed, with their tests, then lints and tests the
# packages with changed files, and checks the words of those files. It does not test the packages that import them: make test does.
#   hack/check.sh            changes since the branch left main, committed or not
#   BASE=REF hack/check.sh   changes since the commit REF
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$PWD/hack/tools/go.mod
failed=()
# As in make test, so that the go command compiles each package once. Vale needs cgo, so the variable is not exported.
fast=(CGO_ENABLED=0 GOGC=400)

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

# affected PACKAGE...: prints the packages of this module that are PACKAGE or import one directly, also those whose tests do. A change can break
# others too, if they use its types without importing it: make test finds these.
affected() {
  env "${fast[@]}" go list -e -test -f '{{.ImportPath}}{{"\t"}}{{join .Imports "\t"}}' ./... | awk -F'\t' -v changed="$*" '
    BEGIN { n = split(changed, names, " "); for (i = 1; i <= n; i++) is_changed[names[i]] = 1 }
    # The name of a variant for tests continues with " [package.test]".
    function plain(name) { sub(/ \[.*/, "", name); return name }
    { for (i = 1; i <= NF; i++) if (plain($i) in is_changed) { name = plain($1); sub(/(\.|_)test$/, "", name); print name; next } }' | sort -u
}

# compile PACKAGE...: compiles them and their tests. Unlike go build and go test, it does not link programs, which takes most of their time.
# make test finds the results in the build cache.
compile() { env "${fast[@]}" GOGC=off GOMEMLIMIT=1536MiB go list -export -test "$@" >/dev/null; }

base=$(git merge-base HEAD "${BASE:-main}") || { echo "check: no common commit with ${BASE:-main}. Set BASE to a commit." >&2; exit 2; }
mapfile -t files < <({ git diff --name-only "$base" --; git ls-files --others --exclude-standard; } | sort -u)
existing=() modules=() everything=
declare -A packages=() # packages with changed files, by module
for file in "${files[@]}"; do
  if [[ -e $file ]]; then existing+=("$file"); fi
  # Another version of a dependency, or a package that is gone, can break any package.
  if [[ $file == go.mod || $file == *.go && ! -e $file && ! -d ${file%/*} ]]; then everything=yes; fi
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

read -ra folders <<<"${packages[.]:-}"
breakable=()
if [[ -n $everything ]]; then
  mapfile -t breakable < <(go list -e ./...)
elif ((${#folders[@]})); then
  mapfile -t changed < <(go list -e -f '{{.ImportPath}}' "${folders[@]}")
  mapfile -t breakable < <(affected "${changed[@]}")
fi
if ((${#breakable[@]})); then step "compile the packages that import what changed: ${#breakable[@]} packages and their tests" compile "${breakable[@]}"; fi
for module in ${modules[@]+"${modules[@]}"}; do
  read -ra folders <<<"${packages[$module]}"
  # Without packages that a build constraint excludes.
  mapfile -t changed < <(go -C "$module" list -e -f '{{if or .GoFiles .CgoFiles .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${folders[@]}" | grep .)
  if ((${#changed[@]} == 0)); then continue; fi
  step "lint in $module: ${folders[*]}" env -C "$module" "${fast[@]}" go tool -modfile="$tools" golangci-lint run "${folders[@]}"
  if [[ " ${folders[*]} " == *" ./api/v1alpha1 "* ]]; then
    step "conventions of the Kubernetes API" env "${fast[@]}" go tool -modfile="$tools" golangci-lint-kube-api-linter run --config=api/kube-api-linter.yml ./api/v1alpha1
  fi
  step "test in $module: ${folders[*]}" env -C "$module" "${fast[@]}" go test -vet=off -ldflags=-s "${changed[@]}"
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
