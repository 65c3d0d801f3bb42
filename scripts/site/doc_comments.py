#!/usr/bin/env python3
"""Doxygen's INPUT_FILTER: prints a header with its plain // comments as Doxygen's /// comments, line by line.

usage: doc_comments.py HEADER

The comment below `#pragma once` is about the file, one above a declaration about that, one after code about that code.
Indented lines of a comment are listings and tables, and stay as they are.
"""
import re
import sys

SPECIAL = re.compile(r"[\\@&<>#%\"]")  # Doxygen's commands and HTML; the comments mean the characters
COMMENT = re.compile(r" *// ?(.*)")
AFTER_CODE = re.compile(r"(.*[;,{)] +)// (.*)")
FORWARD = re.compile(r" *(class|struct) \w+;")  # Doxygen has no place for what is said of it


def plain(text):
    return SPECIAL.sub(r"\\\g<0>", text)


def block(texts):
    """The lines of one comment."""
    listed = [text.startswith("  ") for text in texts]
    for place, text in enumerate(texts):  # an empty line inside of a listing
        if not text and place and listed[place - 1] and any(texts[place:]):
            listed[place] = next(later for later in texts[place:] if later).startswith("  ")
    for place, text in enumerate(texts):  # the | keeps the first line's indentation
        begins = listed[place] and not (place and listed[place - 1])
        ends = listed[place] and not (place + 1 < len(texts) and listed[place + 1])
        yield "/// " + ("@verbatim |" if begins else "") + (text if listed[place] else plain(text)) + (
            " @endverbatim" if ends else "")


def filtered(lines):
    place = 0
    while place < len(lines):
        if lines[place] == "#pragma once":
            yield "/// @file"
        elif COMMENT.fullmatch(lines[place]):
            end = next(after for after in range(place, len(lines) + 1)
                       if after == len(lines) or not COMMENT.fullmatch(lines[after]))
            yield from block([COMMENT.fullmatch(line)[1] for line in lines[place:end]])
            place = end
            continue
        elif match := AFTER_CODE.fullmatch(lines[place]):
            text, after = match[2], place + 1
            more = " " * len(match[1]) + "// "  # further lines of the comment, below its first
            while lines[after].startswith(more):
                text += " " + lines[after][len(more):]
                after += 1
            yield match[1] + ("" if FORWARD.match(match[1]) else "///< " + plain(text))
            yield from [""] * (after - place - 1)
            place = after
            continue
        else:
            yield lines[place]
        place += 1


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(filtered(header.read().split("\n"))), end="")
