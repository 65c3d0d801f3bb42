#!/usr/bin/env bash
# Build dtrain's wheel for glibc 2.28 or newer, and its sdist, into build/wheel/dist. The same commit gives the same
# bytes.
#
# `pip wheel .` works too, with the compiler that is found, for the glibc of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

glibc=2.28
root=$PWD
work=$root/build/wheel
tools=$root/.venv-wheel/bin
zig=$("$tools/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).with_name("zig"))')
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH

# The libraries' headers without those of this machine's C library, which lie beside them.
headers=$work/headers
rm -rf "$headers" "$work/dist" "$work/plain"
mkdir -p "$headers" "$work/dist" "$work/plain"
for name in boost fmt nlohmann CLI hwloc.h yaml.h; do
  ln -s "/usr/include/$name" "$headers/$name"
done
for name in openssl hwloc; do
  cp -rs /usr/include/$name /usr/include/"$(gcc -print-multiarch)"/$name "$headers/"
done
for language in cc c++; do
  cat >"$work/$language" <<EOF
#!/bin/sh
exec "$zig" $language -target $(uname -m)-linux-gnu.$glibc -isystem "$headers" -ffile-prefix-map="$root=." "\$@"
EOF
  chmod +x "$work/$language"
done
cat >"$work/project.cmake" <<EOF
set(CMAKE_LIBRARY_ARCHITECTURE $(gcc -print-multiarch))
list(APPEND CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
EOF

export CC=$work/cc CXX=$work/c++ PATH=$tools:$PATH
python -m build --no-isolation --sdist --outdir "$work/dist"
python -m build --no-isolation --wheel --outdir "$work/plain" -C build-dir="$work/build" \
  -C cmake.define.CMAKE_PROJECT_INCLUDE="$work/project.cmake"
# Refuses what needs a newer glibc or another library than the platform's name allows.
auditwheel repair --plat "manylinux_${glibc/./_}_$(uname -m)" --wheel-dir "$work/dist" "$work"/plain/*.whl
ls -l "$work/dist"
