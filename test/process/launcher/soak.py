#!/usr/bin/env python3
"""SIGKILL of the agent (or another end) by the thousand: nothing may be left, ever, and within a second.

    test/process/launcher/soak.py --trials 1000 [--end "agent killed"] [--level pidns] [--kind daemon] [--user 65534]

Trials go round over every containment level that this machine gives and every kind of hostile worker. Prints, for each
level and kind, the time from the signal to the last process's end, and every failure; ends with 1 if there was one.
DTRAIN_BIN_DIR and DTRAIN_TEST_BIN_DIR say where dtrain and the workers are (build/bin, build/test/bin).
"""
import argparse
import itertools
import json
import sys
import time

import support
import trials


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--end", default="agent killed", choices=list(trials.ENDS))
    parser.add_argument("--level", action="append", help="default: every one that this machine gives")
    parser.add_argument("--kind", action="append", choices=trials.KINDS, help="default: all")
    parser.add_argument("--user", type=int, help="run as this uid (needs root)")
    parser.add_argument("--json", help="write the figures to this file too")
    return parser.parse_args()


def main():
    args = arguments()
    cells = list(itertools.product(args.level or support.levels(args.user), args.kind or trials.KINDS))
    times, failures = {cell: [] for cell in cells}, []
    start = time.monotonic()
    for number in range(args.trials):
        level, kind = cells[number % len(cells)]
        try:
            times[level, kind].append(trials.Trial(level, kind, args.end, args.user).run())
        except (AssertionError, OSError, StopIteration) as error:
            failures.append(f"trial {number}: {level}, {kind}: {error!r}")
            print(failures[-1], file=sys.stderr, flush=True)
    print(f"{args.trials} × {args.end}: {len(failures)} failed, {time.monotonic() - start:.0f} s")
    print(f"{'level':10} {'worker':11} {'trials':>6} {'median ms':>10} {'p99 ms':>8} {'max ms':>8}")
    rows = []
    for (level, kind), taken in [*times.items(), (("all", ""), sum(times.values(), []))]:
        if taken:
            row = [quantile(taken, 0.5) * 1000, quantile(taken, 0.99) * 1000, max(taken) * 1000]
            rows.append({"level": level, "kind": kind, "trials": len(taken), "median_ms": row[0], "p99_ms": row[1],
                         "max_ms": row[2]})
            print(f"{level:10} {kind:11} {len(taken):6} {row[0]:10.1f} {row[1]:8.1f} {row[2]:8.1f}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"end": args.end, "trials": args.trials, "failures": failures, "rows": rows}, f, indent=2)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
