"""dtrain.ParquetLoader: libdtrain_data.so, which a build of dtrain puts beside this file, through its C interface."""
import ctypes
import functools
import json
import math
import os
import pathlib
import threading
import weakref

import torch
import torch.distributed

from ._pinned import Allocator, memory_of

_OK, _END, _WAITING, _CONFIG_ERROR, _DATA_ERROR, _OTHER_ERROR = range(6)
_STATE_SIZE = 101
_SLICE_MS = 100  # how long a wait holds signals up
_MOST_EPOCH = 2**63 - 1
_UNSET = object()
_CAPSULE = b"dltensor"  # a capsule has only the address of its name


class DataError(RuntimeError):
    """A file is missing, empty, damaged, or has other columns than the first one."""


class Batch(dict):
    """Tensors by their names."""
    rows = 0  #: of this rank
    repeated = 0  #: of these, at the end: rows that another place of the global batch has, too
    global_rows = 0  #: of all ranks, each row counted once


class _Rows(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "repeated", "global_rows")]


class _Times(ctypes.Structure):
    _fields_ = [("batches", ctypes.c_int64)] + [
        (name, ctypes.c_double) for name in ("seconds", "waited", "disk", "decode", "copy", "ahead")]


@functools.lru_cache(maxsize=None)
def _library():
    path = pathlib.Path(__file__).with_name("libdtrain_data.so")
    if not path.exists():
        try:
            from dtrain_data import native  # a package from pip has its sources
        except ImportError:
            raise ImportError("dtrain: this dtrain was built without ParquetLoader and MixtureLoader "
                              "(docs/training/loader.md)") from None
        path = native.built(native.LIBRARY)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"dtrain: ParquetLoader and MixtureLoader: {error}. They run with the pyarrow that they were "
                          "built with: install that one, or build dtrain again") from error
    loader, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    bind(library, "dtrain_", "dtrain_", [("data_error", text)])
    bind(library, "dtrain_parquet_loader_", "", [
        *functions_of_loaders(), ("set_epoch", None, loader, ctypes.c_uint64), ("rows", number, loader),
        ("batches", number, loader), ("state", ctypes.c_int, loader, text)])
    return library


def functions_of_loaders():
    """Those that each kind of loader has: name, result, arguments."""
    loader, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    return [("open_in", ctypes.c_int, text, ctypes.POINTER(Allocator), ctypes.POINTER(loader)), ("close", None, loader),
            ("tensors", ctypes.c_size_t, loader), ("tensor_name", text, loader, ctypes.c_size_t),
            ("next", ctypes.c_int, loader, number, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(_Rows)),
            ("epoch", ctypes.c_uint64, loader), ("load_state", ctypes.c_int, loader, text),
            ("times", None, loader, ctypes.POINTER(_Times))]


def bind(library, prefix, short, functions):
    """library.SHORTname is the function PREFIXname."""
    for name, result, *arguments in functions:
        function = library[prefix + name]
        function.restype, function.argtypes = result, arguments
        setattr(library, short + name, function)


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))


def _check(status):
    if status <= _WAITING:
        return status
    error = {_CONFIG_ERROR: ValueError, _DATA_ERROR: DataError}.get(status, RuntimeError)
    raise error(_library().dtrain_data_error().decode(errors="replace"))


def _close(close, handle, process, lock, memory):
    if os.getpid() != process:  # a forked child has no thread of it
        return
    if memory and memory.is_asking():  # garbage is collected on the very thread whose end this would wait for
        threading.Thread(target=_close, args=(close, handle, process, lock, memory)).start()
        return
    if lock.acquire(timeout=10):  # at the program's end another thread may be in a call
        try:
            close(handle)
        finally:
            lock.release()


def _ranks(who, rank, world_size):
    """Of torch.distributed, if there is a group, or of the environment that a launcher sets."""
    if (rank is None) != (world_size is None):
        raise ValueError(f"dtrain: {who}: give both rank and world_size, or neither")
    if rank is not None:
        return rank, world_size
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    found = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE")]
    if found == [None, None]:
        return 0, 1
    try:
        return tuple(map(int, found))
    except (TypeError, ValueError):
        raise ValueError(f"dtrain: {who}: RANK is {found[0]} and WORLD_SIZE is {found[1]}; a launcher sets "
                         "both to numbers. Unset them, or give rank and world_size") from None


