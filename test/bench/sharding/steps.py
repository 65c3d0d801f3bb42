"""Steps of examples/gpt: under each strategy beside the same model in Python, and with the same bits on any number of
ranks."""
import json
import statistics

import gpt_runs
import jobs
import page
from memory import TCMALLOC, require_tcmalloc

SIZES = {"small": {"context": 64, "width": 96, "depth": 4, "heads": 4, "global-batch": 16},
         "wide": {"context": 32, "width": 384, "depth": 4, "heads": 6, "global-batch": 2}}
OURS = {"ddp": "ddp", "zero1": "zero1", "zero2": "zero2", "fsdp": "fsdp",
        "fsdp, copies": json.dumps({"type": "fsdp", "one_copy": False})}
THEIRS = {"Python DDP": "ddp", "Python FSDP2": "fsdp2"}
WITH = ", tcmalloc"  # instead of glibc's malloc
SKIPPED = 10
BAR, PRICE = 2, 1.1
MICRO_BATCHES = (1, 4)


def medians(seconds):
    return {way: statistics.median(each) for way, each in seconds.items()}


def told(size):
    return ", ".join(f"{key} {value}" for key, value in size.items())


def turns(args, name, size):
    """The seconds of steps by program, which take turns, and for each turn how far apart their losses are."""
    require_tcmalloc()
    seconds, apart = {}, []
    with gpt_runs.first_weights(args, size) as weights:
        for _ in range(args.rounds):
            runs = {way: gpt_runs.ours(args, strategy, size) for way, strategy in OURS.items()}
            runs |= {way: gpt_runs.theirs(args, theirs, size, weights) for way, theirs in THEIRS.items()}
            runs["fsdp" + WITH] = gpt_runs.ours(args, "fsdp", size, TCMALLOC)
            runs["Python FSDP2" + WITH] = gpt_runs.theirs(args, "fsdp2", size, weights, TCMALLOC)
            for way, (taken, _) in runs.items():
                seconds[way] = seconds.get(way, []) + taken[SKIPPED:]
            apart.append(gpt_runs.distance(name, {way: losses for way, (_, losses) in runs.items()}))
    return seconds, apart


def steps_of(args):
    bars, tables, apart = [], [], []
    for name in args.models.split(","):
        size = SIZES[name]
        seconds, distances = turns(args, name, size)
        apart += distances
        step = medians(seconds)
        rows = ["| | a step | Python DDP / this | Python FSDP2 / this |", "|---|---:|---:|---:|"]
        rows += [f"| {way} | {1000 * step[way]:.1f} ms | {step['Python DDP'] / step[way]:.2f}x | "
                 f"{step['Python FSDP2'] / step[way]:.2f}x |" for way in step]
        tables.append(f"Model \"{name}\" ({told(size)}):\n\n" + "\n".join(rows))
        for ours, theirs, bar in (("fsdp", "Python FSDP2", BAR), ("ddp", "Python DDP", 1)):
            faster = step[theirs] / step[ours]
            bars.append(page.judged(f"{name}: {ours} as fast as {theirs}, at least", faster, ">=", bar, "times"))
    about = (f"{args.ranks} ranks, a thread each, float32, AdamW, clipping. Python's are on gloo, with the fused "
             f"AdamW. Medians of the steps after the first {SKIPPED} of {args.rounds} runs of {args.steps} "
             "steps; the programs took turns. All begin with the same weights and train on the same batches, with the "
             "same learning rates and weight decay. Losses of a step are within "
             f"{max(first for first, _ in apart):.1g} of each other in the first {gpt_runs.FIRST} steps and within "
             f"{max(of_all for _, of_all in apart):.1g} in all, as parts of the loss. There are no figures if they are "
             f"more than {gpt_runs.NEAR:g} and {gpt_runs.FAR:g} apart.")
    return bars, [about, *tables]


def deterministic(args):
    """The price of `deterministic`: steps with and without take turns within one process."""
    bars = []
    rows = ["| strategy | micro-batches of a rank | a step without | a step with | ratio |",
            "|---|---:|---:|---:|---:|"]
    for kind in ("zero1", "zero2", "fsdp"):
        for count in MICRO_BATCHES:
            runs = [json.loads(jobs.ours(args, args.ranks, kind, "price_bench", count, SKIPPED + args.steps))
                    for _ in range(args.rounds)]
            ratio = statistics.median(run["with"] / run["without"] for run in runs)
            step = {way: statistics.median(run[way] for run in runs) for way in ("without", "with")}
            rows.append(f"| {kind} | {count} | {step['without']:.1f} ms | {step['with']:.1f} ms | {ratio:.3f} |")
            bars.append(page.judged(f"{kind}, micro-batches {count}: a step with `deterministic`, of one without",
                                    ratio, "<=", PRICE, "times"))
    about = (f"The model of examples/gpt with and without `\"deterministic\": true`: {args.ranks} ranks, a thread "
             f"each, float32 ({told(SIZES['small'])}). The two take turns in one program, step by step. Medians over "
             f"{args.steps} steps, and of the ratios of {args.rounds} runs.")
    return bars, [about, "\n".join(rows)]
