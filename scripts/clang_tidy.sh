#!/usr/bin/env bash
# clang-tidy over the sources of rendezvous, launcher and cli that differ from main's last common commit with what is
# checked out, or over everything that BUILD_DIR compiles of these folders: with the preset tidy a room at a time, which
# takes a fifth of the time, since most of the time goes into the headers of Asio, fmt and the standard library.
#
# usage: scripts/clang_tidy.sh BUILD_DIR [--all]    BUILD_DIR holds compile_commands.json
#
# A source that was clean is not looked at again before something in it or in what it includes has changed, or the
# checks have. That it was is known from an empty file in ~/.cache/dtrain-tidy, until nobody has asked for a month.
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
compiled() { sed -n "s|^ *\"file\": \"$PWD/\(.*\)\".*|\1|p" "$build/compile_commands.json"; }
ours() { grep -E "^($build/)?($(IFS='|'; echo "${folders[*]}"))/"; }

if [[ ${2:-} == --all ]]; then
  mapfile -t files < <(compiled | ours)
else
  mapfile -t files < <(comm -12 <(changed) <(compiled | sort -u))
fi
echo "clang-tidy: ${#files[@]} files of $build"
[[ ${#files[@]} -eq 0 ]] && exit 0

all_known=${XDG_CACHE_HOME:-$HOME/.cache}/dtrain-tidy
known=$all_known/$({ clang-tidy --version; cat .clang-tidy; } | sha256sum | cut -c 1-16)
mkdir -p "$known"
find "$all_known" -type f -mtime +30 -delete
check() { # SOURCE KEY
  if [[ -f $known/$2 ]]; then
    touch "$known/$2"
  else
    clang-tidy --quiet -p "$build" --warnings-as-errors='*' "$1" 2>/dev/null || exit
    [[ $2 == none ]] || touch "$known/$2"
  fi
}
export -f check
export build known
scripts/source_keys.py "$build" "${files[@]}" | xargs -L 1 -P "$(nproc)" bash -c 'check "$@"' check
