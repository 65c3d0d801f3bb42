#!/usr/bin/env python3
"""pin_memory, with memory that is not page-locked in the place of torch's: whose batches lie where, and for how long.
test/process/gpu has the rest."""
import ctypes
import gc
import pathlib
import tempfile
import threading
import time
import unittest
import weakref
from unittest import mock

import pyarrow
import pyarrow.parquet as parquet
import torch

import dtrain
from dtrain import _loader, _pinned
from tables import ALL, GROUP, table, write_set

WINDOW = 8 * GROUP + 16 * 2048
COLUMNS = ["id", "half", "odd", "pair"]


class Memory(bytearray):
    """As Python's, and known for as long as a tensor lies in it."""
    all = []

    @classmethod
    def tensor(cls, size):
        memory = cls(size)
        cls.all.append(weakref.ref(memory))
        return torch.frombuffer(memory, dtype=torch.uint8)

    @classmethod
    def living(cls):
        return [memory for memory in (one() for one in cls.all) if memory is not None]


def in_memory(tensor):
    at = tensor.untyped_storage().data_ptr()
    return any(ctypes.addressof(ctypes.c_char.from_buffer(memory)) == at for memory in Memory.living())


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.01)
    return True


class Pinned(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-pinned-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.set = write_set(cls.folder / "set")
        cls.words = cls.folder / "words.parquet"
        parquet.write_table(pyarrow.table({"id": range(200), "word": ["", "one", "", "forty-two"] * 50,
                                           "none": [""] * 200}), cls.words)

    def setUp(self):
        Memory.all.clear()
        for place, name, value in ((_pinned, "_page_locked", Memory.tensor),
                                   (torch.cuda, "is_available", lambda: True), (torch.cuda, "init", lambda: None)):
            patch = mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def loader(self, kind=dtrain.ParquetLoader, **options):
        loader = kind(**{"paths": self.set, "columns": COLUMNS, "matrices": {"x": ["b", "a"]}, "batch_size": 64,
                         "window_size_bytes": 16 * WINDOW, "pin_memory": True, **options})
        self.addCleanup(loader.close)
        return loader

    def assert_same(self, batches, others):
        for batch, other in zip(batches, others, strict=True):
            self.assertEqual(list(batch), list(other))
            for name, tensor in batch.items():
                self.assertEqual((tensor.dtype, tensor.shape), (other[name].dtype, other[name].shape), name)
                self.assertTrue(torch.equal(tensor, other[name]), name)

    def test_batches_lie_there_with_the_same_values(self):
        for options in ({}, {"paths": self.words, "columns": [], "matrices": {}, "window_size_bytes": None}):
            usual = list(self.loader(pin_memory=False, **options))
            self.assertEqual(Memory.all, [])
            loader = self.loader(**options)
            batches = list(loader)
            self.assert_same(batches, usual)
            for name, tensor in batches[3].items():
                self.assertTrue(in_memory(tensor), name)
            loader.close()  # it has read ahead
            del batches, tensor
            self.assertEqual(len(Memory.living()), 0)
            Memory.all.clear()

    def test_mixtures(self):
        sources = {"even": {"paths": self.set}, "odd": {"paths": self.set, "weight": 2}}
        usual, pinned = (list(dtrain.MixtureLoader(sources, epoch_ends="first", batch_size=64, columns=COLUMNS,
                                                   window_size_bytes="auto", pin_memory=pin)) for pin in (False, True))
        self.assert_same(pinned, usual)
        self.assertTrue(in_memory(pinned[1]["mixture.source"]))
        self.assertTrue(in_memory(pinned[1]["half"]))

    def test_memory_is_given_back_when_the_last_tensor_goes(self):
        loader = self.loader(prefetch=2)
        most = 0
        for batch in loader:
            most = max(most, len(Memory.living()))
        self.assertEqual(batch.global_rows, ALL % 64 or 64)
        # This batch and that before it, and 2 that are ready or in the making.
        self.assertLessEqual(most, 4 * (len(COLUMNS) + 1))
        loader.set_epoch(0)
        del batch
        batch = next(iter(loader))
        # This batch and 2 that are ready. No other one is made until there is room for it.
        self.assertFalse(until(lambda: len(Memory.living()) > 3 * (len(COLUMNS) + 1), 0.3))
        loader.set_epoch(0)  # batches that nobody has taken
        part = next(iter(loader))["pair"][3:5]
        loader.close()
        del batch
        self.assertEqual(len(Memory.living()), 1)
        ids = table(0, ALL).take(next(iter(self.loader(pin_memory=False)))["id"].tolist())
        self.assertEqual(part.tolist(), ids["pair"][3:5].to_pylist())
        del part
        self.assertEqual(len(Memory.living()), 0)

    def test_no_memory(self):
        """One line, in each call."""
        loader = self.loader()
        with mock.patch.object(_pinned, "_page_locked", side_effect=RuntimeError("CUDA error: out of memory\nIt")):
            for _ in range(2):
                with self.assertRaises(RuntimeError) as caught:
                    next(iter(loader))
                self.assertEqual(str(caught.exception), "dtrain: ParquetLoader: pin_memory: torch has no page-locked "
                                 "memory: CUDA error: out of memory; set pin_memory to False, or take a smaller "
                                 "batch_size or prefetch")
        loader.set_epoch(0)
        self.assertIsNone(loader._memory.error)  # another error of the new reader is none of memory
        self.assertEqual(len(next(iter(loader))["id"]), 64)

    def test_garbage_is_collected_on_the_thread_that_reads(self):
        """The last reference to a loader may end there, where nobody can wait for the end of the thread."""
        now, gone = threading.Event(), threading.Event()
        loader = dtrain.ParquetLoader(self.set, batch_size=64, columns=COLUMNS, prefetch=1, pin_memory=True)
        kept = [loader]

        def page_locked(size):
            if kept and threading.get_ident() != threading.main_thread().ident:
                now.wait(20)
                kept.clear()
                gc.collect()
                gone.set()
            return Memory.tensor(size)

        with mock.patch.object(_pinned, "_page_locked", page_locked):
            self.assertEqual(loader._call("next", 0, None, None), _loader._WAITING)  # the thread begins
            del loader
            now.set()
            self.assertTrue(gone.wait(20))
            self.assertTrue(until(lambda: not Memory.living()))
            # Python knows the thread that reads, which is not its own, by a name for ever.
            own = [one for one in threading.enumerate() if not one.name.startswith("Dummy")]
            self.assertTrue(until(lambda: sum(one.is_alive() for one in own) == 1), own)

    def test_where_there_is_no_gpu(self):
        with mock.patch.object(torch.cuda, "is_available", lambda: False):
            self.assertEqual(len(next(iter(self.loader(pin_memory="auto")))["id"]), 64)
            self.assertEqual(len(Memory.living()), 0)
            for kind, options in ((dtrain.ParquetLoader, {"paths": self.set}),
                                  (dtrain.MixtureLoader, {"sources": {"a": {"paths": self.set}}, "epoch_ends": "all"})):
                with self.assertRaisesRegex(ValueError, rf"^dtrain: {kind.__name__}: pin_memory: torch finds no GPU"):
                    kind(batch_size=1, pin_memory=True, **options)
        self.assertRaisesRegex(ValueError, 'pin_memory is \'yes\'; it must be False, True or "auto"', self.loader,
                               pin_memory="yes")
        next(iter(self.loader(pin_memory="auto")))
        self.assertNotEqual(Memory.all, [])

    def test_an_allocator_of_a_c_program(self):
        """Each block is freed once, that of a tensor with the tensor, which may outlive the loader."""
        library, handle, blocks, freed = _loader._library(), ctypes.c_void_p(), {}, []

        def allocate(context, size):
            self.assertEqual(context, 7)
            block = ctypes.create_string_buffer(size + 1)
            blocks[ctypes.addressof(block)] = block
            return ctypes.addressof(block)

        def deallocate(context, address):
            self.assertEqual(context, 7)
            freed.append(address)
            blocks.pop(address)

        allocator = _pinned.Allocator(_pinned._ALLOCATE(allocate), _pinned._DEALLOCATE(deallocate), 7)
        options = b'{"paths": ["%s"], "columns": ["id", "half"], "batch_size": 64}' % str(self.set).encode()
        _loader._check(library.open_in(options, ctypes.byref(allocator), ctypes.byref(handle)))
        pointers, rows = (ctypes.c_void_p * 2)(), _loader._Rows()
        _loader._check(library.next(handle, -1, pointers, ctypes.byref(rows)))
        tensors = [torch.from_dlpack(_loader._new_capsule(pointer, _loader._CAPSULE, None)) for pointer in pointers]
        self.assertLessEqual({tensor.data_ptr() for tensor in tensors}, set(blocks))
        library.close(handle)
        self.assertEqual(set(blocks), {tensor.data_ptr() for tensor in tensors})
        self.assertEqual(len(set(tensors[0].tolist())), 64)
        tensors.clear()
        self.assertEqual(blocks, {})


if __name__ == "__main__":
    unittest.main()