def is_infinite(value):
    """Or nan: JSON has neither. What else is no number, the library names."""
    return isinstance(value, float) and not math.isfinite(value)


def _checked_fill(who, fill):
    for name, value in fill.items():
        if is_infinite(value):
            raise ValueError(f"dtrain: {who}: fill: column '{name}' cannot have the value {value}; give a "
                             "finite number")
    return fill


def _names_of(who, what, names):
    """A word is a list of its letters, too; that is never meant."""
    if isinstance(names, (str, bytes)):
        raise ValueError(f"dtrain: {who}: {what} is {names!r}; it must be a list of names")
    return list(names)


def paths_of(paths):
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [os.fspath(path) for path in paths]


class BatchReader:
    """What all loaders are: an epoch of batches for each `for`, from a thread of the library."""
    _WHO = _FUNCTIONS = None  # its name, and what its functions' names begin with in the library

    def _open(self, options, pin_memory):
        library, handle, memory = _library(), ctypes.c_void_p(), memory_of(self._WHO, pin_memory)
        _check(getattr(library, self._FUNCTIONS + "open_in")(
            json.dumps(options).encode(), ctypes.byref(memory.allocator) if memory else None, ctypes.byref(handle)))
        self._library, self._handle, self._process, self._memory = library, handle, os.getpid(), memory
        self._lock = threading.Lock()
        # Also at the end of the program.
        self._closing = weakref.finalize(self, _close, getattr(library, self._FUNCTIONS + "close"), handle,
                                         self._process, self._lock, memory)
        self._names = [self._call("tensor_name", at).decode() for at in range(self._call("tensors"))]
        self._turn = 0  # which iterator is the one that counts
        self._begun = False  # some batch of the epoch has been given by an iterator

    def _common_options(self, batch_size, columns, matrices, fill, rank, world_size, fully_executed, **others):
        rank, world_size = _ranks(self._WHO, rank, world_size)
        options = {"batch_size": batch_size, "columns": _names_of(self._WHO, "columns", columns), "rank": rank,
                   "world_size": world_size,
                   "matrices": {name: _names_of(self._WHO, f"matrices: '{name}'", of)
                                for name, of in (matrices or {}).items()},
                   "fill": _checked_fill(self._WHO, dict(fill or {})),
                   **{name: value for name, value in others.items() if value is not _UNSET}}
        if fully_executed is not None:
            options["fully_executed"] = fully_executed
        return options

    def _call(self, name, *arguments):
        if os.getpid() != self._process:
            raise RuntimeError(f"dtrain: {self._WHO}: it was made before fork(), and its thread is in the other "
                               "process; make it after the fork")
        with self._lock:
            if not self._closing.alive:
                raise RuntimeError(f"dtrain: {self._WHO}: it has been closed")
            return getattr(self._library, self._FUNCTIONS + name)(self._handle, *arguments)

    def close(self):
        """End the thread that reads. Tensors stay. Any other call is an error from now on."""
        self._closing()

    @property
    def epoch(self):
        """The epoch of the batch that comes next."""
        return self._call("epoch")

    def set_epoch(self, epoch):
        """Begin with the first batch of this epoch."""
        if not 0 <= epoch <= _MOST_EPOCH:
            raise ValueError(f"dtrain: {self._WHO}: epoch is {epoch}; it must be a whole number of 0 or more")
        self._turn += 1
        self._begun = False
        _check(self._call("set_epoch", epoch) or _OK)  # or nothing
        self._forget_error()

    def times(self):
        """What the time went into: `seconds` of which next() `waited`, for `batches` batches; and what the thread that
        reads did meanwhile: `disk`, `decode`, `copy`, and `ahead`, when enough batches were ready."""
        times = _Times()
        self._call("times", ctypes.byref(times))
        return {name: getattr(times, name) for name, _ in _Times._fields_}

    def _state(self):
        raise NotImplementedError

    def state_dict(self):
        """Where the loader is after the last batch that it gave: the same on all ranks, for any number of ranks."""
        return {"state": self._state()}

    def load_state_dict(self, state):
        """Go on from there: the next `for` gives the batches that were left of the epoch."""
        text = state.get("state") if isinstance(state, dict) else None
        if not isinstance(text, str):
            raise ValueError(f"dtrain: {self._WHO}: this is nothing that state_dict() has given")
        _check(self._call("load_state", text.encode()))
        self._forget_error()
        self._turn += 1
        self._begun = False

    def __iter__(self):
        """The batches of an epoch. Where a `for` was left before its end, the next epoch begins."""
        if self._begun:
            self.set_epoch(self.epoch + 1)
        self._turn += 1
        return self._batches(self._turn)

    def _batches(self, turn):
        while True:
            if turn != self._turn:
                raise RuntimeError(f"dtrain: {self._WHO}: this iterator has been replaced by a newer one, by "
                                   "set_epoch() or by load_state_dict()")
            batch = self._next()
            if batch is None:
                return
            yield batch

    def _next(self):
        pointers, rows = (ctypes.c_void_p * len(self._names))(), _Rows()
        status = _WAITING
        while status == _WAITING:  # between two calls Python looks for signals
            status = self._checked(self._call("next", _SLICE_MS, pointers, ctypes.byref(rows)))
        self._begun = status == _OK
        if status == _END:
            return None
        batch = Batch()
        batch.rows, batch.repeated, batch.global_rows = rows.rows, rows.repeated, rows.global_rows
        for name, pointer in zip(self._names, pointers):
            address = ctypes.c_void_p.from_address(pointer).value  # what a DLManagedTensor begins with
            tensor = torch.from_dlpack(_new_capsule(pointer, _CAPSULE, None))
            batch[name] = self._memory.taken(address, tensor) if self._memory else tensor
        return batch

    def _forget_error(self):
        """Call while nothing is read: the next reader begins with the next batch that is asked for."""
        if self._memory:
            self._memory.error = None

    def _checked(self, status):
        if status != _OTHER_ERROR or not self._memory or not self._memory.error:
            return _check(status)
        error = self._memory.error
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise RuntimeError(f"dtrain: {self._WHO}: pin_memory: torch has no page-locked memory: {why}; set pin_memory "
                           "to False, or take a smaller batch_size or prefetch") from error


