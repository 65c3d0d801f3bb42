#!/usr/bin/env bash
# Configure a preset. The presets of build/ each build what the one before does and more (launcher, demo, release,
# bench): a build folder that has more keeps it.
#
# usage: scripts/configure.sh PRESET
set -euo pipefail
cd "$(dirname "$0")/.."

cached() { sed -n "s/^$1:[A-Z]*=//p" build/CMakeCache.txt; }
present() {
  if [[ ! -f build/CMakeCache.txt ]]; then
    echo 0
  elif [[ $(cached DTRAIN_STRATEGIES) != ON ]]; then
    echo 1
  elif [[ $(cached DTRAIN_TESTS) != ON ]]; then
    echo 2
  elif [[ $(cached DTRAIN_BENCH) != ON ]]; then
    echo 3
  else
    echo 4
  fi
}

case $1 in
  launcher) wanted=1 ;;
  demo) wanted=2 ;;
  release) wanted=3 ;;
  bench) wanted=4 ;;
  *) wanted=9 ;;  # it has a folder of its own
esac
(($(present) > wanted)) || cmake --preset "$1" -Wno-dev --log-level=WARNING >/dev/null
