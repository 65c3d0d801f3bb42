#!/usr/bin/env python3
"""Each system call that front, agent, guard and a starting worker make fails once: the job ends cleanly, or works.

    test/process/launcher/soak_syscalls.py [--level subreaper] [--only agent:openat] [--jobs 1] [--every 1]

Prints what is wrong with a trial and at the end what all trials came to; ends with 1 if anything was wrong.
DTRAIN_BIN_DIR and DTRAIN_TEST_BIN_DIR say where dtrain and fail_call are (build/bin, build/test/bin).
"""
import argparse
import collections
import concurrent.futures
import sys
import time

import support
import syscall_trials


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--level", action="append", help="default: every one that this machine gives")
    parser.add_argument("--only", default="", help="ROLE:CALL[:N[:ERRNO]], or the beginning of it")
    parser.add_argument("--jobs", type=int, default=1,
                        help="at the same time; more of them remove what others leave, and hide it")
    parser.add_argument("--every", type=int, default=1, help="only every n-th fault")
    parser.add_argument("--verbose", action="store_true", help="print each trial")
    return parser.parse_args()


def main():
    args = arguments()
    start = time.monotonic()
    levels = args.level or support.levels()
    trials = [(level, fault) for level in levels for fault in syscall_trials.plan(level)
              if (":".join(map(str, fault)) + ":").startswith(args.only)][::args.every]
    codes, wrong = collections.Counter(), 0

    def trial(which):
        return which, syscall_trials.run(*which)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (level, fault), ended in pool.map(trial, trials):
            reached = ended.report.failed is not None
            codes[ended.report.code if reached else "not reached"] += 1
            found = syscall_trials.complaints(ended, fault)
            wrong += bool(found)
            if found or args.verbose:
                print(f"{syscall_trials.describe(level, fault)}: code {ended.report.code}: {'; '.join(found)}\n"
                      f"{ended.said}", flush=True)
    print(f"{len(trials)} trials, {wrong} wrong, {time.monotonic() - start:.0f} s; by exit code: {dict(codes)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
