#!/usr/bin/env python3
"""Other readers of a folder of Parquet files with float32 columns: rows a second, and seconds to the first batch.

    readers.py dtrain|scanner|rows FOLDER BATCH [ROWS]

dtrain: dtrain.ParquetLoader with a window of 20 MB, all columns as one matrix. scanner: pyarrow's dataset scanner and
numpy.stack, in the order of the files. rows: torch's DataLoader over an IterableDataset that gives row by row, as
tutorials have it, up to ROWS rows.
"""
import sys
import time

import numpy
import pyarrow.dataset


def ours(folder, batch):
    import dtrain

    names = pyarrow.dataset.dataset(folder).schema.names
    loader = dtrain.ParquetLoader(folder, batch_size=batch, matrices={"x": names}, window_size_bytes=20_000_000)
    return (part["x"] for part in loader)


def scanner(folder, batch):
    for part in pyarrow.dataset.dataset(folder).to_batches(batch_size=batch):
        yield numpy.stack([part.column(at).to_numpy() for at in range(part.num_columns)], axis=1)


def rows(folder, batch):
    import torch

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            for part in pyarrow.dataset.dataset(folder).to_batches():
                yield from numpy.stack([part.column(at).to_numpy() for at in range(part.num_columns)], axis=1)

    return torch.utils.data.DataLoader(Rows(), batch_size=batch)


def main():
    how, folder, batch, *limit = sys.argv[1:]
    most = int(limit[0]) if limit else None
    if how != "scanner":
        import torch  # noqa: F401, because its import is no reading
    begin, first, seen = time.monotonic(), None, 0
    for part in {"dtrain": ours, "scanner": scanner, "rows": rows}[how](folder, int(batch)):
        first = first or time.monotonic() - begin
        seen += len(part)
        if most and seen >= most:
            break
    print(seen / (time.monotonic() - begin), first)


if __name__ == "__main__":
    main()
