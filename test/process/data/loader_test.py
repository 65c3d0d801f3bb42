#!/usr/bin/env python3
"""ParquetLoader against pyarrow: rows of an epoch, order for each world size, resuming, errors, memory."""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import numpy
import pyarrow
import pyarrow.parquet as parquet

from tables import ALL, GROUP, ROWS, as_bytes, ragged_table, table, texts_of_rows, texts_table, write_set, write_tables

WORKER = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "loader_worker")


class Loader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-loader-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.set = write_set(cls.folder / "set")
        cls.worker = subprocess.Popen([WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end_worker)

    @classmethod
    def end_worker(cls):
        cls.worker.stdin.close()
        cls.worker.wait(timeout=30)
        cls.worker.stdout.close()

    def ask(self, options=None, **job):
        """The worker's answer to a job with the set of this test, unless the options say otherwise."""
        job["options"] = {"paths": [str(self.set)], "columns": ["id"], **(options or {})}
        self.worker.stdin.write(json.dumps(job) + "\n")
        self.worker.stdin.flush()
        answer = json.loads(self.worker.stdout.readline())
        return answer

    def ids(self, **options):
        answer = self.ask(options)
        return [row for batch in answer["epochs"][0] for row in batch["ids"]]

    def write(self, name, *tables, **options):
        return write_tables(self.folder / name, *tables, **options)

    def error(self, kind, options, **job):
        answer = self.ask(options, **job)
        self.assertIn(kind, answer, answer)
        self.assertNotIn("\n", answer[kind])
        return answer[kind]

    # Row of 8 bytes, of which 400 enter as one: 600 to 3000 of 3701 rows wait.
    WINDOWS = (0, 8 * GROUP + 16 * 2048, 8 * GROUP + 16 * 3000)

    def test_rows_of_an_epoch_are_those_that_pyarrow_reads(self):
        there = sorted(parquet.read_table([str(self.set / f"{n}.parquet") for n in range(len(ROWS))],
                                          columns=["id"])["id"].to_pylist())
        for window in self.WINDOWS:
            ids = self.ids(window=window, batch_size=100)
            self.assertEqual(sorted(ids), there)
            self.assertNotEqual(ids, there)
            self.assertNotEqual(self.ids(window=window, batch_size=100, seed=1), ids)
        self.assertEqual(self.ids(shuffle=False), there)

    def test_values_and_types(self):
        """Every column of every row, as pyarrow reads them."""
        answer = self.ask({"columns": ["id", "odd", "small", "byte", "short", "int", "half", "double", "pair"],
                           "matrices": {"x": ["b", "a"]}, "window": 40 * 4000, "batch_size": 500}, values=True)
        whole = table(0, ALL)
        types = {"id": "Long", "odd": "Bool", "small": "Char", "byte": "Byte", "short": "Short", "int": "Int",
                 "half": "Half", "double": "Double", "pair": "Float", "x": "Float"}
        for batch in answer["epochs"][0]:
            rows = whole.take(batch["ids"])
            self.assertEqual(set(batch["tensors"]), set(types))
            for name, tensor in batch["tensors"].items():
                self.assertEqual(tensor["type"], types[name])
                self.assertEqual(tensor["shape"], [batch["rows"]] + ([2] if name in ("x", "pair") else []))
                if name == "x":
                    expected = numpy.stack([rows["b"], rows["a"]], axis=1).reshape(-1)
                elif name == "pair":
                    expected = rows["pair"].combine_chunks().flatten().to_numpy()
                else:
                    expected = rows[name].to_numpy()
                numpy.testing.assert_array_equal(numpy.array(tensor["values"]), expected.astype(numpy.float64))

    def test_without_names_every_column_is_a_tensor(self):
        answer = self.ask({"columns": []}, batches=1, values=True)
        self.assertEqual(set(answer["epochs"][0][0]["tensors"]), set(table(0, 1).column_names))

    def ragged(self, name, rows=4001):
        """Files with columns whose rows differ in length, and what pyarrow reads from them."""
        columns, third = ragged_table(rows), rows // 3
        return self.write(name, columns[:third], columns[third:], row_group_size=GROUP, compression="zstd"), columns

    def test_rows_that_differ_in_length(self):
        """Strings, binary and lists: values and offsets, on each rank, also where rows are repeated."""
        folder, columns = self.ragged("ragged")
        rows = {name: columns[name].to_pylist() for name in columns.column_names}
        rows["word"] = [word.encode() for word in rows["word"]]
        types = {"word": "Byte", "blob": "Byte", "list": "Long", "flags": "Bool", "large": "Float"}
        for window, world in ((0, 1), (1_000_000, 4)):
            options = {"paths": [str(folder)], "columns": [], "window": window, "batch_size": 101, "world_size": world}
            seen, repeated = [], 0
            for rank in range(world):
                for batch in self.ask({**options, "rank": rank}, values=True)["epochs"][0]:
                    self.assertEqual(len(batch["tensors"]), 2 + 2 * len(types))
                    for name, type in types.items():
                        tensor, offsets = batch["tensors"][name], batch["tensors"][f"{name}.offsets"]
                        self.assertEqual([tensor["type"], offsets["type"]], [type, "Long"])
                        self.assertEqual(offsets["shape"], [batch["rows"] + 1])
                        self.assertEqual(tensor["shape"], [offsets["values"][-1]])
                        for at, row in enumerate(batch["ids"]):
                            begin, end = (int(offsets["values"][place]) for place in (at, at + 1))
                            self.assertEqual(tensor["values"][begin:end], list(rows[name][row]), (name, row))
                    seen += batch["ids"][:batch["rows"] - batch["repeated"]]
                    repeated += batch["repeated"]
            self.assertEqual(sorted(seen), rows["id"])
            self.assertNotEqual(seen, rows["id"])
            self.assertEqual(repeated, 0 if world == 1 else 4 * 92 - 365)

    def test_rows_that_differ_in_length_in_the_order_of_the_files(self):
        folder, columns = self.ragged("straight")
        batches = self.ask({"paths": [str(folder)], "columns": ["word"], "shuffle": False}, values=True)["epochs"][0]
        letters = [letter for batch in batches for letter in batch["tensors"]["word"]["values"]]
        self.assertEqual(bytes(map(int, letters)), "".join(columns["word"].to_pylist()).encode())
        self.assertIn("window_size_bytes = 9000",
                      self.error("data_error", {"paths": [str(folder)], "columns": ["id", "word"], "window": 9000}))

    TEXTS = ("words", "blobs", "pairs", "coded")

    def texts(self, name, rows=4001):
        columns, third = texts_table(rows), rows // 3
        folder = self.write(name, columns[:third], columns[third:], row_group_size=GROUP, compression="zstd")
        return folder, parquet.read_table(folder)

    def check_texts(self, batch, there):
        """Every column of every row of a batch is as pyarrow reads it."""
        rows = there.take(batch["ids"])
        lists = {name: tensor["values"] for name, tensor in batch["tensors"].items()}
        self.assertEqual(len(lists), 2 + 2 + 3 * len(self.TEXTS))
        for name in self.TEXTS:
            types = [batch["tensors"][name + end]["type"] for end in ("", ".offsets", ".rows")]
            self.assertEqual(types, ["Byte", "Long", "Long"])
            self.assertEqual(texts_of_rows(lists, name), as_bytes(rows[name].to_pylist()), name)
        self.assertEqual(lists["small"], rows["small"].to_pylist())
        self.assertEqual(bytes(map(int, lists["word"])), "".join(rows["word"].to_pylist()).encode())

    def test_lists_of_strings(self):
        """Also empty ones, of a size, and of dictionaries, on each rank, also where rows are repeated."""
        folder, there = self.texts("lists")
        options = {"paths": [str(folder)], "columns": [], "batch_size": 101}
        orders = []
        for window, world in ((0, 1), (900_000, 3)):
            ranks = []
            for rank in range(world):
                ranks.append(self.ask({**options, "window": window, "world_size": world, "rank": rank},
                                      values=True)["epochs"][0])
            for batches in ranks:
                for batch in batches:
                    self.check_texts(batch, there)
            orders.append([row for batches in zip(*ranks) for batch in batches
                           for row in batch["ids"][:batch["rows"] - batch["repeated"]]])
            self.assertEqual(sorted(orders[-1]), list(range(4001)))
        self.assertNotEqual(*orders)
        self.assertNotEqual(orders[1], list(range(4001)))
        straight = self.ask({**options, "shuffle": False}, values=True)["epochs"][0]
        self.assertEqual([row for batch in straight for row in batch["ids"]], list(range(4001)))
        for batch in straight:
            self.check_texts(batch, there)

    def test_going_on_with_lists_of_strings(self):
        folder, _ = self.texts("on")
        options = {"paths": [str(folder)], "columns": [], "batch_size": 101, "window": 900_000}
        batches = self.ask(options, values=True)["epochs"][0]
        went_on = self.ask(options, values=True, state=batches[20]["state"])["epochs"][0]
        self.assertEqual(went_on, batches[21:])

    def test_lists_of_strings_that_cannot_be_read(self):
        """Each in one line."""
        texts = pyarrow.list_(pyarrow.string())
        clash = self.write("clash", pyarrow.table({"word": pyarrow.array([["a"]], texts), "word.rows": [1]}))
        self.assertIn("two tensors are called 'word.rows'",
                      self.error("config_error", {"paths": [str(clash)], "columns": []}))
        self.assertIn("has lists or strings", self.error("config_error", {
            "paths": [str(clash)], "columns": [], "matrices": {"x": ["word"]}}))
        self.assertEqual(len(self.ask({"paths": [str(clash)], "columns": ["word"]}, values=True)
                             ["epochs"][0][0]["tensors"]), 3)
        holes = {"text": pyarrow.array([["a"], [], [], ["b", None], ["c", None]], texts),
                 "list": pyarrow.array([[], ["a"], [""], None, ["b"]], texts),
                 "fixed": pyarrow.array([["a", "b"]] * 3 + [[None, "c"], ["", ""]], pyarrow.list_(pyarrow.string(), 2))}
        folder = self.write("holes in lists", pyarrow.table(holes))
        for name, count in (("text", 2), ("list", 1), ("fixed", 1)):
            error = self.error("data_error", {"paths": [str(folder)], "columns": [name]})
            self.assertIn(f"0.parquet, row group 0: column '{name}' has {count} null values, the first in row 3;",
                          error)
        two = self.write("two types", pyarrow.table({"a": pyarrow.array([["a"]], texts)}), pyarrow.table({"a": ["a"]}))
        error = self.error("data_error", {"paths": [str(two)], "columns": []})
        self.assertIn("'a' is rows of any number of uint8", error)
        self.assertIn("0.parquet it is lists of strings", error)

    def test_lists_without_a_string(self):
        lists = pyarrow.array([[], []] * 300, pyarrow.list_(pyarrow.string()))
        folder = self.write("stringless", pyarrow.table({"id": range(600), "words": lists}), row_group_size=200)
        for options in ({}, {"shuffle": False}):
            batches = self.ask({"paths": [str(folder)], "columns": [], **options}, values=True)["epochs"][0]
            for batch in batches:
                tensors = batch["tensors"]
                self.assertEqual([tensors[f"words{end}"]["values"] for end in ("", ".offsets", ".rows")],
                                 [[], [0], [0] * (batch["rows"] + 1)])

    def test_nulls_say_where_they_are(self):
        ids = list(range(10))
        holes = {"word": pyarrow.array(["a"] * 7 + [None, "b", None]),
                 "list": pyarrow.array([[1], [], [2, 3]] + [[]] * 4 + [[1, None]] + [[1]] * 2,
                                       pyarrow.list_(pyarrow.int32())),
                 "none": pyarrow.array([[1]] * 7 + [None] + [[1]] * 2, pyarrow.list_(pyarrow.int32())),
                 "pair": pyarrow.array([[1, 2]] * 7 + [[1, None]] * 3, pyarrow.list_(pyarrow.int32(), 2)),
                 "number": pyarrow.array([1] * 7 + [None] + [1] * 2, pyarrow.int64())}
        folder = self.write("holes", pyarrow.table({"id": ids, **holes}))
        for name, count in (("word", 2), ("list", 1), ("none", 1), ("pair", 3), ("number", 1)):
            error = self.error("data_error", {"paths": [str(folder)], "columns": [name]})
            self.assertIn(f"0.parquet, row group 0: column '{name}' has {count} null values, the first in row 7;",
                          error)

    def test_footers_that_are_too_large_to_keep(self):
        """The first footer takes more than half a megabyte, so that of the second file is read with each row group."""
        wide = pyarrow.table({"id": numpy.arange(750), **{f"f{at}": numpy.zeros(750) for at in range(39)}})
        folder = self.write("many", wide, row_group_size=5)
        self.assertGreater(parquet.read_metadata(folder / "0.parquet").serialized_size, 500_000)
        parquet.write_table(wide.set_column(0, "id", pyarrow.array(numpy.arange(750, 1500))), folder / "1.parquet",
                            row_group_size=300)
        self.assertEqual(self.ids(paths=[str(folder)], shuffle=False), list(range(1500)))

    def test_order_is_the_same_for_every_world_size(self):
        window = self.WINDOWS[1]
        order = self.ids(window=window)
        for world in (2, 3, 4):
            ranks = [self.ask({"window": window, "batch_size": 50, "rank": rank, "world_size": world})["epochs"][0]
                     for rank in range(world)]
            self.assertEqual(len({len(batches) for batches in ranks}), 1)
            together = []
            for batches in zip(*ranks):
                self.assertEqual(len({batch["rows"] for batch in batches}), 1)
                self.assertEqual(len({batch["state"] for batch in batches}), 1)
                for batch in batches:
                    together += batch["ids"][:batch["rows"] - batch["repeated"]]
            self.assertEqual(together, order)

    def test_resuming_with_another_world_size_gives_the_exact_rest(self):
        for window in self.WINDOWS:
            order = self.ids(window=window)
            states = self.ask({"window": window, "batch_size": 37})["epochs"][0]
            draw = random.Random(window)
            for number in draw.sample(range(len(states)), 12):
                done, state = (number + 1) * 37, states[number]["state"]
                self.assertLessEqual(len(state), 100)
                world, rest = draw.choice((2, 3)), {}
                for rank in range(world):
                    batches = self.ask({"window": window, "batch_size": 64, "rank": rank, "world_size": world},
                                       state=state)["epochs"][0]
                    for at, batch in enumerate(batches):
                        rest.setdefault(at, []).extend(batch["ids"][:batch["rows"] - batch["repeated"]])
                self.assertEqual([row for at in sorted(rest) for row in rest[at]], order[done:])

    def test_epochs_follow_each_other(self):
        answer = self.ask({"batch_size": 1000}, epochs=3)
        self.assertEqual([len(batches) for batches in answer["epochs"]], [4, 4, 4])
        first, second, third = ([row for batch in batches for row in batch["ids"]] for batches in answer["epochs"])
        self.assertEqual(sorted(first), sorted(second))
        self.assertNotEqual(first, second)
        self.assertEqual(answer["epoch"], 3)
        after = self.ask({"batch_size": 1000}, state=answer["epochs"][1][-1]["state"], epochs=2)
        self.assertEqual(after["epochs"][0], [], "the second epoch is over")
        self.assertEqual([row for batch in after["epochs"][1] for row in batch["ids"]], third)

    def test_drop_last(self):
        answer = self.ask({"batch_size": 100, "drop_last": True, "world_size": 2})
        self.assertEqual(answer["loader"], {"rows": ALL, "batches": ALL // 200})
        self.assertEqual({batch["rows"] for batch in answer["epochs"][0]}, {100})
        self.assertIn("less than one global batch", self.error("config_error", {"batch_size": 4000, "drop_last": True}))

    def test_states_of_others_are_refused(self):
        state = self.ask({"window": self.WINDOWS[1]}, batches=1)["state"]
        other = str(self.write("other", table(0, 4000), row_group_size=GROUP))
        for options, word in [({"window": self.WINDOWS[2]}, "window_size_bytes"), ({"shuffle": False}, "shuffle"),
                              ({"window": self.WINDOWS[1], "seed": 3}, "seed"),
                              ({"window": self.WINDOWS[1], "paths": [other]}, "other files")]:
            self.assertIn(word, self.error("config_error", options, state=state))
        self.assertIn("no text of state()", self.error("config_error", {}, state="rows1-x"))
        # The window that a loader chooses by itself may be another one some day; the order of the epoch must not.
        window = self.ask({"window": self.WINDOWS[1]})["epochs"][0]
        went_on = self.ask({"window": -1}, state=window[0]["state"])["epochs"][0]
        self.assertEqual(went_on[0]["ids"], window[1]["ids"])

    def test_pinned_memory(self):
        """Torch knows its memory, and batches have the same values there. Where there is no GPU it is usual memory."""
        words = self.write("pinned", pyarrow.table({"id": range(200), "word": ["", "one", "", "forty-two"] * 50,
                                                    "none": [""] * 200}))
        for options in ({"columns": ["id", "half", "odd", "pair"], "matrices": {"x": ["b", "a"]}},
                        {"paths": [str(words)], "columns": []}):
            usual = self.ask({**options, "pin_memory": "automatic"}, values=True)["epochs"][0]
            batches = self.ask(options, memory=True)["batches"]
            for batch in batches:
                self.assertEqual(set(batch.pop("of_torch").values()), {True})
            self.assertEqual(batches, usual)

    def test_options_that_make_no_sense(self):
        names = self.write("names", pyarrow.table({"word": ["a"], "word.offsets": [1]}))
        for options, words in [
                ({"batch_size": 0}, "batch_size is 0"), ({"rank": 2, "world_size": 2}, "rank 2 of 2"),
                ({"prefetch": 0}, "prefetch"), ({"window": -2}, "window_size_bytes is -2"),
                ({"paths": []}, "paths is empty"),
                ({"columns": ["id", "id"]}, "asked for twice"),
                ({"pin_memory": "yes"}, "pin_memory: torch finds no GPU of CUDA or ROCm here"),
                ({"matrices": {"x": []}}, "has no columns"), ({"matrices": {"id": ["a"]}}, "two tensors"),
                ({"matrices": {"x": ["a", "int"]}}, "two types"), ({"matrices": {"x": ["pair"]}}, "has lists"),
                ({"columns": [], "paths": [str(names)]}, "two tensors are called 'word.offsets'"),
                ({"matrices": {"x": ["word"]}, "columns": [], "paths": [str(names)]}, "has lists or strings")]:
            self.assertIn(words, self.error("config_error", options))

    def test_files_that_cannot_be_read(self):
        """One line each, with the file, and the column where there is one."""
        empty = self.folder / "empty.parquet"
        empty.touch()
        text = self.folder / "text.parquet"
        text.write_text("no Parquet, but longer than the least file\n")
        cut = self.folder / "cut.parquet"
        cut.write_bytes((self.set / "0.parquet").read_bytes()[:-2000])
        bare = self.folder / "bare"
        bare.mkdir()
        lists = pyarrow.table({"id": [1], "lists": [[["a"]]], "structs": [[{"a": "b"}]], "map": [{"a": 1}]})
        odd = self.write("odd", lists)
        short = table(0, 10).drop_columns(["a"])
        retyped = table(0, 10).set_column(1, "a", pyarrow.array(numpy.zeros(10)))
        nulls = pyarrow.table({"id": pyarrow.array([1, None, 3], pyarrow.int64())})
        for options, words in [
                ({"paths": [str(empty)]}, [str(empty), "empty"]), ({"paths": [str(text)]}, [str(text), "magic bytes"]),
                ({"paths": [str(cut)]}, [str(cut)]), ({"paths": [str(bare)]}, [str(bare), "no file"]),
                ({"paths": [str(self.folder / "gone")]}, ["gone", "No such file"]),
                ({"columns": ["id", "z"]}, [str(self.set / "0.parquet"), "no column 'z'", "double"]),
                *[({"paths": [str(odd)], "columns": [name]}, ["0.parquet", f"'{name}' is {type}"])
                  for name, type in (("lists", "list<"), ("structs", "list<"), ("map", "struct<"))],
                ({"paths": [str(self.write("short", table(0, 10), short))], "columns": []},
                 ["1.parquet", "no column 'a'"]),
                ({"paths": [str(self.write("long", short, table(0, 10)))], "columns": []},
                 ["1.parquet", "'a', which"]),
                ({"paths": [str(self.write("retyped", table(0, 10), retyped))], "columns": ["id", "a"]},
                 ["1.parquet", "'a' is float64", "0.parquet it is float32"]),
                ({"paths": [str(self.write("rowless", table(0, 0)))]}, ["no rows"]),
                ({"paths": [str(self.write("nulls", nulls))]}, ["0.parquet, row group 0", "'id' has 1 null"]),
                ({"window": 4000}, [str(self.set / "0.parquet"), "row group 0", "400 rows of 8 bytes",
                                    "window_size_bytes"])]:
            with self.subTest(words=words):
                error = self.error("data_error", options)
                for word in words:
                    self.assertIn(word, error)

    def test_a_file_that_breaks_on_the_way(self):
        """next() says it; with checksums a changed value is an error, too."""
        for name, checksum, at in (("page", False, 4), ("sum", True, 1000)):  # a page's header, and its values
            tables = [table(first, 3000).select(["id", "a"]) for first in (0, 3000)]
            folder = self.write(name, *tables, row_group_size=500, compression="none", use_dictionary=False,
                                write_page_checksum=checksum)
            answer = self.ask({"paths": [str(folder)], "shuffle": False, "prefetch": 1},
                              at=at, **{"break": str(folder / "1.parquet")})
            self.assertIn(f"{folder}/1.parquet, row group 0, column 'id'", answer["data_error"])
            self.assertGreaterEqual(len(answer["epochs"][0]), 1)

    def test_memory_and_a_quick_end(self):
        """The window bounds what is taken of 64 MB of rows; a loader ends while it reads."""
        columns = {f"f{at}": numpy.random.default_rng(at).random(400_000, dtype=numpy.float32) for at in range(40)}
        folder = str(self.write("wide", pyarrow.table(columns), row_group_size=10_000, compression="none",
                                use_dictionary=False))
        options = {"paths": [folder], "columns": [], "matrices": {"x": list(columns)}, "batch_size": 1000,
                   "prefetch": 4}
        batches = 5 * 1000 * 160
        taken = [self.ask({**options, "window": window}, quiet=True)["memory"] for window in (8_000_000, 16_000_000)]
        # The footer and what torch and Arrow take once are in it.
        self.assertLess(taken[0], 1.1 * (8_000_000 + batches) + 6_000_000)
        self.assertLess(taken[1], 1.1 * (16_000_000 + batches) + 6_000_000)
        self.assertLess(self.ask({**options, "window": 0}, batches=1, quiet=True)["end_s"], 0.5)

    def test_memory_of_rows_that_differ_in_length(self):
        """64 MB of strings of 0 to 640 letters, whose footers say how long they are."""
        draw = random.Random(0)
        letters = draw.randbytes(1000)
        words = pyarrow.array([letters[:draw.randrange(641)] for _ in range(200_000)], pyarrow.binary())
        folder = str(self.write("texts", pyarrow.table({"word": words}), row_group_size=5_000, compression="none"))
        options = {"paths": [folder], "columns": [], "batch_size": 1000, "prefetch": 4}
        batches = 5 * 1000 * 330
        taken = self.ask({**options, "window": 16_000_000}, quiet=True)["memory"]
        self.assertLess(taken, 1.1 * (16_000_000 + batches) + 6_000_000)

    def test_memory_of_lists_of_strings(self):
        """32 MB of strings of 0 to 64 letters, 0 to 20 in a row. A batch has 8 bytes for each."""
        draw = random.Random(0)
        letters = draw.randbytes(1000)
        rows = [[letters[:draw.randrange(65)] for _ in range(draw.randrange(21))] for _ in range(100_000)]
        folder = str(self.write("lists of texts", pyarrow.table({"a": pyarrow.array(
            rows, pyarrow.list_(pyarrow.binary()))}), row_group_size=5_000, compression="none"))
        batches = 5 * 1000 * (320 + 90)
        taken = self.ask({"paths": [folder], "columns": [], "batch_size": 1000, "prefetch": 4, "window": 16_000_000},
                         quiet=True)["memory"]
        self.assertLess(taken, 1.1 * (16_000_000 + batches) + 6_000_000)


if __name__ == "__main__":
    unittest.main()
