#!/usr/bin/env python3
"""Raw rows at prediction: what dtrain-data makes of them with a recipe that has been carried out is what it made of the
same rows for training. pyarrow writes the files and says what is in the results."""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

import numpy
import pyarrow
import pyarrow.compute as compute
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as parquet

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
DEADLINE = 60
ROWS = 3000
STEPS = [{"rename": {"n": "number"}}, {"cast": {"number": "float32"}},
         {"filter": {"column": "number", "op": ">", "value": -90}}, {"dedup": ["city"]},
         {"fill": {"x": "mean", "city": "mode"}}, {"normalize": {"x": "zscore", "number": "minmax", "same": "zscore"}},
         {"vocabulary": {"city": {"size": 4}, "yes": {"size": 2, "output": "one_hot"}}}]
WITHOUT_DEDUP = [step for step in STEPS if "dedup" not in step]


def raw():
    draw = numpy.random.default_rng(3)
    ids = numpy.arange(ROWS)
    holes = draw.random(ROWS) < 0.1
    return pyarrow.table({
        "id": ids, "x": pyarrow.array(draw.normal(5, 3, ROWS), mask=holes), "n": draw.integers(-100, 100, ROWS),
        "city": pyarrow.array([f"city {min(number, 9)}" for number in draw.geometric(0.3, ROWS)], mask=holes),
        "yes": ids % 3 == 0, "same": numpy.full(ROWS, 0.1)})


def write(table, path):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=300)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".json":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        pyarrow.feather.write_feather(table, path, chunksize=300)


