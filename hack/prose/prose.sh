#!/usr/bin/env bash
# Checks the words of the repository with Vale, and the links of its documentation, offline.
#   hack/prose/prose.sh [FILE...]   the given files, every file of the repository by default
# The words are in hack/prose/styles. Vale runs twice: .vale.ini for documentation, comments and manifests, code.ini for the
# messages and names in Go code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# words CONFIG FILE...: prints one line per alert.
words() {
  local config=$1
  shift
  if (($# == 0)); then return; fi
  go tool -modfile=hack/tools/go.mod vale --config="$config" --output=line "$@"
}

if (($#)); then
  files=("$@")
else
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.md' '*.go' '*.lua' '*.yaml' \
    ':!api/v1alpha1/applyconfiguration' ':!**/zz_generated.*' ':!charts/weir/files' ':!hack/prose/testdata')
fi
existing=() code=()
for file in "${files[@]}"; do
  if [[ ! -e $file ]]; then continue; fi # deleted, and not yet committed
  existing+=("$file")
  if [[ $file == *.go ]]; then code+=("$file"); fi
done
status=0
words .vale.ini "${existing[@]}" || status=1
words hack/prose/code.ini ${code[@]+"${code[@]}"} || status=1
go run -C hack/prose . || status=1
exit "$status"
