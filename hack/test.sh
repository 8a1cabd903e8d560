#!/usr/bin/env bash
# Runs every test and ends with one line that says how many passed and failed.
#   hack/test.sh            the tests
#   hack/test.sh --events   the same as a stream of test2json events (what the first form feeds to gotestsum)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The packages that run goroutines are tested with the race detector. In the others nothing is concurrent, or what is
# runs in processes of its own.
is_concurrent() { [[ $1 == */weir/limiter || $1 == */weir/limiter/* || $1 == */weir/controllers/* || $1 == */weir/cmd/* ]]; }

# What measures how late answers are, and what replicas cannot know meanwhile, has the machine to itself.
is_timed() { [[ $1 == */weir/test/reliability || $1 == */weir/test/kubernetes ]]; }

# The race detector needs cgo and a C compiler.
race_detector() { [[ $(go env CGO_ENABLED) == 1 ]] && command -v "$(go env CC)" >/dev/null; }

events() {
  local race=() concurrent=() others=() timed=() package packages status=0
  if race_detector; then race=(-race); fi
  packages=$(go list ./...)
  for package in $packages; do
    if is_timed "$package"; then
      timed+=("$package")
    elif is_concurrent "$package"; then
      concurrent+=("$package")
    else
      others+=("$package")
    fi
  done
  go test -json -timeout 15m ${race[@]+"${race[@]}"} "${concurrent[@]}" || status=1
  go test -json -timeout 15m "${others[@]}" || status=1
  go test -json -timeout 15m -p 1 "${timed[@]}" || status=1
  # These read files outside of their modules, which Go's cache of results does not see.
  for module in hack/bench test/gitops test/gitops/argocd; do
    go -C "$module" test -count=1 -json -timeout 15m ./... || status=1
  done
  return "$status"
}

if [[ ${1:-} == --events ]]; then
  events
  exit
fi

go run ./hack/prepare
status=0
go tool -modfile=hack/tools/go.mod gotestsum --format pkgname --format-hide-empty-pkg --raw-command -- hack/test.sh --events || status=$?
if ! race_detector; then
  echo "NOTE: without the race detector, which needs a C compiler (Debian, Ubuntu: apt-get install gcc libc6-dev) and CGO_ENABLED=1" >&2
fi
exit "$status"