class Apply(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-apply-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.raw = raw()
        for ending in ("parquet", "csv", "json", "arrow"):
            (cls.folder / ending).mkdir()
            write(cls.raw.slice(0, 1000), cls.folder / ending / f"0.{ending}")
            write(cls.raw.slice(1000), cls.folder / ending / f"1.{ending}")
        cls.trained = cls.train("trained", STEPS)

    @classmethod
    def train(cls, name, steps, source="csv", **more):
        """The folder that preprocessing has filled, in the order of the input."""
        made = cls.folder / name
        made.mkdir()
        recipe = cls.folder / f"{name}.json"
        recipe.write_text(json.dumps({"input": [str(cls.folder / source)], "steps": steps, "shuffle": False, **more}))
        done = subprocess.run([BIN / "dtrain-data", "process", recipe, made], capture_output=True, text=True,
                              timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return made

    def apply(self, source, recipe=None, code=0, **more):
        request = {"recipe": str((recipe or self.trained) / "recipe.json"), "input": [str(source)], "json": True,
                   "cache_dir": str(self.folder / "cache"), **more}
        done = subprocess.run([BIN / "dtrain-data", "apply"], input=json.dumps(request), capture_output=True, text=True,
                              timeout=DEADLINE)
        self.assertEqual(done.returncode, code, done.stderr)
        if code != 0:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            return done.stderr
        told = json.loads(done.stdout)
        return parquet.read_table(pathlib.Path(told["folder"], "rows")), told

    def test_rows_become_what_the_same_rows_became_for_training(self):
        same = self.train("same", WITHOUT_DEDUP, row_group_rows=500)
        expected = parquet.read_table(same / "train")
        for ending in ("parquet", "csv", "json", "arrow"):
            with self.subTest(ending):
                rows, told = self.apply(self.folder / ending, same, filter=True)
                self.assertTrue(rows.equals(expected))
                self.assertEqual(told["rows"], {"rows": rows.num_rows})
                self.assertTrue(told["built"])
        rows, _ = self.apply(self.folder / "csv", same)
        self.assertEqual(rows["id"].to_pylist(), list(range(ROWS)), "each row goes out, in its order")
        kept = rows.filter(compute.greater(self.raw["n"], -90))
        self.assertTrue(kept.equals(expected))
        self.assertFalse(self.apply(self.folder / "csv", same)[1]["built"])

    def test_no_statistic_is_of_the_new_rows_and_no_row_goes(self):
        # The recipe has learned of rows that filter and dedup have left; one_city has one row that they would not.
        new = pyarrow.table({"id": [7, 8, 9], "x": [5.0, None, 100.0], "n": [-100, 100, 300],
                             "city": ["city 1", "nowhere", None], "yes": [True, False, True], "same": [0.1, 0.2, 5]})
        write(new, self.folder / "new.parquet")
        rows, _ = self.apply(self.folder / "new.parquet")
        found = {one["path"].rpartition(".")[2] + one["path"].split(".")[2]: one
                 for one in json.loads((self.trained / "recipe.json").read_text())["statistics"]}
        x, number, city = found["xnormalize"], found["numbernormalize"], found["cityvocabulary"]["values"]
        filled = [5.0, found["xfill"]["mean"], 100.0]
        numpy.testing.assert_array_equal(rows["x"], [(v - x["mean"]) * (1 / x["deviation"]) for v in filled])
        numpy.testing.assert_allclose(rows["number"], [(v - number["least"]) / (number["most"] - number["least"])
                                                       for v in (-100, 100, 300)], rtol=1e-6)
        mode = found["cityfill"]["values"][0]
        self.assertEqual(rows["city"].to_pylist(), [(city + ["city 1"]).index("city 1") + 1 if "city 1" in city else 0,
                                                    0, city.index(mode) + 1])
        self.assertEqual(rows["same"].to_pylist(), [0, 0, 0])
        self.assertEqual(rows.num_rows, 3)

    def test_what_is_missing_is_named_with_its_file_and_row(self):
        path = self.folder / "nan.parquet"
        numbers = pyarrow.array([float("nan" if i == 7 else i) for i in range(20)])
        write(self.raw.slice(0, 20).set_column(1, "x", numbers), path)
        self.assertIn(f"{path}, row 8: column 'x' is NaN, and dataset.steps[0].normalize.x needs a number",
                      self.apply(path, self.train("nan", [{"normalize": {"x": "zscore"}}]), code=1))
        path = self.folder / "word.csv"
        path.write_text("id,x,n,city,yes,same\n" + "1,2,3,c,true,1\n" * 5 + "1,2,three,c,true,1\n")
        self.assertIn(f"{path}, row 6: ", self.apply(path, code=1))
        path = self.folder / "less.parquet"
        write(self.raw.drop_columns(["n"]), path)
        self.assertIn(f"{path}: it has no column 'n', which the recipe reads; if it is the label, leave it out: "
                      "--without number\n", self.apply(path, code=1))
        rows, _ = self.apply(path, without=["number"], filter=True)
        self.assertEqual((rows.num_rows, rows.schema.names), (ROWS, ["id", "x", "city", "yes", "same"]))
        self.assertIn("--without: the recipe's result has no column 'n'", self.apply(path, without=["n"], code=2))

    def test_null_stays_null_where_it_did_so_in_training(self):
        trained = self.train("null", [{"normalize": {"x": "zscore"}}])
        rows, _ = self.apply(self.folder / "json", trained)
        self.assertGreater(rows["x"].null_count, 0)
        self.assertTrue(rows.equals(parquet.read_table(trained / "train")))

    def test_another_type_becomes_that_of_training_or_is_an_error(self):
        table = self.raw.set_column(0, "id", self.raw["id"].cast("float64"))
        write(table, self.folder / "floats.parquet")
        self.assertTrue(self.apply(self.folder / "floats.parquet")[0].equals(self.apply(self.folder / "csv")[0]))
        write(table.set_column(0, "id", compute.add(table["id"], 0.5)), self.folder / "halves.parquet")
        self.assertIn(f"column 'id': {self.folder}/halves.parquet, row 1: ",
                      self.apply(self.folder / "halves.parquet", code=1))
        large = self.raw.set_column(3, "city", self.raw["city"].cast(pyarrow.large_string()))
        write(large, self.folder / "large.parquet")
        for name, source, other in (("small text", "csv", "large.parquet"), ("large text", "large.parquet", "csv")):
            trained = self.train(name, [{"select": ["id", "city"]}], source)
            rows, _ = self.apply(self.folder / other, trained)
            self.assertTrue(rows.equals(parquet.read_table(trained / "train")), name)
        lists = table.set_column(2, "n", pyarrow.array([[1]] * ROWS))
        write(lists, self.folder / "lists.parquet")
        self.assertIn("lists.parquet: column 'n' is list<", self.apply(self.folder / "lists.parquet", code=1))

    def test_columns_that_the_steps_drop_or_change_are_kept_as_they_are(self):
        trained = self.train("dropped", [{"select": ["x", "n"]}, {"rename": {"x": "scaled"}},
                                         {"normalize": {"scaled": "minmax"}},
                                         {"filter": {"column": "n", "op": ">", "value": 0}}], row_group_rows=500)
        expected = parquet.read_table(trained / "train")
        raw = self.raw.filter(compute.greater(self.raw["n"], 0))
        for ending in ("parquet", "csv", "json", "arrow"):
            with self.subTest(ending):
                rows, _ = self.apply(self.folder / ending, trained, filter=True, keep=["id", "x"])
                self.assertEqual(rows.schema.names, ["scaled", "n", "id", "x"])
                self.assertTrue(rows.select(["scaled", "n"]).equals(expected))
                self.assertTrue(rows.select(["id", "x"]).equals(raw.select(["id", "x"])))
        path = self.folder / "newer.csv"  # with columns that training did not have
        codes = pyarrow.array([f"{number:07}" for number in range(ROWS)])
        write(self.raw.append_column("name", self.raw["city"]).append_column("code", codes), path)
        path.write_text(path.read_text().replace('"', ""))
        rows, _ = self.apply(path, trained, keep=["name", "code"], without=["n"])
        self.assertTrue(rows["name"].equals(self.raw["city"]))
        self.assertEqual(rows["code"].combine_chunks(), codes)
        self.assertIn(f"{self.folder}/csv/0.csv: it has no column 'name', which --keep names",
                      self.apply(self.folder / "csv", trained, keep=["name"], code=1))

    def test_columns_that_training_did_not_have_are_left_out_whatever_is_in_them(self):
        expected, _ = self.apply(self.folder / "csv")
        for ending in "csv", "json":
            path = self.folder / f"more.{ending}"
            write(self.raw.append_column("more", pyarrow.nulls(ROWS)), path)
            self.assertTrue(self.apply(path)[0].equals(expected), ending)
        path.write_text('{"more": 1}\n')
        self.assertIn("it has none of the columns that the recipe reads", self.apply(path, code=1))

    def test_progress_is_shown_on_a_terminal_unless_it_is_to_be_quiet(self):
        for quiet in False, True:
            screen, terminal = pty.openpty()
            request = {"recipe": str(self.trained / "recipe.json"), "input": [str(self.folder / "csv")],
                       "cache_dir": str(self.folder / f"cache {quiet}"), "quiet": quiet}
            subprocess.run([BIN / "dtrain-data", "apply"], input=json.dumps(request).encode(), stderr=terminal,
                           stdout=subprocess.DEVNULL, timeout=DEADLINE, check=True)
            os.close(terminal)
            try:
                shown = os.read(screen, 65536)
            except OSError:  # nothing, and nobody who could still write
                shown = b""
            os.close(screen)
            self.assertEqual(b"applying the recipe" in shown, not quiet)

    def test_what_is_no_recipe_is_refused(self):
        wrong = self.folder / "wrong"
        wrong.mkdir()
        for text in "{}", "no JSON":
            (wrong / "recipe.json").write_text(text)
            self.assertIn("this is no recipe.json", self.apply(self.folder / "csv", wrong, code=2))
        (self.folder / "folder/recipe.json").mkdir(parents=True)
        self.assertIn("this is a folder; name the recipe.json", self.apply(self.folder / "csv", self.folder / "folder",
                                                                           code=2))
        self.assertIn("the recipe cannot be read: No such file or directory",
                      self.apply(self.folder / "csv", self.folder, code=2))

    def test_predict_applies_a_recipe_first(self):
        script = self.folder / "script.py"
        text = ("import os\ndef predict(table):\n    return {'id': table['id'], 'city': table['city'],"
                "'recipe': [os.environ['DTRAIN_RECIPE']] * len(table)}\n")
        script.write_text(text)
        job = self.folder / "job.json"
        job.write_text(json.dumps({"dataset": {"input": str(self.folder / "csv"), "steps": WITHOUT_DEDUP},
                                   "backend": {"cache_dir": str(self.folder / "cache of job")}}))
        new = self.folder / "new of job.csv"
        write(self.raw.slice(0, 10), new)
        environment = {**os.environ, "PYTHON_EXEC": sys.executable}

        def predict(output, *flags, code=0):
            done = subprocess.run([BIN / "dtrain", "predict", "--nproc=1", *flags, script, new, self.folder / output],
                                  capture_output=True, text=True, timeout=DEADLINE, env=environment)
            self.assertEqual(done.returncode, code, done.stderr)
            if code != 0:
                return None, done.stderr
            rows = parquet.read_table(self.folder / output)
            self.assertEqual(rows["id"].to_pylist(), list(range(10)))
            return rows, done.stderr

        rows, said = predict("out 1", "--config", job, "--recipe", "config")
        self.assertIn("recipe applied to", said)
        recipe = pathlib.Path(rows["recipe"][0].as_py())
        expected = parquet.read_table(self.apply(new, recipe.parent)[1]["folder"] + "/rows")
        self.assertTrue(rows["city"].equals(expected["city"]))
        script.write_text("def predict(table):\n    return {'id': table['id'], 'city': table['kept']}\n")
        write(self.raw.slice(0, 10).append_column("kept", pyarrow.array([str(i) for i in range(10)])), new)
        rows, _ = predict("kept", "--recipe", recipe, "--keep", "kept")
        self.assertEqual([int(value) for value in rows["city"].to_pylist()], list(range(10)))
        script.write_text(text)
        self.assertNotIn("recipe", predict("out 2", "--quiet", "--recipe", recipe)[1])
        predict("out 3", "-H", "localhost:1", "--recipe", recipe)  # by an agent that is told of the job
        # What the processor may take counts without a section `dataset`, too.
        cache = str(self.folder / "cache of limits")
        for limit, code in (1000, 2), (1 << 26, 0):
            job.write_text(json.dumps({"backend": {"cache_dir": cache, "processor": {"memory_limit_bytes": limit}}}))
            said = predict(f"out of {limit}", "--config", job, "--recipe", recipe, code=code)[1]
            self.assertNotIn("no effect", said)
            words = "backend.processor.memory_limit_bytes: 1000 is less than 67108864"
            self.assertEqual(words in said, code == 2, said)
        self.assertIn(cache, said)


if __name__ == "__main__":
    unittest.main()