class ParquetLoader(BatchReader):
    """Parquet files as batches of tensors, shuffled in bounded memory. Each `for` is an epoch:

        loader = dtrain.ParquetLoader("clicks/", batch_size=1024, columns=["label"], matrices={"x": ["f0", "f1"]},
                                      window_size_bytes=200_000_000)
        for epoch in range(3):
            for batch in loader:
                train(batch["x"], batch["label"])

    paths: files, folders and patterns, here or in a store; else DTRAIN_DATASET's. columns, matrices: which columns
    become which tensors; all if there are none. fill: numbers in place of null values, by column. rank, world_size:
    else those of torch.distributed, or RANK and WORLD_SIZE. window_size_bytes: memory for the shuffle, None for all
    rows at once, or "auto"; else DTRAIN_LOADER's, or None. one_reader: the ranks of a node read together. pin_memory:
    page-locked batches, which are copied to a GPU while the program goes on; "auto": if there is a GPU.
    docs/training/loader.md has more.

    Raises ValueError if an option or a state makes no sense, and DataError if a file cannot be read.
    """

    _WHO, _FUNCTIONS = "ParquetLoader", ""

    def __init__(self, paths=None, *, batch_size, columns=(), matrices=None, fill=None, rank=None, world_size=None,
                 shuffle=True, seed=0, window_size_bytes=_UNSET, fully_executed=None, drop_last=False, prefetch=4,
                 pin_memory=False, one_reader=True):
        options = self._common_options(
            batch_size, columns, matrices, fill, rank, world_size, fully_executed, shuffle=shuffle, seed=seed,
            window_size_bytes=window_size_bytes, drop_last=drop_last, prefetch=prefetch, one_reader=one_reader)
        if paths is not None:
            options["paths"] = paths_of(paths)
        self._open(options, pin_memory)

    def __len__(self):
        """Batches of an epoch, the same on all ranks."""
        return self._call("batches")

    @property
    def rows(self):
        """In the files."""
        return self._call("rows")

    def _state(self):
        text = ctypes.create_string_buffer(_STATE_SIZE)
        _check(self._call("state", text))
        return text.value.decode()
