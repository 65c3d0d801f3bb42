"""dtrain's CPU collectives for torch.distributed:

    torch.distributed.init_process_group("dtrain")                  # or "cpu:dtrain,cuda:nccl"

makes groups whose CPU tensors go through shared memory, and between hosts over TCP. `import torch` loads this package.
See docs/training/python.md.

    dtrain.run(train, 0.01, nproc=8)

runs a function or a script as a job, as `dtrain run` does. See docs/python.md.

    dtrain.reform()

lets the ranks that are left go on when one has died. See docs/training/survivors.md.

    dtrain.report_progress(step, steps, loss=loss)

tells the launcher how far the training is. See docs/kubernetes.md.

    dtrain.ParquetLoader("clicks/", batch_size=1024)

reads Parquet files as shuffled batches of tensors. See docs/training/loader.md.

    dtrain.MixtureLoader({"a": {"paths": "a/"}, "b": {"paths": "b/", "weight": 2}}, epoch_ends="all", batch_size=1024)

reads several data sets as one. See docs/training/mixtures.md.
"""
import os


def _autoload():
    """Called at the end of `import torch`, which the entry point beside this package asks for."""


import torch  # noqa: E402
import torch.distributed  # noqa: E402

from . import _extension  # noqa: E402
from ._launch import RunError, run  # noqa: E402, F401
from ._loader import Batch, DataError, ParquetLoader  # noqa: E402, F401
from ._mixture import MixtureLoader  # noqa: E402, F401
from ._progress import report_progress  # noqa: E402, F401
from ._reform import joiner_waits, reform, refuse_outside  # noqa: E402, F401


def _create(place, _options):
    refuse_outside()
    _C = _extension.load()
    if torch.cuda.device_count() == 0:
        _C.keep_freed_memory()
        # DDP's buckets in memory that the host's ranks share. With a GPU the variable would change NCCL's buckets too.
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    later = getattr(place, "enable_reconfigure", False)  # torch 2.15's
    # No ranks: the group is that of all, whose ranks need no other names.
    return _C.create_backend(place.store, place.group_rank, place.group_size, place.timeout, place.group_id,
                             place.global_ranks_in_group or [], later)


torch.distributed.Backend.register_backend("dtrain", _create, extended_api=True, devices=["cpu"])
