#!/usr/bin/env python3
"""dtrain.ParquetLoader against pyarrow: rows, order for each world size, resuming, memory, signals, errors."""
import ctypes
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import numpy
import pyarrow
import pyarrow.parquet as parquet
import torch

import dtrain
from dtrain import _loader
from tables import ALL, GROUP, ROWS, as_bytes, table, texts_of_rows, texts_table, write_set

WINDOW = 8 * GROUP + 16 * 2048  # 600 rows and more wait


def ids(batches):
    return [row for batch in batches for row in batch["id"].tolist()[:batch.rows - batch.repeated]]


class PythonLoader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-python-loader-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.set = write_set(cls.folder / "set")

    def loader(self, **options):
        loader = dtrain.ParquetLoader(**{"paths": self.set, "columns": ["id"], "batch_size": 64, **options})
        self.addCleanup(loader.close)
        return loader

    def together(self, world, state=None, **options):
        """The rows of an epoch in their order, by the ranks of a world."""
        ranks = []
        for rank in range(world):
            loader = self.loader(rank=rank, world_size=world, **options)
            if state:
                loader.load_state_dict(state)
            ranks.append(list(loader))
        self.assertEqual(len({len(batches) for batches in ranks}), 1)
        return ids(batch for batches in zip(*ranks) for batch in batches)

    def test_rows_are_those_that_pyarrow_reads(self):
        there = sorted(parquet.read_table([str(self.set / f"{n}.parquet") for n in range(len(ROWS))],
                                          columns=["id"])["id"].to_pylist())
        for window in (None, WINDOW, "auto"):
            loader = self.loader(window_size_bytes=window)
            epochs = [ids(loader) for _ in range(2)]
            self.assertEqual([sorted(epoch) for epoch in epochs], [there, there])
            self.assertNotEqual(*epochs)
            self.assertEqual(loader.epoch, 2)
        self.assertEqual(len(loader), (ALL + 63) // 64)
        self.assertEqual(loader.rows, ALL)
        self.assertEqual(ids(self.loader(shuffle=False)), there)

    def test_values_and_types(self):
        whole, types = table(0, ALL), {
            "odd": torch.bool, "small": torch.int8, "byte": torch.uint8, "short": torch.int16, "int": torch.int32,
            "id": torch.int64, "half": torch.float16, "double": torch.float64, "pair": torch.float32}
        for batch in self.loader(columns=types, matrices={"x": ["b", "a"]}, window_size_bytes=40 * 4000):
            rows = whole.take(batch["id"].tolist())
            self.assertEqual({name: tensor.dtype for name, tensor in batch.items()}, {**types, "x": torch.float32})
            for name, tensor in batch.items():
                if name == "x":
                    expected = numpy.stack([rows["b"], rows["a"]], axis=1)
                elif name == "pair":
                    expected = rows["pair"].combine_chunks().flatten().to_numpy().reshape(-1, 2)
                else:
                    expected = rows[name].to_numpy()
                numpy.testing.assert_array_equal(tensor.numpy(), expected)

    def test_strings_are_a_jagged_tensor(self):
        words = ["", "one", "", "forty-two"] * 10
        parquet.write_table(pyarrow.table({"word": words}), self.folder / "words.parquet")
        batch = next(iter(self.loader(paths=self.folder / "words.parquet", columns=[], shuffle=False)))
        jagged = torch.nested.nested_tensor_from_jagged(batch["word"], batch["word.offsets"])
        self.assertEqual([bytes(row.tolist()).decode() for row in jagged.unbind()], words)
        self.assertEqual(jagged.values().data_ptr(), batch["word"].data_ptr())

    def test_lists_of_strings(self):
        path = self.folder / "texts.parquet"
        parquet.write_table(texts_table(500), path, row_group_size=200)
        there = parquet.read_table(path)
        for batch in self.loader(paths=path, columns=[]):
            rows = there.take(batch["id"].tolist())
            lists = {name: tensor.tolist() for name, tensor in batch.items()}
            for name in ("words", "blobs", "pairs", "coded"):
                self.assertEqual(texts_of_rows(lists, name), as_bytes(rows[name].to_pylist()), name)
            words = torch.nested.nested_tensor_from_jagged(batch["pairs"], batch["pairs.offsets"]).unbind()
            self.assertEqual([bytes(word.tolist()).decode() for word in words], sum(rows["pairs"].to_pylist(), []))

    def test_nulls_in_lists_of_strings_are_filled(self):
        columns = {"texts": pyarrow.array([["a", None], None, [None, "bc"], []], pyarrow.list_(pyarrow.string())),
                   "pairs": pyarrow.array([["a", None], None, ["b", "c"], ["", "d"]],
                                          pyarrow.list_(pyarrow.string(), 2))}
        codes = pyarrow.array(["a", None, "", "b", "a", "b", "a", None]).dictionary_encode()
        columns["codes"] = pyarrow.FixedSizeListArray.from_arrays(codes, 2)
        columns["large"] = pyarrow.LargeListArray.from_arrays(pyarrow.array([0, 2, 2, 5, 8], pyarrow.int64()), codes)
        path = self.folder / "holes.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
        batch = next(iter(self.loader(paths=path, columns=[], fill=dict.fromkeys(columns, 0), shuffle=False)))
        lists = {name: tensor.tolist() for name, tensor in batch.items()}
        self.assertEqual(texts_of_rows(lists, "texts"), [[b"a", b""], [], [b"", b"bc"], []])
        self.assertEqual(texts_of_rows(lists, "pairs"), [[b"a", b""], [b"", b""], [b"b", b"c"], [b"", b"d"]])
        self.assertEqual(texts_of_rows(lists, "codes"), [[b"a", b""], [b"", b"b"], [b"a", b"b"], [b"a", b""]])
        self.assertEqual(texts_of_rows(lists, "large"), [[b"a", b""], [], [b"", b"b", b"a"], [b"b", b"a", b""]])

    def test_nulls_are_filled(self):
        types = {"b": pyarrow.bool_(), "u8": pyarrow.uint8(), "i8": pyarrow.int8(), "i16": pyarrow.int16(),
                 "i32": pyarrow.int32(), "i64": pyarrow.int64(), "half": pyarrow.float16(), "f": pyarrow.float32(),
                 "d": pyarrow.float64()}
        columns = {name: pyarrow.array([None, numpy.float16(1) if name == "half" else 1, None], pyarrow.float16()
                                       if name == "half" else pyarrow.int64()).cast(type)
                   for name, type in types.items()}
        columns["pair"] = pyarrow.array([[2, None], None, [3, 4]], pyarrow.list_(pyarrow.int32(), 2))
        columns["list"] = pyarrow.array([[2, None], None, [3]], pyarrow.list_(pyarrow.int32()))
        columns["word"] = pyarrow.array(["a", None, "bc"])
        path = self.folder / "nulls.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        fill = {"b": 0, "u8": 255, "i8": -128, "i16": -9, "i32": -(1 << 31), "i64": 1 << 53, "half": 0.5, "f": -0.25,
                "d": 0.1, "pair": 7, "list": 8, "word": 0}
        batch = next(iter(self.loader(paths=path, columns=[], fill=fill, shuffle=False)))
        for name in types:
            self.assertEqual(batch[name].tolist(), [fill[name], 1, fill[name]], name)
        self.assertEqual(batch["pair"].tolist(), [[2, 7], [7, 7], [3, 4]])
        self.assertEqual((batch["list"].tolist(), batch["list.offsets"].tolist()), ([2, 8, 3], [0, 2, 2, 3]))
        self.assertEqual((bytes(batch["word"].tolist()), batch["word.offsets"].tolist()), (b"abc", [0, 1, 1, 3]))
        for bad, words in (({"z": 0}, "no column 'z'"), ({"u8": 256}, "'u8' cannot have the value 256"),
                           ({"i64": 0.5}, "'i64' cannot have the value 0.5"), ({"b": 2}, "'b' cannot"),
                           ({"f": float("nan")}, "'f' cannot have the value nan; give a finite number")):
            self.assertRaisesRegex(ValueError, words, self.loader, paths=path, columns=[], fill=bad)

    def test_times_and_categories(self):
        """Times are numbers of the unit that the file has; dictionaries have their values in place."""
        numbers = [-(1 << 40) - 3, 0, None, 1 << 40]
        times = {"s": pyarrow.timestamp("s"), "ms": pyarrow.timestamp("ms"), "us": pyarrow.timestamp("us", tz="UTC"),
                 "ns": pyarrow.timestamp("ns"), "length": pyarrow.duration("us"), "clock": pyarrow.time64("ns"),
                 "date": pyarrow.date32(), "short": pyarrow.time32("ms")}
        columns = {name: pyarrow.array([n and n % 1000 for n in numbers] if name in ("date", "short", "clock")
                                       else numbers, type) for name, type in times.items()}
        columns["list"] = pyarrow.array([[1], [], None, [2, 3]], pyarrow.list_(pyarrow.timestamp("ms")))
        columns["word"] = pyarrow.array(["one", "", None, "one"]).dictionary_encode()
        columns["code"] = pyarrow.array([7, -1, None, 7], pyarrow.int16()).dictionary_encode()
        path = self.folder / "times.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
        there, fill = parquet.read_table(path), {name: 5 for name in (*times, "list", "word", "code")}
        for shuffle in (False, True):
            batch = next(iter(self.loader(paths=path, columns=[], fill=fill, shuffle=shuffle, batch_size=4)))
            order = [("one", "", None, "one").index(bytes(row.tolist()).decode() or "") for row in
                     torch.nested.nested_tensor_from_jagged(batch["word"], batch["word.offsets"]).unbind()]
            self.assertEqual(sorted(order), [0, 0, 1, 1])
            for name, type in times.items():
                narrow = pyarrow.types.is_date32(type) or pyarrow.types.is_time32(type)
                self.assertEqual(batch[name].dtype, torch.int32 if narrow else torch.int64)
                rows = there[name].cast(pyarrow.int32() if narrow else pyarrow.int64()).fill_null(5).to_pylist()
                self.assertEqual(sorted(batch[name].tolist()), sorted(rows), name)
                if not shuffle:
                    self.assertEqual(batch[name].tolist(), rows, name)
            self.assertEqual(batch["code"].dtype, torch.int16)
            self.assertEqual(sorted(batch["code"].tolist()), [-1, 5, 7, 7])
            self.assertEqual(sorted(batch["list"].tolist()), [1, 2, 3])
        self.assertRaisesRegex(dtrain.DataError, "row group 0: column 'word' has 1 null values, the first in row 2",
                               next, iter(self.loader(paths=path, columns=["word"])))
        other = self.folder / "microseconds.parquet"
        parquet.write_table(pyarrow.table({"ms": pyarrow.array([1], pyarrow.timestamp("us"))}), other)
        self.assertRaisesRegex(dtrain.DataError, r"'ms' is timestamp\[us\], and in .* it is timestamp\[ms\]",
                               self.loader, paths=[path, other], columns=["ms"])
        self.assertRaisesRegex(ValueError, "'us' and 'ns' of 'x' have two types", self.loader, paths=path,
                               columns=[], matrices={"x": ["us", "ns"]})

    def test_order_is_the_same_for_every_world_size(self):
        for window in (WINDOW, "auto"):
            order = self.together(1, window_size_bytes=window)
            for world in (2, 3, 4):
                self.assertEqual(self.together(world, window_size_bytes=window), order)

    def test_resuming_with_another_world_size(self):
        loader = self.loader(window_size_bytes=WINDOW, batch_size=37)
        order, states = [], []
        for batch in loader:
            order += ids([batch])
            states.append(loader.state_dict())
        for number in random.Random(0).sample(range(len(states)), 6):
            for world in (1, 3):
                rest = self.together(world, state=states[number], window_size_bytes=WINDOW)
                self.assertEqual(rest, order[(number + 1) * 37:])
        again = self.loader(window_size_bytes=WINDOW)
        again.load_state_dict(states[-1])
        self.assertEqual((again.epoch, list(again), again.epoch), (0, [], 1))
        self.assertLessEqual(len(states[-1]["state"]), 100)

    def test_a_for_that_was_left_early(self):
        loader = self.loader()
        first = ids([next(iter(loader))])
        self.assertEqual(loader.epoch, 0)
        old = iter(loader)
        second = ids([next(old)])
        self.assertEqual(loader.epoch, 1)
        self.assertNotEqual(first, second)
        loader.set_epoch(0)
        self.assertRaisesRegex(RuntimeError, "newer one", next, old)
        self.assertEqual(ids([next(iter(loader))]), first)

    def test_ranks_of_the_environment_and_of_torch(self):
        explicit = ids(self.loader(rank=1, world_size=3))
        with mock.patch.dict(os.environ, RANK="1", WORLD_SIZE="3"):
            self.assertEqual(ids(self.loader()), explicit)
            self.assertEqual(ids(self.loader(rank=0, world_size=1)), self.together(1))
        for variables in ({"WORLD_SIZE": "3"}, {"RANK": "one", "WORLD_SIZE": "3"}):
            with mock.patch.dict(os.environ, variables):
                self.assertRaisesRegex(ValueError, "RANK is (None|one) and WORLD_SIZE is 3;", self.loader)
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group("fake", rank=1, world_size=3, store=FakeStore())
        self.addCleanup(torch.distributed.destroy_process_group)
        self.assertEqual(ids(self.loader()), explicit)
        self.assertRaisesRegex(ValueError, "both", self.loader, rank=1)

    def test_options_of_the_environment(self):
        with mock.patch.dict(os.environ, DTRAIN_DATASET=str(self.set),
                             DTRAIN_LOADER=f'{{"window_size_bytes": {WINDOW}, "fully_executed": true}}'):
            state = self.loader(paths=None).state_dict()
            self.assertEqual(state, self.loader(window_size_bytes=WINDOW).state_dict())
            self.assertNotEqual(state, self.loader(window_size_bytes=None).state_dict())
        for text, words in (('{"window": 3}', "no key 'window'"), ("{", "DTRAIN_LOADER: it is no JSON object")):
            with mock.patch.dict(os.environ, DTRAIN_LOADER=text):
                self.assertRaisesRegex(ValueError, words, self.loader)

    def test_fully_executed_reads_all_before_the_first_batch(self):
        draw = numpy.random.default_rng(0)
        path = self.folder / "read.parquet"
        parquet.write_table(pyarrow.table({"id": draw.integers(0, 1 << 60, 500_000)}), path, row_group_size=4000,
                            compression="none", use_dictionary=False)

        def read_until_first_batch(**options):
            def count():
                return int(pathlib.Path("/proc/self/io").read_text().split()[1])  # rchar
            loader, before = self.loader(paths=path, window_size_bytes=100_000, prefetch=1, **options), count()
            next(iter(loader))
            loader.close()
            return count() - before

        self.assertLess(read_until_first_batch(), path.stat().st_size // 2)
        self.assertGreaterEqual(read_until_first_batch(fully_executed=True), path.stat().st_size)

    def test_no_value_is_copied(self):
        """torch's tensor lies where the loader has put the values, and its memory is given back."""
        library, handle = _loader._library(), ctypes.c_void_p()
        options = f'{{"paths": ["{self.set}"], "columns": ["id"], "batch_size": 100}}'.encode()
        self.assertEqual(library.open_in(options, None, ctypes.byref(handle)), 0)
        self.addCleanup(library.close, handle)
        pointers, rows = (ctypes.c_void_p * 1)(), _loader._Rows()
        self.assertEqual(library.next(handle, -1, pointers, ctypes.byref(rows)), 0)
        values = ctypes.c_void_p.from_address(pointers[0]).value  # DLTensor's first member
        tensor = torch.from_dlpack(_loader._new_capsule(pointers[0], _loader._CAPSULE, None))
        self.assertEqual(tensor.data_ptr(), values)
        self.assertEqual((len(tensor), rows.rows), (100, 100))

        columns = {f"f{at}": numpy.zeros(100_000, numpy.float32) for at in range(100)}  # 40 MB
        path = self.folder / "wide.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=10_000)
        loader, seen = self.loader(paths=path, columns=[], matrices={"x": list(columns)}, batch_size=1000,
                                   window_size_bytes=8_000_000), []
        for _ in range(3):
            for batch in loader:
                seen.append(int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096)
        self.assertEqual(batch["x"].shape, (1000, 100))
        self.assertLess(seen[-1] - seen[50], 20_000_000)

    def test_tensors_outlive_the_loader(self):
        loader = self.loader(shuffle=False)
        batch = next(iter(loader))
        loader.close()
        loader.close()
        self.assertEqual(batch["id"].tolist(), list(range(64)))
        self.assertRaisesRegex(RuntimeError, "closed", len, loader)

    def test_errors_are_exceptions_with_the_text(self):
        for error, options, words in [
                (ValueError, {"batch_size": 0}, "dtrain: ParquetLoader: batch_size is 0"),
                (ValueError, {"batch_size": 1.5}, "batch_size is 1.5; it must be a whole number"),
                (ValueError, {"columns": "id"}, "columns is 'id'; it must be a list of names"),
                (ValueError, {"matrices": {"x": "id"}}, "matrices: 'x' is 'id'; it must be a list of names"),
                (ValueError, {"window_size_bytes": "all"}, "window_size_bytes is \"all\"; it must be"),
                (ValueError, {"paths": []}, "paths is empty"),
                (dtrain.DataError, {"columns": ["z"]}, "0.parquet: it has no column 'z'"),
                (dtrain.DataError, {"paths": "gone"}, "gone: No such file"),
                (dtrain.DataError, {"window_size_bytes": 4000}, "do not fit into window_size_bytes = 4000")]:
            with self.assertRaises(error) as caught:
                self.loader(**options)
            self.assertIn(words, str(caught.exception))
        loader = self.loader()
        for epoch in -1, 2**63:
            self.assertRaisesRegex(ValueError, f"epoch is {epoch}; it must be a whole number", loader.set_epoch, epoch)
        self.assertRaisesRegex(ValueError, "no text of state", loader.load_state_dict, {"state": "rows1-x"})
        self.assertRaisesRegex(ValueError, "nothing that state_dict", loader.load_state_dict, {"other": 1})
        broken = self.folder / "broken.parquet"
        parquet.write_table(table(0, 3000).select(["id"]), broken, compression="none", use_dictionary=False)
        with open(broken, "r+b") as file:
            file.seek(4)
            file.write(b"\x7f" * 100)
        loader = self.loader(paths=broken)
        for _ in range(2):
            self.assertRaisesRegex(dtrain.DataError, "broken.parquet, row group 0, column 'id'", next, iter(loader))

    def test_it_says_when_training_waits(self):
        """A program that does nothing but ask for batches waits; one that takes long for each does not."""
        draw = numpy.random.default_rng(0)
        path = self.folder / "slow.parquet"
        numbers = draw.integers(0, 1 << 60, 500_000)
        parquet.write_table(pyarrow.table({"id": numbers}), path, row_group_size=20_000)
        text = """
            import time, dtrain
            loader = dtrain.ParquetLoader("%s", batch_size=20_000, window_size_bytes=1_000_000)
            begin, batches = time.monotonic(), 0
            while time.monotonic() < begin + 2.5:
                for batch in loader:
                    batches += 1
                    %s
            times = loader.times()
            assert times["batches"] == batches, (times, batches)
            assert times["seconds"] <= time.monotonic() - begin, times
            print(times["waited"] / times["seconds"], times["ahead"] / times["seconds"],
                  sum(times[part] for part in ("disk", "decode", "copy", "ahead")) / times["seconds"])
        """
        waits = self.program(text % (path, ""))
        works = self.program(text % (path, "time.sleep(0.05)"))  # tidy: allow sleep, because it stands for a program
        out, error = waits.communicate(timeout=30)
        waited, ahead, all_of_it = map(float, out.split())
        self.assertRegex(error, r"^dtrain: ParquetLoader: training waited for data \d+ % of the last \d s\. The "
                         r"reader: disk \d+ %, decode \d+ %, copy \d+ %, ahead \d+ %\. \w.*\n$")
        self.assertGreater(waited, 0.3)
        self.assertAlmostEqual(all_of_it, 1, delta=0.3)
        out, error = works.communicate(timeout=30)
        waited, ahead, all_of_it = map(float, out.split())
        self.assertEqual(error, "")
        self.assertLess(waited, 0.1)
        self.assertGreater(ahead, 0.3)

    def test_without_the_library(self):
        with mock.patch.object(_loader, "__file__", str(self.folder / "_loader.py")):
            with self.assertRaisesRegex(ImportError, "not in this package. Build dtrain where pip has installed py"):
                _loader._library.__wrapped__()

    def program(self, text):
        return subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_ctrl_c_ends_a_wait_and_the_end_of_a_program_its_threads(self):
        """The first batch of 30 million rows takes seconds. Each way the program ends before it."""
        path = self.folder / "many.parquet"
        parquet.write_table(pyarrow.table({"zero": numpy.zeros(30_000_000, numpy.int8)}), path,
                            row_group_size=1_000_000)
        waits = self.program(f"""
            import dtrain
            loader = dtrain.ParquetLoader("{path}", batch_size=10)
            print("waits", flush=True)
            for batch in loader:
                print("a batch", flush=True)
        """)
        ends = self.program(f"""
            import os, threading
            import dtrain
            loader = dtrain.ParquetLoader("{path}", batch_size=10)
            def wait():
                try:
                    next(iter(loader))
                except RuntimeError:  # the end of the program has closed it
                    pass
            threading.Thread(target=wait, daemon=True).start()
            child = os.fork()
            if child == 0:
                try:
                    len(loader)
                except RuntimeError as error:
                    print(error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
        """)
        self.assertEqual(waits.stdout.readline(), "waits\n")
        waits.send_signal(signal.SIGINT)
        out, error = waits.communicate(timeout=30)
        self.assertEqual(out, "")
        self.assertIn("KeyboardInterrupt", error)
        out, error = ends.communicate(timeout=30)
        self.assertIn("before fork()", out)
        self.assertEqual((ends.returncode, error), (0, ""))


if __name__ == "__main__":
    unittest.main()
