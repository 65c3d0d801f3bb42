#!/usr/bin/env python3
"""Let `import torch` work on the CPU without three gigabytes of CUDA libraries.

torch's Linux wheel links its CUDA half eagerly, so Python cannot import it unless every CUDA library is there. On a
machine that only trains on CPUs (a developer's, CI's) this script puts an empty library of the same name in the place
of each missing one. A stub exports what torch's libraries refer to; a call into it says so and aborts. With the real
wheels installed nothing is missing and nothing is written.

usage: cuda_stubs.py SITE_PACKAGES
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

STUB = """#include <stdio.h>
#include <stdlib.h>
__attribute__((visibility("hidden"))) void stub_called(void) {
  fputs("a CUDA library was called that is not installed (a stub by dtrain's scripts/cuda_stubs.py)\\n", stderr);
  abort();
}
"""


def objdump(flag, path):
    return subprocess.run(["objdump", flag, str(path)], capture_output=True, text=True, check=True).stdout


def needed_libraries(headers):
    return re.findall(r"^\s+NEEDED\s+(\S+)", headers, re.M)


def required_versions(headers):
    """{version name: library} out of objdump -p's 'Version References'."""
    versions, library = {}, None
    for line in headers.partition("Version References:")[2].splitlines():
        if match := re.match(r"\s+required from (\S+):", line):
            library = match[1]
        elif match := re.match(r"\s+0x\S+ 0x\S+ \d+ (\S+)", line):
            versions[match[1]] = library
    return versions


def symbols(path):
    """(undefined as {(name, version)}, defined as {name}) of a shared library."""
    undefined, defined = set(), set()
    for line in objdump("-T", path).splitlines():
        fields = line.split()
        if len(fields) < 4 or not re.fullmatch(r"[0-9a-f]{16}", fields[0]):
            continue
        if "*UND*" not in line:
            defined.add(fields[-1])
        elif " w " not in line[16:25]:
            version = re.search(r"\((\S+)\)", line)
            undefined.add((fields[-1], version[1] if version else None))
    return undefined, defined


def compile_stub(target, versioned):
    """versioned: {version or None: [symbol]}"""
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "stub.map")
        functions = [f"void {name}(void) {{ stub_called(); }}\n" for names in versioned.values() for name in names]
        source.write_text(STUB + "".join(sorted(functions)))
        nodes = [f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in versioned.items()
                 if version]
        script.write_text("".join(nodes))
        options = [f"-Wl,--version-script={script}"] if nodes else []
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-w", str(source),
                        f"-Wl,-soname,{target.name}", *options, "-o", str(target)], check=True)


def main(site_packages):
    torch_libraries = sorted((site_packages / "torch" / "lib").glob("lib*.so*"))
    present = {path.name: path for path in site_packages.glob("nvidia/**/*.so*")}
    present.update((path.name, path) for path in torch_libraries)
    missing, version_owner, undefined, defined = set(), {}, set(), set()
    for path in torch_libraries:
        headers = objdump("-p", path)
        needs = [name for name in needed_libraries(headers) if name not in present]
        # libcuda.so.1 belongs to the driver; torch loads what needs it later, and only on a GPU.
        missing.update(name for name in needs if re.match(r"lib(cu|nv|nccl)", name) and name != "libcuda.so.1")
        version_owner.update(required_versions(headers))
        wants, has = symbols(path)
        undefined |= wants
        defined |= has
    for name, path in present.items():
        if path not in torch_libraries and name.startswith("lib"):
            defined |= symbols(path)[1]
    if not missing:
        return
    exports = {name: collections.defaultdict(list) for name in missing}
    unversioned = min(missing)  # takes the symbols without a version: the loader finds them in any library
    for name, version in undefined:
        owner = version_owner.get(version) if version else unversioned
        if owner in missing and name not in defined and (version or re.match(r"_?(cu|nccl|nv)", name)):
            exports[owner][version].append(name)
    for name in sorted(missing):
        compile_stub(site_packages / "torch" / "lib" / name, exports[name])
    print(f"{len(missing)} CUDA libraries that a CPU does not need are stubs in torch/lib")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
