"""dtrain.MixtureLoader: several data sets as one, through the C interface of libdtrain_data.so."""
import ctypes
import functools

from . import _loader
from ._loader import _UNSET, BatchReader, _check, bind, functions_of_loaders, is_infinite, paths_of


class _Source(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("weight", ctypes.c_double), ("rows", ctypes.c_int64),
                ("taken", ctypes.c_int64)]


@functools.lru_cache(maxsize=None)
def _bind():
    loader, size = ctypes.c_void_p, ctypes.c_size_t
    bind(_loader._library(), "dtrain_mixture_loader_", "mixture_", [
        *functions_of_loaders(), ("set_epoch", ctypes.c_int, loader, ctypes.c_uint64),
        ("set_weights", ctypes.c_int, loader, ctypes.POINTER(ctypes.c_double), size), ("sources", size, loader),
        ("source", None, loader, size, ctypes.POINTER(_Source)), ("state", ctypes.c_char_p, loader)])


def _source_of(name, options):
    if not isinstance(options, dict):
        raise ValueError(f"dtrain: MixtureLoader: source '{name}' is {options!r}; it must be a dict with paths, and "
                         "weight, window_size_bytes and seed if you like")
    if is_infinite(options.get("weight")):
        raise ValueError(f"dtrain: MixtureLoader: source '{name}': weight is {options['weight']}; it must be a finite "
                         "number")
    source = {"name": name, **options}
    if "paths" in options:
        source["paths"] = paths_of(options["paths"])
    return source


class MixtureLoader(BatchReader):
    """Several data sets as one: each batch has rows of all of them, by weights that may change. Each `for` is an epoch:

        loader = dtrain.MixtureLoader({"web": {"paths": "web/", "weight": 0.7},
                                       "books": {"paths": "books/", "weight": 0.3}},
                                      epoch_ends="all", batch_size=32, columns=["tokens"],
                                      window_size_bytes=200_000_000)
        for batch in loader:
            train(batch["tokens"], batch["mixture.source"])   # 0: a row of web, 1: of books
        loader.set_weights({"web": 0.5, "books": 0.5})

    sources: by their names, each with paths; and weight, window_size_bytes and seed, if they are not 1, the mixture's,
    and the mixture's plus the source's number. epoch_ends: "first" (before a source begins again), "all" (when each has
    been read) or "never". The other options are ParquetLoader's, window_size_bytes and one_reader those of each source.
    docs/training/mixtures.md has more.

    Raises ValueError if an option, a weight or a state makes no sense, and DataError if a file cannot be read or if two
    sources have different tensors.
    """
    _WHO, _FUNCTIONS = "MixtureLoader", "mixture_"

    def __init__(self, sources, *, epoch_ends, batch_size, columns=(), matrices=None, fill=None, rank=None,
                 world_size=None, shuffle=True, seed=0, window_size_bytes=_UNSET, fully_executed=None, drop_last=False,
                 prefetch=4, pin_memory=False, one_reader=True):
        options = self._common_options(
            batch_size, columns, matrices, fill, rank, world_size, fully_executed, shuffle=shuffle, seed=seed,
            window_size_bytes=window_size_bytes, drop_last=drop_last, prefetch=prefetch, one_reader=one_reader,
            epoch_ends=epoch_ends, sources=[_source_of(*source) for source in sources.items()])
        _bind()
        self._open(options, pin_memory)

    @property
    def sources(self):
        """By their names: `weight` (all together are 1), `rows` in the files, and how many were `taken` in this epoch
        of the mixture."""
        found = {}
        for number in range(self._call("sources")):
            source = _Source()
            self._call("source", number, ctypes.byref(source))
            found[source.name.decode()] = {"weight": source.weight, "rows": source.rows, "taken": source.taken}
        return found

    def set_weights(self, weights):
        """From the next batch on. Name every source. All ranks must call it between the same two batches with the same
        weights; what has been read ahead is read again."""
        names = list(self.sources)
        if set(weights) != set(names):
            raise ValueError(f"dtrain: MixtureLoader: set_weights: the sources are {', '.join(names)}, and the weights "
                             f"are of {', '.join(map(str, weights))}; name all sources, with 0 for no rows")
        _check(self._call("set_weights", (ctypes.c_double * len(names))(*[weights[name] for name in names]),
                          len(names)))

    def _state(self):
        text = self._call("state")
        if text is None:
            _check(_loader._OTHER_ERROR)
        return text.decode()
