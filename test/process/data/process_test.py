#!/usr/bin/env python3
"""dtrain-data process against pyarrow and numpy: values of every step, rows and their order, errors, memory, a kill."""
import collections
import json
import os
import pathlib
import pty
import subprocess
import tempfile
import time
import unittest

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as parquet

PROGRAM = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain-data")
ROWS = 3000


def raw():
    draw = numpy.random.default_rng(3)
    ids = numpy.arange(ROWS)
    holes = draw.random(ROWS) < 0.1
    return pyarrow.table({
        "id": ids,
        "x": pyarrow.array(draw.normal(5, 3, ROWS), mask=holes),
        "n": draw.integers(-100, 100, ROWS).astype(numpy.int32),
        "city": pyarrow.array([f"city {min(number, 9)}" for number in draw.geometric(0.3, ROWS)], mask=holes),
        "yes": ids % 3 == 0,
    })


class Process(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-process-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.number = 0
        cls.raw = raw()
        halves = [cls.raw.slice(0, 1000), cls.raw.slice(1000)]
        for ending in ("parquet", "csv", "json", "arrow"):
            (cls.folder / ending).mkdir()
        for number, half in enumerate(halves):
            parquet.write_table(half, cls.folder / f"parquet/{number}.parquet", row_group_size=300)
            pyarrow.csv.write_csv(half, cls.folder / f"csv/{number}.csv")
            lines = "".join(json.dumps(row) + "\n" for row in half.to_pylist())
            (cls.folder / f"json/{number}.json").write_text(lines)
            pyarrow.feather.write_feather(half, cls.folder / f"arrow/{number}.arrow", chunksize=300)
        (cls.folder / "parquet/_SUCCESS").touch()

    def place(self):
        type(self).number += 1
        folder = self.folder / f"made-{self.number}"
        folder.mkdir()
        return folder

    def start(self, recipe, folder, **options):
        path = folder.with_suffix(".recipe")
        path.write_text(json.dumps(recipe))
        return subprocess.Popen([PROGRAM, "process", path, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **options)

    def make(self, recipe):
        """The folder that it filled, and what it said."""
        folder = self.place()
        with self.start(recipe, folder) as program:
            out, error = program.communicate(timeout=60)
        self.assertEqual((program.returncode, error), (0, ""))
        return folder, json.loads(out)

    def rows(self, folder, part="train"):
        files = sorted((folder / part).iterdir())
        self.assertEqual([file.name for file in files], [f"part-{at:05}.parquet" for at in range(len(files))])
        tables = [parquet.read_table(file) for file in files]
        self.assertEqual(len({str(one.schema) for one in tables}), 1)
        return pyarrow.concat_tables(tables)

    def made(self, **recipe):
        return self.rows(self.make({"input": [str(self.folder / "parquet")], **recipe})[0])

    def in_order(self, *steps, **recipe):
        return self.made(steps=list(steps), shuffle=False, **recipe)

    def refused(self, recipe, *words, code):
        folder = self.place()
        with self.start(recipe, folder) as program:
            out, error = program.communicate(timeout=60)
        self.assertEqual((program.returncode, out), (code, ""), error)
        self.assertEqual(error.count("\n"), 1, error)
        for word in words:
            self.assertIn(str(word), error)
        self.assertEqual(list(folder.iterdir()), [])

    # Rows

    def test_each_format_gives_the_same_rows(self):
        for ending in ("parquet", "csv", "json", "arrow"):
            with self.subTest(ending):
                folder, report = self.make({"input": [str(self.folder / ending / "*")], "shuffle": False,
                                            "steps": [{"cast": {"n": "int32"}}]})
                self.assertTrue(self.rows(folder).equals(self.raw))
                self.assertEqual(report["rows_read"], ROWS)

    def test_a_csv_file_that_begins_with_blank_lines_and_has_a_name_in_latin_1(self):
        path = self.folder / "blank.csv"
        for begin in (b"", b"\r\n\n", b"\xef\xbb\xbf\n"):
            path.write_bytes(begin + b"caf\xe9,b\n1,x\n2,y\n")
            folder, _ = self.make({"input": [str(path)], "shuffle": False})
            self.assertEqual(self.rows(folder)[1].to_pylist(), ["x", "y"])
            self.assertEqual(json.loads((folder / "recipe.json").read_text())["columns"][0]["name"], "caf\ufffd")

    def test_shuffled_rows_are_the_same_rows_for_any_threads_memory_and_partitions(self):
        order = self.made()["id"].to_pylist()
        self.assertEqual(sorted(order), list(range(ROWS)))
        self.assertNotEqual(order[:100], sorted(order[:100]))
        self.assertNotEqual(self.made(seed=1)["id"].to_pylist(), order)
        self.assertEqual(self.made(parallelism=2, persist=False)["id"].to_pylist(), order)

    def test_the_same_bytes_for_1_and_3_threads(self):
        steps = [{"fill": {"x": "mean"}}, {"normalize": {"x": "zscore"}}, {"dedup": ["n", "city"]},
                 {"vocabulary": {"city": {"size": 4, "output": "one_hot"}}}]
        for shuffle in (True, False):
            files = []
            for threads, persist in ((1, True), (3, True), (3, False)):
                folder, report = self.make({"input": [str(self.folder / "csv")], "steps": steps, "threads": threads,
                                            "persist": persist, "shuffle": shuffle, "row_group_rows": 100,
                                            "split": {"train": 0.8, "test": 0.2}})
                self.assertEqual(report["threads"], threads)
                files.append({str(path.relative_to(folder)): path.read_bytes()
                              for path in folder.rglob("*.parquet")})
            self.assertEqual(files[0], files[1])
            self.assertEqual(files[0], files[2])

    def test_label_sorted_rows_come_out_mixed(self):
        """Skew of the classes in batches of 1024, a 32nd of the rows in memory. A full shuffle has 0.037, none 0.9."""
        rows, classes, batch = 320_000, 10, 1024
        labels = numpy.sort(numpy.arange(rows) % classes).astype(numpy.int8)
        (self.folder / "labels").mkdir()
        parquet.write_table(pyarrow.table({"label": labels}), self.folder / "labels/0.parquet", row_group_size=5000)
        mixed = self.rows(self.make({"input": [str(self.folder / "labels")]})[0])["label"].to_numpy()
        self.assertEqual(collections.Counter(mixed.tolist()), collections.Counter(labels.tolist()))
        draw, skews = numpy.random.default_rng(0), []
        for first in range(0, rows, rows // 32):
            window = draw.permutation(mixed[first:first + rows // 32])
            for at in range(0, len(window) - batch + 1, batch):
                shares = numpy.bincount(window[at:at + batch], minlength=classes) / batch
                skews.append(numpy.abs(shares - 1 / classes).sum() / 2)
        self.assertLessEqual(numpy.mean(skews), 0.05)

    def test_split_by_row_and_by_a_column(self):
        shares = {"train": 0.7, "validation": 0.2, "test": 0.1}
        folder, report = self.make({"input": [str(self.folder / "parquet")], "split": shares})
        ids = []
        for part, share in shares.items():
            found = self.rows(folder, part)["id"].to_pylist()
            self.assertAlmostEqual(len(found) / ROWS, share, delta=0.04)
            self.assertEqual(report["parts"][part]["rows"], len(found))
            ids += found
        self.assertEqual(sorted(ids), list(range(ROWS)))
        folder, _ = self.make({"input": [str(self.folder / "parquet")], "split": {"by": "n", **shares}})
        values = [set(self.rows(folder, part)["n"].to_pylist()) for part in shares]
        self.assertFalse(values[0] & values[1] or values[0] & values[2] or values[1] & values[2])
        # A part without rows has a file, which says what its columns are.
        folder, _ = self.make({"input": [str(self.folder / "parquet")], "split": {"train": 0.9999999, "test": 1e-7}})
        self.assertEqual(self.rows(folder, "test").num_rows, 0)
        self.assertEqual(self.rows(folder, "test").schema, self.rows(folder).schema)

    def test_row_groups(self):
        folder, _ = self.make({"input": [str(self.folder / "parquet")], "row_group_rows": 700, "parallelism": 1,
                               "shuffle": False})
        groups = parquet.ParquetFile(folder / "train/part-00000.parquet").metadata
        self.assertEqual([groups.row_group(at).num_rows for at in range(groups.num_row_groups)],
                         [700, 700, 700, 700, 200])

    # Steps

    def test_select_rename_cast_filter(self):
        made = self.in_order({"select": ["n", "id", "city", "yes"]}, {"rename": {"n": "id", "id": "n"}},
                             {"cast": {"id": "float32", "n": "string"}},
                             {"filter": [{"column": "id", "op": ">", "value": -50},
                                         {"column": "city", "op": "==", "value": "city 2"},
                                         {"column": "yes", "op": "!=", "value": True}]})
        n, city, yes = (self.raw[name].to_pylist() for name in ("n", "city", "yes"))
        kept = [at for at in range(ROWS) if n[at] > -50 and city[at] == "city 2" and not yes[at]]
        self.assertGreater(len(kept), 100)
        self.assertEqual(made.column_names, ["id", "n", "city", "yes"])
        self.assertEqual(made["n"].to_pylist(), [str(at) for at in kept])
        self.assertEqual(made["id"].to_pylist(), [float(n[at]) for at in kept])
        self.assertEqual(made.schema.field("id").type, pyarrow.float32())

    def test_fill_and_normalize(self):
        for persist in (True, False):
            made = self.in_order({"fill": {"x": "mean", "city": "mode"}}, {"normalize": {"x": "zscore", "n": "minmax"}},
                                 persist=persist)
            x = self.raw["x"].to_numpy()
            x = numpy.where(numpy.isnan(x), numpy.nanmean(x), x)
            numpy.testing.assert_allclose(made["x"].to_numpy(), (x - x.mean()) / x.std(), rtol=1e-12, atol=1e-12)
            n = self.raw["n"].to_numpy().astype(float)
            numpy.testing.assert_allclose(made["n"].to_numpy(), (n - n.min()) / (n.max() - n.min()), rtol=1e-6)
            city = self.raw["city"].to_pylist()
            mode = collections.Counter(one for one in city if one).most_common(1)[0][0]
            self.assertEqual(made["city"].to_pylist(), [one or mode for one in city])
            self.assertEqual(made.schema.field("n").type, pyarrow.float32())

    def test_statistics_are_of_the_rows_before_them(self):
        """Of the rows that the steps before leave, and not of those that a later step leaves."""
        made = self.in_order({"filter": {"column": "n", "op": ">=", "value": 0}}, {"normalize": {"id": "minmax"}},
                             {"fill": {"x": "mean"}}, {"normalize": {"x": "zscore"}},
                             {"filter": {"column": "yes", "op": "==", "value": True}})
        kept = self.raw.filter(pyarrow.compute.greater_equal(self.raw["n"], 0))
        ids, yes, x = (kept[name].to_numpy(zero_copy_only=False) for name in ("id", "yes", "x"))
        x = numpy.where(numpy.isnan(x), numpy.nanmean(x), x)
        scaled = (ids - ids.min()) / (ids.max() - ids.min())
        numpy.testing.assert_allclose(made["id"].to_numpy(), scaled[yes], rtol=1e-6, atol=1e-7)
        numpy.testing.assert_allclose(made["x"].to_numpy(), ((x - x.mean()) / x.std())[yes], rtol=1e-11, atol=1e-11)

    def test_fill_by_constants(self):
        holes = pyarrow.array([1.5, None, float("nan")], pyarrow.float32())
        table = pyarrow.table({"f": holes, "h": holes.cast(pyarrow.float16()), "i": [None, 2, 3],
                               "t": [None, "", "b"], "b": [None, True, False]})
        parquet.write_table(table, self.folder / "holes.parquet")
        made = self.in_order({"fill": {"f": -1, "h": -1, "i": 7, "t": "none", "b": True}},
                             {"filter": {"column": "h", "op": ">=", "value": -1}},
                             input=[str(self.folder / "holes.parquet")])
        self.assertEqual(made.to_pydict(), {"f": [1.5, -1, -1], "h": [1.5, -1, -1], "i": [7, 2, 3],
                                            "t": ["none", "", "b"], "b": [True, True, False]})
        self.assertEqual(made.schema, table.schema)

    def test_vocabulary(self):
        city = self.raw["city"].to_pylist()
        counts = collections.Counter(one for one in city if one)
        frequent = sorted(counts, key=lambda one: (-counts[one], one))
        folder, _ = self.make({"input": [str(self.folder / "parquet")], "shuffle": False, "steps": [
            {"vocabulary": {"city": {"size": 4}, "yes": {"size": 2, "output": "one_hot"}}}]})
        made = self.rows(folder)
        self.assertEqual(made["city"].to_pylist(), [frequent.index(one) + 1 if one in frequent[:4] else 0
                                                    for one in city])
        self.assertEqual(made["yes"].to_pylist(), [[0, 0, 1] if yes else [0, 1, 0]
                                                   for yes in self.raw["yes"].to_pylist()])
        self.assertEqual(made.schema.field("yes").type, pyarrow.list_(pyarrow.uint8(), 3))
        notes = json.loads((folder / "recipe.json").read_text())
        self.assertEqual([one["values"] for one in notes["statistics"]], [frequent[:4], [False, True]])

    def test_vocabulary_and_mode_of_large_unsigned_numbers(self):
        large = pyarrow.array([2 ** 64 - 1, 2 ** 63, 2 ** 64 - 1, None, 1], pyarrow.uint64())
        path = self.write("large.parquet", pyarrow.table({"v": large, "m": large}))
        folder, _ = self.make({"input": [str(path)], "shuffle": False,
                               "steps": [{"vocabulary": {"v": {"size": 2}}}, {"fill": {"m": "mode"}}]})
        self.assertEqual(self.rows(folder)["v"].to_pylist(), [1, 0, 1, 0, 2])
        self.assertEqual(self.rows(folder)["m"].to_pylist()[3], 2 ** 64 - 1)
        notes = json.loads((folder / "recipe.json").read_text())
        self.assertEqual([one["values"] for one in notes["statistics"]], [[2 ** 64 - 1, 1], [2 ** 64 - 1]])

    def test_dedup_keeps_the_first(self):
        first, wanted = set(), []
        for at, key in enumerate(zip(self.raw["n"].to_pylist(), self.raw["city"].to_pylist())):
            if key not in first:
                wanted.append(at)
            first.add(key)
        self.assertLess(len(wanted), ROWS * 0.7)
        self.assertEqual(self.in_order({"dedup": ["n", "city"]})["id"].to_pylist(), wanted)
        self.assertEqual(sorted(self.made(steps=[{"dedup": ["n", "city"]}])["id"].to_pylist()), wanted)

    # Errors

    def write(self, name, table, **options):
        path = self.folder / name
        parquet.write_table(table, path, **options)
        return path

    def test_errors(self):
        """One line each, with the key, or with the file and the row; and the folder is empty again."""
        good, csv = self.folder / "parquet/0.parquet", self.folder / "bad.csv"
        csv.write_text("a,b\n1,x\n\n2,y\nthree,z\n")
        wide = self.folder / "wide.csv"
        wide.write_text("a,b\n1,x\n2,y,z\n")
        bad_json = self.folder / "bad.json"
        bad_json.write_text('{"a": 1}\n{"a": 2}\n{"a": "x"}\n')
        empty, odd, cut = self.folder / "empty.csv", self.folder / "odd.gz", self.folder / "cut.parquet"
        empty.touch()
        odd.write_text("x")
        cut.write_bytes(good.read_bytes()[:-500])
        head = self.folder / "head.csv"
        head.write_text("a,b\n")
        bare = self.folder / "bare.json"
        bare.write_text("{}\n{}\n")
        bytes_of = pyarrow.array([b"\xe9"] * 3).view(pyarrow.string())
        latin = self.write("latin.parquet", pyarrow.table({"t": bytes_of}))
        drift = self.write("drift.parquet", self.raw.set_column(2, "n", pyarrow.array(numpy.zeros(ROWS))))
        less = self.write("less.parquet", self.raw.drop_columns(["n"]))
        nan = self.write("nan.parquet", pyarrow.table({"f": [1.0, float("nan")]}))
        halves = self.write("halves.parquet", pyarrow.table({"f": [1.0, 2.0, 2.5, 3.0]}), row_group_size=2)
        broken = self.write("broken.parquet", self.raw, compression="none", write_page_checksum=True)
        data = bytearray(broken.read_bytes())
        data[1000] ^= 255
        broken.write_bytes(data)
        for code, inputs, steps, *words in [
                (2, [good], [{"cast": {"z": "int8"}}], "dataset.steps[0].cast.z", "no column 'z'"),
                (2, [good], [{"normalize": {"city": "zscore"}}], "dataset.steps[0].normalize.city", "string"),
                (2, [good], [{"fill": {"n": 2 ** 40}}], "dataset.steps[0].fill.n", "no value of a column of int32"),
                (2, [good], [{"sort": ["n"]}], "dataset.steps[0].sort", "no such step"),
                (1, [good], [{"cast": {"n": "uint8"}}], "dataset.steps[0].cast.n", f"{good}, row "),
                (1, [halves], [{"cast": {"f": "int8"}}], "dataset.steps[0].cast.f", f"{halves}, row 3: "),
                (1, [good], [{"filter": {"column": "n", "op": ">", "value": 1000}}], "of 1000 rows none is left"),
                (1, [nan], [{"normalize": {"f": "zscore"}}], "dataset.steps[0].normalize.f", "1 values that are NaN"),
                (1, [csv], [{"cast": {"a": "int64"}}], f"{csv}, row 3", "three"),
                (1, [wide], [], wide, "row 2"), (1, [bad_json], [{"cast": {"a": "int64"}}], bad_json, "row 3"),
                (1, [empty], [], empty, "empty"), (1, [head], [], head, "no"), (1, [odd], [], odd, "format"),
                (1, [cut], [], cut), (1, [bare], [], bare, "no columns"),
                (1, [latin], [{"vocabulary": {"t": {"size": 1}}}], "dataset.steps[0].vocabulary.t", "UTF-8"),
                (1, [broken], [], f"{broken}, row group 0, column 'id'"),
                (1, [good, drift], [], drift, "'n' is double", f"in {good} it is int32"),
                (1, [good, less], [], less, "no column 'n'"), (1, [good, csv], [], csv, "another format"),
                (1, [self.folder / "gone"], [], "gone", "No such file"),
                (1, [self.folder / "*.txt"], [], "no file matches")]:
            with self.subTest(words=words):
                self.refused({"input": [str(one) for one in inputs], "steps": steps}, *words, code=code)

    def test_standard_error_that_is_full(self):
        with open("/dev/full", "w") as full:
            for words in (["process"], ["process", "/gone", "/gone"], ["cache"], ["other"]):
                done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, stderr=full, timeout=60)
                self.assertEqual(done.returncode, 2, words)

    def test_progress_on_a_terminal(self):
        request = {"dataset": {"input": [str(self.folder / "csv")], "steps": [{"normalize": {"n": "zscore"}}]},
                   "cache_dir": str(self.place())}
        reader, terminal = pty.openpty()
        with open(reader, "rb", buffering=0) as read:
            with open(terminal, "wb") as write:
                done = subprocess.run([PROGRAM, "preprocess"], input=json.dumps(request).encode(), stderr=write,
                                      stdout=subprocess.DEVNULL, timeout=60)
            told = read.read(65536).decode()
        self.assertEqual(done.returncode, 0, told)
        self.assertTrue(told.endswith("\r\x1b[K"), repr(told))
        self.assertIn("gathering (pass 1 of 2): 50 %", told)
        self.assertNotIn("pass 3", told)

    def test_a_folder_that_has_something(self):
        folder = self.place()
        (folder / "mine").touch()
        with self.start({"input": [str(self.folder / "csv")]}, folder) as program:
            _, error = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 1)
        self.assertIn("not empty", error)
        self.assertTrue((folder / "mine").exists())

    # Memory, and a kill

    def test_memory_is_bounded_and_a_kill_leaves_nothing_elsewhere(self):
        draw = numpy.random.default_rng(0)
        columns = {f"f{at}": draw.random(150_000, dtype=numpy.float32) for at in range(40)}
        inputs, peaks = [], []
        for number in range(6):
            inputs.append(str(self.write(f"wide-{number}.parquet", pyarrow.table(columns), row_group_size=10_000,
                                         compression="none", use_dictionary=False)))
        recipe = {"steps": [{"normalize": {name: "zscore" for name in columns}}], "threads": 2,
                  "memory_limit_bytes": 100_000_000}
        for files in (2, 6):
            _, report = self.make({"input": inputs[:files], **recipe})
            self.assertGreater(report["spilled_bytes"], 10_000_000)
            peaks.append(report["peak_memory_bytes"])
        if not os.environ.get("DTRAIN_TEST_SANITIZE"):  # sanitizers take memory of their own
            self.assertLess(peaks[1], 100_000_000)
            self.assertLess(peaks[1] - peaks[0], 15_000_000)
        equal = self.write("equal.parquet", pyarrow.table({"a": numpy.zeros(1_000_000)}), row_group_size=50_000)
        words = self.write("words.parquet", pyarrow.table({"w": [f"w{i}" for i in draw.integers(0, 1000, 100_000)]}),
                           row_group_size=2000)
        one_hot = [{"vocabulary": {"w": {"size": 1000, "output": "one_hot"}}}]
        for more in ({"input": [str(equal)], "steps": [{"dedup": ["a"]}]},
                     {"input": [str(words)], "steps": one_hot, "threads": 2},
                     {"input": [str(words)], "steps": one_hot, "threads": 2, "shuffle": False},
                     {"input": inputs[:3], "shuffle": False, "parallelism": 1, "split": {"train": 0.999, "b": 0.001}}):
            _, report = self.make({"memory_limit_bytes": 100_000_000, **more})
            if not os.environ.get("DTRAIN_TEST_SANITIZE"):
                self.assertLess(report["peak_memory_bytes"], 104_000_000)
        folder, beside = self.place(), self.place()
        with self.start({"input": inputs, **recipe}, folder, cwd=beside, env={"TMPDIR": str(beside)}) as program:
            deadline = time.monotonic() + 30
            while program.poll() is None and not any(folder.rglob("*.parquet")):
                self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(program.poll(), "it ended before it could be killed")
            program.kill()
        self.assertEqual(list(beside.iterdir()), [])
        self.assertEqual({path.suffix for path in folder.rglob("*") if path.is_file()}, {".parquet"})


if __name__ == "__main__":
    unittest.main()
