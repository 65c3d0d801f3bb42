#!/usr/bin/env bash
# Run every fuzzer of a build for some seconds each, with its corpus from test/fuzz/corpus/NAME if there is one. New
# inputs are kept in BUILD_DIR/corpus/NAME.
#
# usage: scripts/fuzz.sh BUILD_DIR SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
seconds=$2
ran=0
for fuzzer in "$build"/{bin,test/bin}/{fuzz_*,*_fuzz}; do
  [[ -f $fuzzer && -x $fuzzer ]] || continue
  name=$(basename "$fuzzer")
  corpus=$build/corpus/$name
  mkdir -p "$corpus"
  seeds=()
  [[ -d test/fuzz/corpus/$name ]] && seeds=("test/fuzz/corpus/$name")
  echo "fuzz: $name for $seconds s"
  "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$corpus/" \
    "$corpus" "${seeds[@]}" 2>&1 | tail -n 8
  ran=$((ran + 1))
done
[[ $ran -gt 0 ]] || { echo "fuzz: no fuzzer in $build" >&2; exit 1; }
echo "fuzz: $ran fuzzers, nothing found"
