"""A rank's lines, and its end.

Ranks share a pipe under torchrun, so each line is one write, also with PYTHONUNBUFFERED: else a line of another rank
may come before its newline.

The end of a program with gloo threads: without finalizing Python. Before 3.13 such a thread that holds a tensor may
abort there, under any launcher (https://github.com/pytorch/pytorch/issues/190489)."""
import io
import os
import sys
import traceback


def run(main):
    """Call main(). What is printed and the exit code are those of a plain `sys.exit(main())`."""
    code = 1
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), line_buffering=True)
    try:
        code = main() or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
