"""Memory of a rank by strategy, beside the formulas of ZeRO, beside `dtrain estimate`, and beside Python's FSDP2."""
import ctypes
import json
import subprocess
import sys

import jobs
import page

WIDTH, DEPTH = 768, 64
RANKS = (2, 4)
MIXED = {"param": "bfloat16"}
NEAR, MIB = 5, 2**20
PSS = ["PSS peak", "PSS, malloc as it is", "PSS, tcmalloc"]
# The strategy, and the formula in bytes of a parameter for N ranks. What is live for a time comes on top.
WAYS = {
    "ddp, float32": ({"type": "ddp"}, "16Ψ", lambda n: 16),
    "zero1, bfloat16": ({"type": "zero1", "mixed_precision": MIXED}, "4Ψ + 12Ψ/N", lambda n: 4 + 12 / n),
    "zero2, bfloat16": ({"type": "zero2", "mixed_precision": MIXED}, "2Ψ + 14Ψ/N", lambda n: 2 + 14 / n),
    "fsdp, copies, bfloat16": ({"type": "fsdp", "one_copy": False, "mixed_precision": MIXED}, "14Ψ/N",
                               lambda n: 14 / n),
    "fsdp, copies, float32": ({"type": "fsdp", "one_copy": False}, "16Ψ/N", lambda n: 16 / n),
    "fsdp, one copy, bfloat16": ({"type": "fsdp", "mixed_precision": MIXED}, "16Ψ/N", lambda n: 16 / n),
    "fsdp, one copy, float32": ({"type": "fsdp"}, "16Ψ/N", lambda n: 16 / n),
}
TCMALLOC = {"LD_PRELOAD": "libtcmalloc_minimal.so.4"}  # Debian's libtcmalloc-minimal4
TO_THE_KERNEL = {"MALLOC_MMAP_THRESHOLD_": "262144"}  # malloc gives each large block back as soon as it is free
ABOUT = (f"A model of {DEPTH} blocks, each a linear layer of {WIDTH} x {WIDTH}: Ψ = {WIDTH**2 * DEPTH:,} parameters. "
         "AdamW; bfloat16: the module computes in bfloat16, and what is optimized is float32. MiB of a rank, mean over "
         "the ranks. \"Live\" and the estimate are what `dtrain estimate` says. \"Counted\" are the bytes of all "
         "tensors, each memory once. What N ranks share counts for 1/N in each, and is in \"of it shared\", by the "
         "kernel's count of these mappings: with one copy the parameters, elsewhere rows of gradients. \"Peak\" is "
         "the most that was found while backward went through the blocks. PSS "
         "is what the kernel says of the process without files (Pss_Anon and Pss_Shmem of /proc/self/smaps_rollup, at "
         "the same moments), less what was there before the model; the kernel too counts a page that N ranks map for "
         "1/N in each. Its first column is with `MALLOC_MMAP_THRESHOLD_=262144`, so that malloc keeps nothing that is "
         "free. The second one is with malloc as `dtrain::init()` sets it, and as Python has it: then holes between "
         "blocks that live count too. The last one is with tcmalloc instead of glibc's malloc "
         f"(`LD_PRELOAD={TCMALLOC['LD_PRELOAD']}`).")


def estimates(args, ranks):
    """What `dtrain estimate` says, by strategy, type and whether there is one copy."""
    out = subprocess.run([f"{args.build}/bin/dtrain", "estimate", "--parameters", str(WIDTH**2 * DEPTH), "--units",
                          str(DEPTH), "--nproc", str(ranks), "--json"], check=True, capture_output=True, text=True)
    return {(row["strategy"], row["precision"], row.get("one_copy", False)): row
            for row in json.loads(out.stdout)["strategies"]}


def apart(value, wanted):
    return 100 * (value / wanted - 1)


def measured(start, *words):
    """What was found where malloc keeps nothing; and the PSS then, with malloc as it is, and with tcmalloc."""
    found = [json.loads(start(*words, environment=each)) for each in (TO_THE_KERNEL, {}, TCMALLOC)]
    return found[0], [each["pss_peak"] for each in found]


def require_tcmalloc():
    """The loader of programs would go on without it, and the figures would be those of glibc's malloc."""
    try:
        ctypes.CDLL(TCMALLOC["LD_PRELOAD"])
    except OSError:
        sys.exit(f"{TCMALLOC['LD_PRELOAD']} is not installed; run scripts/setup.sh bench")


def memory(args):
    require_tcmalloc()
    columns = ["ranks", "strategy", "formula", "live", "counted after backward", "of it shared",
               "counted peak", "of the estimate", *PSS]
    bars, rows = [], [f"| {' | '.join(columns)} |", "|---:|---|" + "---:|" * (len(columns) - 2)]
    parameters = WIDTH**2 * DEPTH
    for ranks in RANKS:
        estimated, pss, above, unseen = estimates(args, ranks), {}, {}, {}
        for name, (strategy, formula, factor) in WAYS.items():
            found, pss[name] = measured(jobs.ours, args, ranks, json.dumps(strategy), "memory_bench", WIDTH, DEPTH)
            precision = "bfloat16" if "mixed_precision" in strategy else "float32"
            one_copy = strategy["type"] == "fsdp" and strategy.get("one_copy", True)
            guess = estimated[strategy["type"], precision, one_copy]
            above[name] = apart(found["peak"], factor(ranks) * parameters + guess["live"])
            unseen[name] = apart(found["pss_peak"], found["peak"])
            words = [ranks, name, f"{formula} = {factor(ranks) * parameters / MIB:.0f}", f"{guess['live'] / MIB:.0f}",
                     f"{found['held'] / MIB:.0f}", f"{found['shared'] / MIB:.0f}", f"{found['peak'] / MIB:.0f}",
                     f"{apart(found['peak'], guess['total']):+.1f} %", *(f"{each / MIB:.0f}" for each in pss[name])]
            rows.append(f"| {' | '.join(map(str, words))} |")
        for what, percents in (("counted peak above the formula and what is live", above),
                               ("PSS peak above the counted peak", unseen)):
            worst = max(percents, key=percents.get)
            bars.append(page.judged(f"{ranks} ranks, the worst strategy ({worst}): {what}", percents[worst], "<=",
                                    NEAR, "%"))
    for precision in ("float32", "bfloat16"):
        _, theirs = measured(jobs.theirs, args, ranks, "fsdp2_reference.py", "memory", WIDTH, DEPTH, precision)
        rows.append(f"| {ranks} | Python FSDP2, {precision}{' |' * 7} "
                    f"{' | '.join(f'{each / MIB:.0f}' for each in theirs)} |")
        for which, malloc in enumerate(PSS):
            bars.append(page.judged(f"{ranks} ranks, fsdp, one copy, {precision}: {malloc}, of FSDP2's",
                                    pss[f"fsdp, one copy, {precision}"][which] / theirs[which], "<=", 1, "times"))
    return bars, [ABOUT, "\n".join(rows)]
