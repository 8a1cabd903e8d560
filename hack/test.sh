#!/usr/bin/env bash
# Runs all tests. The last line counts the passed and failed tests.
#   hack/test.sh            run the tests
#   hack/test.sh --events   run the tests and print test2json events, the input of gotestsum
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# These packages run with the race detector. The other packages have no concurrent code, or run it in separate processes.
is_concurrent() { [[ $1 == */weir/limiter || $1 == */weir/limiter/* || $1 == */weir/controllers/* || $1 == */weir/cmd/* ||
  $1 == */weir/webhook/* || $1 == */weir/middleware || $1 == */weir/middleware/* ]]; }

# This package measures latency, so it runs alone.
is_timed() { [[ $1 == */weir/test/reliability ]]; }

# The last tests of this package measure latency. They wait until no other package runs, see latency.Alone.
is_partly_timed() { [[ $1 == */weir/test/kubernetes ]]; }

# The other packages run with a shared lock on this file.
alone=$PWD/bin/test/alone
can_lock() { command -v flock >/dev/null; }

# The race detector needs cgo and a C compiler.
race_detector() { [[ $(go env CGO_ENABLED) == 1 ]] && command -v "$(go env CC)" >/dev/null; }

events() {
  # The compiler, the linker and the test programs collect garbage less often. They take less CPU time and more memory. fixture.StartWeir removes
  # the variable, so that weir runs as in production.
  export GOGC=400
  # At its end, a program with the race detector waits a second for goroutines that still run. A race fails its test before that.
  export GORACE="atexit_sleep_ms=50 ${GORACE:-}"
  # make verify runs go vet. Without debug information and symbols, the linker takes half of the time.
  local flags=(-json -vet=off -ldflags=-s -timeout 15m)
  local race=() concurrent=() others=() partly=() timed=() package packages status=0
  if race_detector; then race=(-race); fi
  # The go command starts the packages in this order. The slow ones come first, so that none of them runs alone at the end.
  packages=$(go list ./limiter/redisstore ./cmd/... ./controllers/... ./webhook/... ./test/... ./...)
  for package in $packages; do
    if is_timed "$package"; then
      timed+=("$package")
    elif is_partly_timed "$package"; then
      partly+=("$package")
    elif is_concurrent "$package"; then
      concurrent+=("$package")
    else
      others+=("$package")
    fi
  done
  # The small modules run at the same time as the packages of this module. They read files outside of themselves, which the test cache of Go
  # does not track.
  local modules
  modules=$(mktemp)
  (
    status=0
    for module in hack/bench test/conformance test/gitops test/gitops/argocd; do
      go -C "$module" test "${flags[@]}" -count=1 ./... || status=1
    done
    exit "$status"
  ) >"$modules" &
  local modules_pid=$!
  # Four packages at the same time: most tests wait for servers.
  go test "${flags[@]}" -p 4 ${race[@]+"${race[@]}"} "${concurrent[@]}" || status=1
  local waiting partly_timed
  waiting=$(mktemp)
  if can_lock; then
    mkdir -p "${alone%/*}"
    [[ -e $alone ]] || : >"$alone" # an unchanged file stays, as weir below
    exec 9<"$alone"
    flock --shared 9
    WEIR_TEST_ALONE=$alone go test "${flags[@]}" "${partly[@]}" >"$waiting" 9<&- &
    partly_timed=$!
  fi
  go test "${flags[@]}" -p 4 "${others[@]}" 9<&- || status=1
  wait "$modules_pid" || status=1
  cat "$modules"
  if can_lock; then
    exec 9<&- # unlocks
    wait "$partly_timed" || status=1
    cat "$waiting"
  else
    timed+=("${partly[@]}")
  fi
  rm -f "$modules" "$waiting"
  go test "${flags[@]}" -p 1 "${timed[@]}" || status=1
  return "$status"
}

if [[ ${1:-} == --events ]]; then
  events
  exit
fi

go run ./hack/prepare

# One weir for all packages that run it, see fixture.BuildWeir. Unchanged files stay: the go command links bin/test/weir only if it changes, and
# compares the time of the copy.
mkdir -p bin/test
go build -buildvcs=false -o bin/test/weir ./cmd/weir
WEIR_BIN=$PWD/bin/test/weir-$(sha256sum bin/test/weir | cut -c1-16)
[[ -e $WEIR_BIN ]] || cp bin/test/weir "$WEIR_BIN"
find bin/test -type f ! -name weir ! -path "bin/test/${WEIR_BIN##*/}" ! -path "bin/test/${alone##*/}" -delete
export WEIR_BIN

status=0
go tool -modfile=hack/tools/go.mod gotestsum --format pkgname --format-hide-empty-pkg --raw-command -- hack/test.sh --events || status=$?
if ! race_detector; then
  echo "NOTE: the tests ran without the race detector. To enable it, run: apt-get install gcc libc6-dev, and set CGO_ENABLED=1" >&2
fi
exit "$status"
