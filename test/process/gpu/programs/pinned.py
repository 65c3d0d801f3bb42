"""Batches of dtrain.ParquetLoader in page-locked memory: copied while a GPU works, and gone before it has copied them.

usage: pinned.py cuda|cpu FILE; the file has one column `id`, and as many rows as its last id says.
"""
import sys

import torch

import dtrain

kind, path = sys.argv[1:]
BATCH = 4096


def loader():
    return dtrain.ParquetLoader(path, batch_size=BATCH, prefetch=2, shuffle=False, pin_memory="auto")


there, pinned = torch.cat([batch["id"] for batch in loader()]), 0
if kind == "cuda":
    # New memory may wait for the GPU. Torch keeps this for what comes.
    spare = [torch.empty(BATCH, dtype=torch.int64, **where) for _ in range(len(there) // BATCH + 20)
             for where in ({"pin_memory": True}, {"device": kind}, {"device": kind})]
    del spare
    at_work, copied = torch.cuda.Event(), []
    for batch in loader():
        if not copied:
            torch.cuda._sleep(2_000_000_000)  # a second and more, so that no copy is done before the last is asked for
            at_work.record()
        pinned += batch["id"].is_pinned()
        # A part of it, and the batch goes at once: its memory must wait for the copy.
        copied.append((batch["id"][:1].to(kind, non_blocking=True), batch["id"][1:].to(kind, non_blocking=True)))
    assert not at_work.query(), "a copy has waited for the GPU"
    assert pinned == len(copied), f"{pinned} of {len(copied)} batches are pinned"
    copied = torch.cat([part for parts in copied for part in parts])
else:
    copied = torch.cat([batch["id"].to(kind) for batch in loader()])
assert torch.equal(copied.cpu(), there), "the copies have other values"
assert there.tolist() == list(range(len(there)))
print(f"{len(there)} rows on {kind}, {pinned} batches pinned", flush=True)
