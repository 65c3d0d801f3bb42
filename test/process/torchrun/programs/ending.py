"""The end of a program with gloo threads: without finalizing Python. Before 3.13 such a thread that holds a tensor may
abort there, under any launcher (https://github.com/pytorch/pytorch/issues/190489)."""
import os
import sys
import traceback


def run(main):
    """Call main(). What is printed and the exit code are those of a plain `sys.exit(main())`."""
    code = 1
    try:
        code = main() or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
