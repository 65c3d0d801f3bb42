#!/usr/bin/env bash
# Run every fuzzer of a build for some seconds each, from the seeds in test/fuzz/corpus/NAME if there are any. Inputs
# that reach something new are kept in BUILD_DIR/corpus/NAME; one that breaks something goes to BUILD_DIR/found.
#
# usage: scripts/fuzz.sh BUILD_DIR SECONDS [NAME...]    without names: all of them
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
seconds=$2
shift 2
names=("$@")
[[ $# -gt 0 ]] || mapfile -t names < <(find "$build/test/bin" -name '*_fuzz' -type f -executable -printf '%f\n' | sort)
[[ ${#names[@]} -gt 0 ]] || { echo "fuzz: no fuzzer in $build" >&2; exit 1; }

mkdir -p "$build/found"
failed=()
for name in "${names[@]}"; do
  corpus=$build/corpus/$name
  log=$build/found/$name.log
  mkdir -p "$corpus"
  seeds=()
  [[ -d test/fuzz/corpus/$name ]] && seeds=("test/fuzz/corpus/$name")
  if "$build/test/bin/$name" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$build/found/$name-" "$corpus" "${seeds[@]}" >"$log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s"
  else
    grep -avE '^#[0-9]+|NEW_FUNC' "$log" | tail -n 60 >&2
    echo "fuzz: $name found something. Again: $build/test/bin/$name $(sed -n 's/.*Test unit written to //p' "$log")" >&2
    failed+=("$name")
  fi
done
[[ ${#failed[@]} -eq 0 ]] || { echo "fuzz: found something: ${failed[*]}" >&2; exit 1; }
echo "fuzz: ${#names[@]} fuzzers, nothing found"
