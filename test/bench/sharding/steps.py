"""Steps of examples/gpt: under each strategy beside the same model in Python, and with the same bits on any number of
ranks."""
import json
import statistics

import jobs
import page

SIZES = {"small": {"context": 64, "width": 96, "depth": 4, "heads": 4, "global-batch": 16},
         "wide": {"context": 32, "width": 384, "depth": 4, "heads": 6, "global-batch": 2}}
OURS = {"ddp": "ddp", "zero1": "zero1", "zero2": "zero2", "fsdp": "fsdp",
        "fsdp, copies": json.dumps({"type": "fsdp", "one_copy": False})}
THEIRS = {"Python DDP": "ddp", "Python FSDP2": "fsdp2"}
CHARACTERS, SKIPPED = 109, 10
BAR, PRICE = 2, 1.1
MICRO_BATCHES = (1, 4)


def medians(seconds):
    return {way: statistics.median(each) for way, each in seconds.items()}


def told(size):
    return ", ".join(f"{key} {value}" for key, value in size.items())


def steps_of(args):
    bars, tables = [], []
    for name in args.models.split(","):
        size = SIZES[name]
        seconds = {way: [] for way in [*OURS, *THEIRS]}
        for _ in range(args.rounds):
            for way, strategy in OURS.items():
                seconds[way] += jobs.gpt_steps(args, args.ranks, strategy, size, args.steps)[SKIPPED:]
            for way, theirs in THEIRS.items():
                out = jobs.theirs(args, args.ranks, "gpt_reference.py", *jobs.flags(size), "--characters", CHARACTERS,
                                  "--steps", args.steps, "--way", theirs)
                seconds[way] += [float(line) for line in out.splitlines()][SKIPPED:]
        step = medians(seconds)
        rows = ["| | a step | Python DDP / this | Python FSDP2 / this |", "|---|---:|---:|---:|"]
        rows += [f"| {way} | {1000 * step[way]:.1f} ms | {step['Python DDP'] / step[way]:.2f}x | "
                 f"{step['Python FSDP2'] / step[way]:.2f}x |" for way in step]
        tables.append(f"Model \"{name}\" ({told(size)}):\n\n" + "\n".join(rows))
        for ours, theirs, bar in (("fsdp", "Python FSDP2", BAR), ("ddp", "Python DDP", 1)):
            faster = step[theirs] / step[ours]
            bars.append(page.judged(f"{name}: {ours} as fast as {theirs}, at least", faster, ">=", bar, "times"))
    about = (f"{args.ranks} ranks, a thread each, float32, AdamW, clipping. Python's are on gloo; their DDP has the "
             f"fused AdamW. Medians of the steps after the first {SKIPPED} of {args.rounds} runs of {args.steps} "
             "steps; the programs took turns.")
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
