#!/usr/bin/env bash
# clang-tidy over the sources of rendezvous, launcher and cli that differ from main's last common commit with what is
# checked out, or over all of them.
#
# usage: scripts/clang_tidy.sh BUILD_DIR [--all]    BUILD_DIR holds compile_commands.json
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
folders=(rendezvous launcher cli)

changed() { # a changed header brings the source of the same name
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse -q --verify HEAD~1 || git rev-parse HEAD)
  { git diff --name-only "$base" -- "${folders[@]}"; git ls-files --others --exclude-standard -- "${folders[@]}"; } |
    sed -n 's/\.\(cc\|h\)$/.cc/p' | sort -u
}
all() { git ls-files --cached --others --exclude-standard -- "${folders[@]}" | grep '\.cc$'; }

if [[ ${2:-} == --all ]]; then list=$(all); else list=$(changed); fi
files=()
for file in $list; do # only what is built
  [[ -f $file ]] && grep -q "\"file\": \".*/$file\"" "$build/compile_commands.json" && files+=("$file")
done
echo "clang-tidy: ${#files[@]} files"
[[ ${#files[@]} -eq 0 ]] && exit 0
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "$build" --warnings-as-errors='*' 2>/dev/null
