#!/usr/bin/env python3
"""Loaders of others that read a table with float32 columns: rows a second, and seconds to the first batch.

    peers.py ray|grain|lance FOLDER BATCH [ROWS]
    peers.py write-lance FOLDER

ray: Ray Data's iter_batches with a shuffle buffer of 20 MB, on a Ray of one core that is there before. grain: Grain's
ParquetIterDataset, file after file, row by row as it gives them. lance: the scanner of Lance, in the order of the file,
of the table that write-lance has made of FOLDER's Parquet files in FOLDER.lance. Each batch becomes one matrix.
"""
import glob
import os
import sys
import time

import numpy

BUFFER_BYTES = 20_000_000


def of_ray(folder, batch):
    import pyarrow.dataset
    import ray

    row_bytes = 4 * len(pyarrow.dataset.dataset(glob.glob(f"{folder}/*.parquet")).schema.names)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield None
    for part in ray.data.read_parquet(folder).iter_batches(
            batch_size=batch, batch_format="numpy", local_shuffle_buffer_size=BUFFER_BYTES // row_bytes):
        yield numpy.stack(list(part.values()), axis=1)


def of_grain(folder, batch):
    from grain import experimental

    files = [experimental.ParquetIterDataset(path) for path in sorted(glob.glob(f"{folder}/*.parquet"))]
    yield None
    for part in experimental.InterleaveIterDataset(files, cycle_length=1).batch(batch):
        yield numpy.stack(list(part.values()), axis=1)


def of_lance(folder, batch):
    import lance

    yield None
    for part in lance.dataset(f"{folder}.lance").to_batches(batch_size=batch):
        yield numpy.stack([part.column(at).to_numpy() for at in range(part.num_columns)], axis=1)


def write_lance(folder):
    import lance
    import pyarrow.parquet

    for path in sorted(glob.glob(f"{folder}/*.parquet")):
        lance.write_dataset(pyarrow.parquet.read_table(path), f"{folder}.lance",
                            mode="append" if os.path.exists(f"{folder}.lance") else "create")


def main():
    how, folder, *more = sys.argv[1:]
    if how == "write-lance":
        return write_lance(folder)
    batch, *limit = map(int, more)
    parts = {"ray": of_ray, "grain": of_grain, "lance": of_lance}[how](folder, batch)
    next(parts)  # imports and clusters are no reading
    begin, first, seen = time.monotonic(), None, 0
    for part in parts:
        first = first or time.monotonic() - begin
        seen += len(part)
        if limit and seen >= limit[0]:
            break
    print(seen / (time.monotonic() - begin), first)
    return None


if __name__ == "__main__":
    main()
