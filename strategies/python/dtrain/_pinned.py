"""Page-locked memory for a loader's batches: torch's, so torch knows which copies to a GPU still read from it."""
import contextlib
import ctypes
import threading

import torch

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_DEALLOCATE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Allocator(ctypes.Structure):
    """dtrain_data_allocator."""
    _fields_ = [("allocate", _ALLOCATE), ("deallocate", _DEALLOCATE), ("context", ctypes.c_void_p)]


def _page_locked(size):
    return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)


class PinnedMemory:
    """Lends the library tensors of bytes as memory, and makes the tensors of a batch of them again."""

    def __init__(self):
        self._lent = {}  # by address
        self._asking = set()  # threads that are in a call of the library's
        self.error = None  # why there was no memory
        self.allocator = Allocator(_ALLOCATE(self._allocate), _DEALLOCATE(self._deallocate), None)
        torch.cuda.init()  # without which torch knows of no pinned memory
        # On this thread, whose current device is this rank's: a thread that reads would begin with the machine's first.
        _page_locked(1)

    @contextlib.contextmanager
    def _asked(self):
        thread = threading.get_ident()
        self._asking.add(thread)
        try:
            yield
        finally:
            self._asking.discard(thread)

    def _allocate(self, _, size):
        try:
            with self._asked():
                memory = _page_locked(max(size, 1))  # of no bytes torch has no address
                self._lent[memory.data_ptr()] = memory
                return memory.data_ptr()
        except Exception as error:  # pylint: disable=broad-except  # it cannot pass through the library
            self.error = error
            return None

    def _deallocate(self, _, address):
        with self._asked():
            self._lent.pop(address, None)

    def is_asking(self):
        """Whether this thread is the library's, in a call for memory."""
        return threading.get_ident() in self._asking

    def taken(self, address, tensor):
        """The tensor of the library at this address, as one of torch's own."""
        memory = self._lent.pop(address)
        return torch.empty(0, dtype=tensor.dtype).set_(memory.untyped_storage(), 0, tensor.shape)


def memory_of(who, pin_memory):
    """What the option means on this machine; None: usual memory."""
    if pin_memory not in (False, True, "auto"):
        raise ValueError(f'dtrain: {who}: pin_memory is {pin_memory!r}; it must be False, True or "auto"')
    if not pin_memory:
        return None
    if torch.cuda.is_available():
        return PinnedMemory()
    if pin_memory == "auto":
        return None
    raise ValueError(f"dtrain: {who}: pin_memory: torch finds no GPU of CUDA or ROCm here, so no memory can be "
                     'page-locked for it; set it to False, or to "auto", which is True where there is one')
