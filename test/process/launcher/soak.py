#!/usr/bin/env python3
"""SIGKILL of the agent (or another end) by the thousand: nothing may be left, ever, and within a second.

    test/process/launcher/soak.py --trials 1000 [--end "agent killed"] [--level pidns] [--kind daemon] [--user 65534]

Trials go round over every containment level that this machine gives and every kind of hostile worker. Prints, for each
level and kind, the time from the signal to the last process's end; whatever took more than a second (late), with the
load average of the machine; and whatever was left after five seconds or ended with a wrong code (failed). Ends with 1
if a trial failed or was late.
DTRAIN_BIN_DIR and DTRAIN_TEST_BIN_DIR say where dtrain and the workers are (build/bin, build/test/bin).
"""
import argparse
import itertools
import json
import os
import sys
import time

import support
import trials

LATE = 1.0  # seconds from the end's cause to the last process, the promise on a machine that is not overloaded


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
    times, failures, late = {cell: [] for cell in cells}, [], 0
    start = time.monotonic()
    for number in range(args.trials):
        level, kind = cells[number % len(cells)]
        try:
            took = trials.Trial(level, kind, args.end, args.user).run()
            times[level, kind].append(took)
            if took > LATE:
                late += 1
                print(f"trial {number}: {level}, {kind}: {took:.2f} s, load average {os.getloadavg()[0]:.1f}",
                      flush=True)
        except (AssertionError, OSError, StopIteration) as error:
            failures.append(f"trial {number}: {level}, {kind}: {error!r}")
            print(failures[-1], file=sys.stderr, flush=True)
    print(f"{args.trials} × {args.end}: {len(failures)} failed, {late} took more than {LATE:g} s; "
          f"{time.monotonic() - start:.0f} s in all, load average {os.getloadavg()[1]:.1f}")
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
            json.dump({"end": args.end, "trials": args.trials, "failures": failures, "late": late,
                       "load_average": os.getloadavg()[1], "rows": rows}, f, indent=2)
    return 1 if failures or late else 0


if __name__ == "__main__":
    sys.exit(main())
