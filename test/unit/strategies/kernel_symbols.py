#!/usr/bin/env python3
"""The reduction kernels for newer CPUs share no function with other files.

The linker keeps any one copy of a function that several files bring (an inline one, a template of the standard
library); one compiled for AVX-512 would end a program on a CPU that has none. So each of these files may define its one
entry, and besides only what is local to it.

usage: kernel_symbols.py NM ARCHIVE
"""
import re
import subprocess
import sys


def symbols_by_member(nm, archive):
    listed = subprocess.run([nm, "--defined-only", archive], check=True, capture_output=True, text=True).stdout
    members = {}
    for line in listed.splitlines():
        if line.endswith(":"):
            current = members.setdefault(line[:-1], [])
        elif line.strip():
            kind, name = line.split()[-2:]
            current.append((kind, name))
    return members


def main(nm, archive):
    kernels = {name: symbols for name, symbols in symbols_by_member(nm, archive).items()
               if re.match(r"reduce_avx\w+\.cc", name)}
    wrong = [] if len(kernels) == 2 else [f"expected two files reduce_avx*, found {sorted(kernels)}"]
    for member, symbols in kernels.items():
        shared = [name for kind, name in symbols if kind not in "tdrb"]
        if len(shared) != 1 or ("T", shared[0]) not in symbols:
            wrong.append(f"{member} defines {', '.join(shared)}: only its entry may be seen by other files")
    print("\n".join(wrong) or "only the entries are shared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
