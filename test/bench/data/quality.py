#!/usr/bin/env python3
"""Measure how well dtrain.ParquetLoader mixes a table that is sorted by label, and what training makes of it.

    quality.py --build build [--rows 4000000] [--seeds 10] [--write FOLDER]

The table has ten classes, sorted, in 64 row groups. Skew is how far the classes of a batch of 1024 are from equal
shares (total variation), on average over all batches: 0 is even, 0.9 is one class alone. Each order of the rows also
trains a small network for one epoch, with a number of seeds, and its accuracy on other rows is what it has learned. The
Python that runs this has torch, numpy and pyarrow.

Orders of the loader are read by it, out of real files, with the memory that is named. The others are made by numpy.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import page  # noqa: E402

CLASSES, GROUPS, FILES, FEATURES, BATCH = 10, 64, 4, 39, 1024
ROW_BYTES = 4 * (FEATURES + 1)
# Student's t for a 95 % interval, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
FULL, RAW, CACHE = "full shuffle, by numpy", "raw Parquet, an eighth in memory", "written shuffled, a 32nd in memory"
CONTIGUOUS, SORTED = "windows of an eighth one after the other, by numpy", "raw Parquet, in its order"


def make_table(folder, rows):
    """Classes that overlap: of the features alone nobody can tell all of them apart."""
    import numpy
    import pyarrow
    import pyarrow.parquet

    draw = numpy.random.default_rng(0)
    centres = draw.normal(0, 0.45, (CLASSES, FEATURES))

    def some(labels):
        features = (centres[labels] + draw.normal(0, 1, (len(labels), FEATURES))).astype(numpy.float32)
        return pyarrow.table({"label": labels.astype(numpy.int32),
                              **{f"f{at}": features[:, at] for at in range(FEATURES)}})

    os.mkdir(f"{folder}/raw")
    for file in range(FILES):
        labels = numpy.arange(file * rows // FILES, (file + 1) * rows // FILES) * CLASSES // rows
        pyarrow.parquet.write_table(some(labels), f"{folder}/raw/{file}.parquet", row_group_size=rows // GROUPS,
                                    compression="none", use_dictionary=False)
    pyarrow.parquet.write_table(some(numpy.arange(50_000) % CLASSES), f"{folder}/test.parquet")


def write_shuffled(program, folder, rows):
    recipe = pathlib.Path(folder, "recipe.json")
    recipe.write_text(json.dumps({"input": [f"{folder}/raw"], "row_group_rows": min(16384, rows // 128)}))
    os.mkdir(f"{folder}/shuffled")
    subprocess.run([program, "process", recipe, f"{folder}/shuffled"], check=True, stdout=subprocess.DEVNULL)


class Table:
    """The sorted table in memory, for orders that numpy makes."""

    def __init__(self, folder):
        import numpy
        import pyarrow.parquet
        import torch

        table = pyarrow.parquet.read_table(f"{folder}/raw")
        self.labels = torch.from_numpy(table["label"].to_numpy().astype(numpy.int64))
        self.features = torch.from_numpy(numpy.stack([table[f"f{at}"].to_numpy() for at in range(FEATURES)], axis=1))

    def batches(self, order):
        import torch

        order = torch.from_numpy(order)
        for at in range(0, len(order) - BATCH + 1, BATCH):
            yield self.features[order[at:at + BATCH]], self.labels[order[at:at + BATCH]]

    def full(self, seed):
        import numpy

        return self.batches(numpy.random.default_rng(seed).permutation(len(self.labels)))

    def contiguous(self, seed):
        import numpy

        draw, rows = numpy.random.default_rng(seed), len(self.labels)
        window = rows // 8
        return self.batches(numpy.concatenate([first + draw.permutation(min(window, rows - first))
                                               for first in range(0, rows, window)]))


def loaded(folder, seed, **options):
    import dtrain

    loader = dtrain.ParquetLoader(folder, batch_size=BATCH, columns=["label"], seed=seed, drop_last=True, rank=0,
                                  world_size=1, matrices={"x": [f"f{at}" for at in range(FEATURES)]}, **options)
    try:
        for batch in loader:
            yield batch["x"], batch["label"].long()
    finally:
        loader.close()


def skew_of(labels):
    import torch

    shares = torch.bincount(labels, minlength=CLASSES) / len(labels)
    return float((shares - 1 / CLASSES).abs().sum() / 2)


def learned(batches, test, seed):
    """The mean skew of these batches, and the accuracy of a network that has seen each of them once."""
    import torch

    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    skews = []
    for features, labels in batches:
        skews.append(skew_of(labels))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(features), labels).backward()
        optimizer.step()
    with torch.no_grad():
        right = (net(test[0]).argmax(1) == test[1]).float().mean()
    return statistics.fmean(skews), 100 * float(right)


def measure(folder, rows, seeds, names=(FULL, CACHE, RAW, CONTIGUOUS, SORTED)):
    """name: the mean skew, and the accuracy in percent for each seed"""
    import pyarrow.parquet
    import torch

    torch.set_num_threads(1)
    data, raw, shuffled = rows * ROW_BYTES, f"{folder}/raw", f"{folder}/shuffled/train"
    table = Table(folder)
    held = pyarrow.parquet.read_table(f"{folder}/test.parquet")
    test = (torch.stack([torch.from_numpy(held[f"f{at}"].to_numpy()) for at in range(FEATURES)], dim=1),
            torch.from_numpy(held["label"].to_numpy()).long())
    orders = {FULL: table.full, CACHE: lambda seed: loaded(shuffled, seed, window_size_bytes=data // 32),
              RAW: lambda seed: loaded(raw, seed, window_size_bytes=data // 8), CONTIGUOUS: table.contiguous,
              SORTED: lambda seed: loaded(raw, seed, shuffle=False)}
    found = {}
    for name in names:
        runs = [learned(orders[name](seed), test, seed) for seed in range(seeds)]
        found[name] = (statistics.fmean(skew for skew, _ in runs), [accuracy for _, accuracy in runs])
    return found


def difference(ours, theirs):
    """Seed by seed: the mean difference, and half of its 95 % interval."""
    apart = [one - other for one, other in zip(ours, theirs)]
    return statistics.fmean(apart), STUDENT[len(apart) - 1] * statistics.stdev(apart) / math.sqrt(len(apart))


def report(args, found):
    full = found[FULL][1]
    mean, error = difference(found[CACHE][1], full)
    bars = [page.judged("raw Parquet, an eighth in memory: skew", found[RAW][0], "<=", 0.30, ""),
            page.judged("written shuffled, a 32nd in memory: skew", found[CACHE][0], "<=", 0.05, ""),
            page.Bar("written shuffled: accuracy beside a full shuffle's", f"{mean:+.3f} points",
                     f"within {error:.3f} points of 0", abs(mean) <= error)]
    lines = ["| order of the rows | skew | accuracy, % | beside a full shuffle, points |", "|---|---:|---:|---:|"]
    for name, (skew, accuracies) in found.items():
        apart = "-" if name == FULL else "{:+.3f} ± {:.3f}".format(*difference(accuracies, full))
        lines.append(f"| {name} | {skew:.4f} | {statistics.fmean(accuracies):.2f} ± {statistics.stdev(accuracies):.2f} "
                     f"| {apart} |")
    about = (f"{args.rows:,} rows, sorted by {CLASSES} classes, in {FILES} files and {GROUPS} row groups; {FEATURES} "
             f"float32 and the label; batches of {BATCH}. Skew is how far the classes of a batch are from equal shares "
             f"(total variation), on average. A network with one hidden layer sees each row once, by SGD; "
             f"{args.seeds} seeds for its weights and for the order. Accuracy is on other rows: mean ± deviation of "
             "the seeds. Beside a full shuffle: the mean of the differences, seed by seed, ± half of its 95 % "
             "interval:")
    return "\n\n".join([page.bars_table(bars), about, "\n".join(lines)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--seeds", type=int, default=10, choices=[degrees + 1 for degrees in STUDENT])
    page.add_outputs(parser)
    args = parser.parse_args()
    facts = page.machine()
    sys.path.insert(0, os.path.abspath(f"{args.build}/python"))
    with tempfile.TemporaryDirectory(prefix="dtrain-bench-data-") as folder:
        make_table(folder, args.rows)
        write_shuffled(f"{args.build}/bin/dtrain-data", folder, args.rows)
        found = measure(folder, args.rows, args.seeds)
    text = f"## How well rows are mixed\n\n{report(args, found)}\n\n{' '.join(facts)}"
    page.put_out(args, "bench-data", "quality", text, found)


if __name__ == "__main__":
    main()
