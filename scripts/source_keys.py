#!/usr/bin/env python3
"""Print a line "SOURCE KEY" for each source: a hash of what the compiler reads of it, includes and comments too.

    source_keys.py BUILD_DIR SOURCE...    BUILD_DIR holds compile_commands.json

The same in any folder that the project lies in. One that cannot be read has the key "none".
"""
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys


def key_of(entry):
    words = shlex.split(entry["command"])
    compiler = next((i + 1 for i, word in enumerate(words) if os.path.basename(word) == "ccache"), 0)
    words = words[compiler:]
    words[words.index("-o") + 1] = "-"
    made = subprocess.run([*words, "-E", "-P", "-C"], cwd=entry["directory"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    text = made.stdout.replace(os.getcwd().encode(), b".")
    return hashlib.sha256(text).hexdigest() if made.returncode == 0 else "none"


def main():
    build, *sources = sys.argv[1:]
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = {os.path.relpath(entry["file"]): entry for entry in json.load(file)}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for source, key in zip(sources, pool.map(lambda one: key_of(entries[one]), sources)):
            print(source, key)


if __name__ == "__main__":
    main()
