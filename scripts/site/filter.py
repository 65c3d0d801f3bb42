#!/usr/bin/env python3
"""Doxygen's INPUT_FILTER: our headers' plain comments become comments that Doxygen takes, with their text as it is."""
import re
import sys


def documented(lines):
    block = []
    first = True
    for line in lines:
        comment = re.match(r"\s*//( ?.*)$", line)
        if comment:
            block.append(comment[1].removeprefix(" "))
            continue
        if block and line.strip():
            yield from wrapped(block, "/** @file\n" if first else "/**\n")
            first = False
            block = []
        elif block:  # followed by an empty line: about what comes next, all of it
            block.append("")
            continue
        trailing = re.match(r"(.*\S)\s+// (.*)$", line)
        yield f"{trailing[1]} /**< @verbatim {trailing[2]} @endverbatim */" if trailing else line


def wrapped(block, begin):
    yield begin + "@verbatim\n" + "\n".join(block) + "\n@endverbatim */"


if __name__ == "__main__":
    with open(sys.argv[1]) as source:
        print("\n".join(documented(source.read().splitlines())))
