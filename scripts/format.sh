#!/usr/bin/env bash
# clang-format over every C++ source of ours, in place; with --check only name what it would change, and fail.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[[ ${1:-} == --check ]] && mode=(--dry-run --Werror)
git ls-files -z --cached --others --exclude-standard '*.cc' '*.h' |
  while IFS= read -r -d '' file; do [[ -f $file ]] && printf '%s\0' "$file"; done |
  xargs -0 -r -n 20 -P "$(nproc)" clang-format "${mode[@]}" || {
  echo "format: run 'make format'" >&2
  exit 1
}
