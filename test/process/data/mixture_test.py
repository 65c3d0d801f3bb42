#!/usr/bin/env python3
"""dtrain.MixtureLoader against pyarrow: rows of each source in each of its epochs, order for each world size, weights,
resuming, memory, errors."""
import collections
import json
import os
import pathlib
import random
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
from tables import GROUP, as_bytes, table, texts_of_rows, texts_table, write_tables

ROWS = {"web": 2100, "books": 900, "code": 3}  # of the sources
WINDOW = 8 * GROUP + 16 * 2048  # of the web, 600 rows and more wait; of the others all do
NUMBER = {name: number for number, name in enumerate(ROWS)}


def own(batch, name="id"):
    """A rank's rows of the global batch: each row once."""
    return list(zip(batch["mixture.source"].tolist(), batch[name].tolist()))[:batch.rows - batch.repeated]


def by_source(rows):
    found = collections.defaultdict(list)
    for source, row in rows:
        found[source].append(row)
    return found


class Mixture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-mixture-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        first = 0
        for name, rows in ROWS.items():
            cls.write(name, table(first, rows).select(["id", "a", "pair"]), row_group_size=GROUP)
            first += rows

    @classmethod
    def write(cls, name, *tables, **options):
        return write_tables(cls.folder / name, *tables, **options)

    @classmethod
    def sources(cls, weights):
        return {name: {"paths": cls.folder / name, "weight": weight} for name, weight in weights.items()}

    WEIGHTS = {"web": 3, "books": 2, "code": 0.01}

    def loader(self, weights=None, **options):
        loader = dtrain.MixtureLoader(**{
            "sources": self.sources(weights or self.WEIGHTS), "columns": ["id"], "batch_size": 64,
            "epoch_ends": "all", "window_size_bytes": WINDOW, **options})
        self.addCleanup(loader.close)
        return loader

    def there(self, name):
        return parquet.read_table(self.folder / name, columns=["id"])["id"].to_pylist()

    def together(self, world, state=None, batches=None, weights=None, **options):
        """The rows in their order, by the ranks of a world, to the end of the epoch or so many batches."""
        ranks = []
        for rank in range(world):
            loader = self.loader(weights, rank=rank, world_size=world, **options)
            if state:
                loader.load_state_dict(state)
            ranks.append([])
            for batch in loader:
                ranks[-1].append(batch)
                if len(ranks[-1]) == batches:
                    break
            loader.close()
        self.assertEqual(len({len(of_rank) for of_rank in ranks}), 1)
        for same in zip(*ranks):
            self.assertEqual(len({(batch.rows, batch.global_rows) for batch in same}), 1)
        return [row for same in zip(*ranks) for batch in same for row in own(batch)]

    def test_each_epoch_of_each_source_has_the_rows_that_pyarrow_reads(self):
        """Sources that come again come again whole; the weights decide how many rows there are of each."""
        for window in (None, WINDOW):
            loader = self.loader({"web": 3, "books": 2, "code": 1}, window_size_bytes=window)
            epochs = [by_source(row for batch in loader for row in own(batch)) for _ in range(2)]
            for epoch in epochs:
                self.assertEqual(len(epoch[NUMBER["web"]]), ROWS["web"])
                for name, weight in (("books", 2), ("code", 1)):
                    self.assertAlmostEqual(len(epoch[NUMBER[name]]), ROWS["web"] * weight / 3, delta=2)
                for name, rows in ROWS.items():
                    ids = epoch[NUMBER[name]]
                    passes = [ids[at:at + rows] for at in range(0, len(ids), rows)]
                    for one in passes[:-1] if len(passes[-1]) < rows else passes:
                        self.assertEqual(sorted(one), self.there(name))
                    self.assertEqual(len(set(passes[-1])), len(passes[-1]))
                    if rows > 10:
                        self.assertEqual(len({tuple(one) for one in passes}), len(passes), "each in another order")
            self.assertNotEqual(*epochs)
            self.assertEqual(loader.epoch, 2)

    def test_a_mixture_of_one_source_is_a_parquet_loader(self):
        options = {"columns": ["id"], "batch_size": 64, "window_size_bytes": WINDOW, "seed": 5}
        loader = dtrain.ParquetLoader(self.folder / "web", **options)
        self.addCleanup(loader.close)
        mixture = self.loader({"web": 1}, epoch_ends="first", seed=5)
        for _ in range(2):
            self.assertEqual([batch["id"].tolist() for batch in mixture], [batch["id"].tolist() for batch in loader])

    def test_an_epoch_ends_as_it_is_asked_to(self):
        weights = {"web": 1, "books": 1}
        first = by_source(self.together(1, weights=weights, epoch_ends="first"))
        self.assertEqual(sorted(first[NUMBER["books"]]), self.there("books"))
        self.assertAlmostEqual(len(first[NUMBER["web"]]), ROWS["books"], delta=1)
        self.assertEqual(len(set(first[NUMBER["web"]])), len(first[NUMBER["web"]]))
        never = self.together(1, weights=weights, epoch_ends="never", batches=100)
        self.assertEqual(len(never), 6400)
        self.assertEqual([len(rows) for rows in by_source(never).values()], [3200, 3200])
        loader = self.loader(weights, epoch_ends="first", drop_last=True, batch_size=100, world_size=3, rank=0)
        batches = list(loader)
        self.assertEqual({batch.rows for batch in batches}, {100})
        self.assertEqual(len(batches), 2 * ROWS["books"] // 300)

    def test_at_every_row_the_sources_have_their_part(self):
        rows = self.together(1)
        parts, counts = [weight / sum(self.WEIGHTS.values()) for weight in self.WEIGHTS.values()], [0, 0, 0]
        for number, (source, _) in enumerate(rows, 1):
            counts[source] += 1
            for part, count in zip(parts, counts):
                self.assertLess(abs(count - number * part), 1.001)

    def test_order_is_the_same_for_every_world_size(self):
        order = self.together(1)
        for world in (2, 3, 4):
            self.assertEqual(self.together(world, batch_size=50), order)
        self.assertNotEqual(self.together(1, seed=1), order)

    def test_resuming_with_another_world_size_gives_the_exact_rest(self):
        """Also after the weights have changed in an epoch, and behind the end of one."""
        loader, order, states = self.loader(batch_size=37), [], []
        for _ in range(2):
            for batch in loader:
                order += own(batch)
                states.append((loader.epoch, len(order), loader.state_dict()))
                if len(states) in (9, 30, 31):
                    loader.set_weights({"web": 1, "books": len(states) % 4, "code": 0.05})
        end = len(order)
        draw = random.Random(0)
        self.assertLessEqual(max(len(state["state"]) for _, _, state in states), 55 + 3 * 35)
        # Of the first epoch; a change of weights after a state is none of its rest.
        of_first = [(done, state) for epoch, done, state in states if epoch == 0]
        epoch_end = of_first[-1][0]
        for done, state in draw.sample(of_first[31:], 6):
            for world in (1, draw.choice((2, 3, 4))):
                self.assertEqual(self.together(world, state=state), order[done:epoch_end])
        for done, state in draw.sample([(done, state) for epoch, done, state in states if epoch == 1], 4):
            self.assertEqual(self.together(3, state=state), order[done:end])
        self.assertEqual(self.together(2, state=of_first[-1][1]), [])

    def test_weights_change_with_the_next_batch(self):
        """However many batches have been read ahead; the rows of each source go on where they were."""
        for prefetch in (1, 8):
            loader, seen = self.loader({"web": 1, "books": 1}, prefetch=prefetch, batch_size=40), []
            for batch in loader:
                seen.append(batch)
                if len(seen) == 3:
                    loader.set_weights({"web": 0, "books": 1})
                if len(seen) == 6:
                    loader.set_weights({"web": 3, "books": 1})
                if len(seen) == 10:
                    break
            of_web = [batch["mixture.source"].tolist().count(0) for batch in seen]
            self.assertEqual(of_web, [20] * 3 + [0] * 3 + [30] * 4)
            rows = by_source(row for batch in seen for row in own(batch))
            whole = by_source(self.together(1, weights={"web": 1, "books": 1}))
            for source, ids in rows.items():
                self.assertEqual(ids, whole[source][:len(ids)])
            self.assertEqual(loader.sources, {
                "web": {"weight": 0.75, "rows": ROWS["web"], "taken": 180},
                "books": {"weight": 0.25, "rows": ROWS["books"], "taken": 220}})
            loader.set_epoch(1)
            self.assertEqual(loader.sources["web"], {"weight": 0.75, "rows": ROWS["web"], "taken": 0})

    def test_values_are_those_of_the_rows(self):
        """Numbers, lists of a size, strings, and lists of any length, on each rank, also where rows are repeated."""
        draw, tables = random.Random(0), {}
        for name, rows in (("left", 501), ("right", 302)):
            first = 1000 * len(tables)
            tables[name] = pyarrow.table({
                "id": numpy.arange(first, first + rows),
                "half": (numpy.arange(rows) % 99).astype(numpy.float16),
                "pair": pyarrow.array([[at, -at] for at in range(rows)], pyarrow.list_(pyarrow.float32(), 2)),
                "word": [draw.choice(("", "one", "dix-neuf")) for _ in range(rows)],
                "list": pyarrow.array([list(range(draw.choice((0, 0, 1, 7)))) for _ in range(rows)],
                                      pyarrow.list_(pyarrow.int64()))})
        # The columns lie in another order in the second source.
        folders = {name: self.write(name, one if name == "left" else one.select(one.column_names[::-1]),
                                    row_group_size=100) for name, one in tables.items()}
        numbers = list(tables)
        for world in (1, 3):
            seen = 0
            for rank in range(world):
                loader = self.loader(sources={name: {"paths": folder} for name, folder in folders.items()}, columns=[],
                                     window_size_bytes=None, batch_size=90, rank=rank, world_size=world)
                for batch in loader:
                    self.assertEqual(batch["pair"].shape, (batch.rows, 2))
                    words = torch.nested.nested_tensor_from_jagged(batch["word"], batch["word.offsets"]).unbind()
                    lists = torch.nested.nested_tensor_from_jagged(batch["list"], batch["list.offsets"]).unbind()
                    for at, (source, row) in enumerate(zip(batch["mixture.source"].tolist(), batch["id"].tolist())):
                        expected = tables[numbers[source]].slice(row % 1000, 1).to_pylist()[0]
                        self.assertEqual({
                            "id": row, "half": batch["half"][at].item(), "pair": batch["pair"][at].tolist(),
                            "word": bytes(words[at].tolist()).decode(), "list": lists[at].tolist()}, expected)
                    seen += batch.rows - batch.repeated
            self.assertEqual(seen, 1002)

    def test_lists_of_strings(self):
        """On each rank, also where rows are repeated, and of sources whose columns lie in another order."""
        tables = {"some": texts_table(501), "others": texts_table(302, 1000)}
        folders = {name: self.write(name, one if name == "some" else one.select(one.column_names[::-1]),
                                    row_group_size=100) for name, one in tables.items()}
        sources, both = {name: {"paths": folder} for name, folder in folders.items()}, list(tables.values())
        for world in (1, 3):
            seen = 0
            for rank in range(world):
                for batch in self.loader(sources=sources, columns=[], window_size_bytes=None, batch_size=90, rank=rank,
                                         world_size=world):
                    lists = {name: tensor.tolist() for name, tensor in batch.items()}
                    places = list(zip(lists["mixture.source"], lists["id"]))
                    for name in ("words", "blobs", "pairs", "coded"):
                        rows = [both[source][name][row % 1000].as_py() for source, row in places]
                        self.assertEqual(texts_of_rows(lists, name), as_bytes(rows), name)
                    seen += batch.rows - batch.repeated
            self.assertEqual(seen, 1002)
        strings = self.write("strings", tables["some"].set_column(1, "words", tables["some"]["word"]))
        self.assertRaisesRegex(dtrain.DataError, "'words' is lists of strings in source 'some', and uint8 in rows of "
                               "any length in source 'strings'", self.loader,
                               sources={"some": sources["some"], "strings": {"paths": strings}}, columns=["words"],
                               window_size_bytes=None)

    def test_the_same_in_cpp(self):
        worker = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "mixture_worker")
        weights = {"web": 3, "books": 2, "code": 1}
        words = [str(word) for name, weight in weights.items() for word in (self.folder / name, weight)]
        result = subprocess.run([worker, str(WINDOW), *words], text=True, check=True, stdout=subprocess.PIPE,
                                timeout=60)
        loader, expected = self.loader(weights), []

        def note(batch):
            expected.append({
                "sources": batch["mixture.source"].tolist(), "ids": batch["id"].tolist(), "epoch": loader.epoch,
                "state": loader.state_dict()["state"],
                "of": [[name, *source.values()] for name, source in loader.sources.items()]})

        for batch in loader:
            note(batch)
        loader.set_weights(dict(zip(weights, reversed(weights.values()))))
        for batch in loader:
            note(batch)
        loader.set_epoch(7)
        note(next(iter(loader)))
        self.assertEqual([json.loads(line) for line in result.stdout.splitlines()], expected)

    def test_a_program_that_is_killed_goes_on_with_another_number_of_ranks(self):
        text = f"""
            import sys, dtrain
            loader = dtrain.MixtureLoader({{name: {{"paths": "{self.folder}/" + name, "weight": weight}}
                                           for name, weight in {self.WEIGHTS}.items()}}, columns=["id"], batch_size=50,
                                          epoch_ends="all", window_size_bytes={WINDOW})
            for number, batch in enumerate(loader):
                if number == 7:
                    loader.set_weights({{"web": 1, "books": 5, "code": 1}})
                print(loader.state_dict()["state"], flush=True)
        """
        program = subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)], text=True,
                                   stdout=subprocess.PIPE)
        states = [program.stdout.readline().strip() for _ in range(12)]
        program.kill()
        program.communicate()
        loader, order = self.loader(batch_size=50), []
        for number, batch in enumerate(loader):
            order += own(batch)
            if number == 7:
                loader.set_weights({"web": 1, "books": 5, "code": 1})
            if number == 11:
                self.assertEqual(loader.state_dict(), {"state": states[11]})
        for at in (8, 11):
            self.assertEqual(self.together(3, state={"state": states[at]}), order[50 * (at + 1):])

    def test_options_of_the_environment(self):
        with mock.patch.dict(os.environ, DTRAIN_DATASET="not/read", DTRAIN_LOADER=f'{{"window_size_bytes": {WINDOW}}}'):
            options = {"sources": self.sources(self.WEIGHTS), "columns": ["id"], "batch_size": 64, "epoch_ends": "all"}
            loader = dtrain.MixtureLoader(**options)
            self.addCleanup(loader.close)
            self.assertEqual(loader.state_dict(), self.loader().state_dict())

    def test_a_window_of_each_source(self):
        """Two of 4 MB for 64 MB of rows, and a position in the middle within a few hundredths of a second."""
        columns = {f"f{at}": numpy.random.default_rng(at).random(200_000, dtype=numpy.float32) for at in range(40)}
        for name in ("wide", "other"):
            self.write(name, pyarrow.table(columns), row_group_size=5_000, compression="none", use_dictionary=False)
        text = f"""
            import pathlib, time, dtrain
            def memory():
                return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
            def loader():
                return dtrain.MixtureLoader({{name: {{"paths": "{self.folder}/" + name}}
                                             for name in ("wide", "other")}},
                                            matrices={{"x": [f"f{{at}}" for at in range(40)]}}, batch_size=1000,
                                            epoch_ends="all", window_size_bytes=4_000_000)
            first = loader()
            before, most = memory(), 0
            for number, batch in enumerate(first):
                most = max(most, memory())
                if number == 200:
                    state = first.state_dict()
                    break
            first.close()
            taken = []
            for _ in range(5):
                second = loader()
                second.load_state_dict(state)
                begin = time.process_time()
                next(iter(second))
                taken.append(time.process_time() - begin)
                second.close()
            print(most - before, min(taken))
        """
        result = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)], text=True, check=True,
                                stdout=subprocess.PIPE, timeout=60)
        most, taken = map(float, result.stdout.split())
        batches = 7 * 1000 * 160  # four that are ready, that of the program, and one that is put together of parts
        self.assertLess(most, 1.1 * (8_000_000 + batches) + 8_000_000)
        self.assertLess(taken, 0.05)

    def test_errors_are_exceptions_with_the_text(self):
        short = self.write("short", table(0, 10).select(["a"]))
        retyped = self.write("retyped", pyarrow.table({"id": numpy.zeros(10, numpy.int32)}))
        named = self.write("named", pyarrow.table({"mixture.source": numpy.zeros(10)}))
        web = {"paths": self.folder / "web"}
        empty = self.write("empty", table(0, 0))
        for error, options, words in [
                (ValueError, {"sources": {}}, "sources is empty"),
                (ValueError, {"sources": {"web": self.folder / "web"}}, "it must be a dict with paths"),
                (ValueError, {"sources": {"web": {}}}, "source 'web' has no paths"),
                (ValueError, {"sources": {"": web}}, "source 0 has no name"),
                (ValueError, {"sources": {"web": {**web, "wieght": 1}}}, "source 'web': there is no key 'wieght'"),
                (ValueError, {"sources": {"web": {**web, "weight": "1"}}}, "weight is \"1\"; it must be a number"),
                (ValueError, {"sources": {"web": {**web, "weight": float("inf")}}}, "source 'web': weight is inf;"),
                (ValueError, {"sources": {"web": {**web, "weight": float("nan")}}}, "source 'web': weight is nan;"),
                (ValueError, {"sources": {"web": {**web, "weight": -1}}}, "the weights are -1; they must be numbers"),
                (ValueError, {"sources": {"web": {**web, "weight": 0}}}, "one of them more than 0"),
                (ValueError, {"sources": {"web": {**web, "seed": -1}}}, "source 'web': seed is -1"),
                (ValueError, {"epoch_ends": "last"}, 'epoch_ends is "last"; it must be "first", "all" or "never"'),
                (ValueError, {"window_size_bytes": -2}, "window_size_bytes is -2; it must be"),
                (ValueError, {"batch_size": 0}, "dtrain: MixtureLoader: batch_size is 0"),
                (ValueError, {"rank": 2, "world_size": 2}, "rank 2 of 2 does not exist"),
                (ValueError, {"prefetch": 0}, "prefetch is 0"),
                (ValueError, {"sources": {"named": {"paths": named}}, "columns": []}, "called 'mixture.source'"),
                (ValueError, {"sources": self.sources({"code": 1}), "drop_last": True, "epoch_ends": "first"},
                 "an epoch has 3 rows with these weights, less than one global batch of 64"),
                (dtrain.DataError, {"sources": {"gone": {"paths": "gone"}}}, "gone: No such file"),
                (dtrain.DataError, {"sources": {"empty": {"paths": empty}}}, "there are no rows"),
                (dtrain.DataError, {"window_size_bytes": 2000}, "do not fit into window_size_bytes = 2000"),
                (dtrain.DataError, {"sources": {"web": web, "retyped": {"paths": retyped}}},
                 "'id' is int64 [rows] in source 'web', and int32 [rows] in source 'retyped'; the sources must"),
                (dtrain.DataError, {"sources": {"web": web, "short": {"paths": short}}, "columns": [],
                                    "window_size_bytes": None},
                 "source 'web' has 'id', which source 'short' has not"),
                (dtrain.DataError, {"sources": {"short": {"paths": short}, "web": web}, "columns": [],
                                    "window_size_bytes": None},
                 "source 'web' has 'id', which source 'short' has not")]:
            with self.subTest(words=words):
                with self.assertRaises(error) as caught:
                    self.loader(**options)
                self.assertIn(words, str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))
        self.assertRaisesRegex(TypeError, "epoch_ends", dtrain.MixtureLoader, {"web": web}, batch_size=1)
        loader = self.loader()
        for weights, words in (({"web": 1}, "the sources are web, books, code, and the weights are of web;"),
                               ({**self.WEIGHTS, "wiki": 1}, "code, wiki; name all"),
                               (dict.fromkeys(ROWS, 0), "the weights are 0, 0, 0")):
            self.assertRaisesRegex(ValueError, words, loader.set_weights, weights)
        self.assertRaisesRegex(ValueError, "no epoch 4294967296", loader.set_epoch, 1 << 32)
        state = loader.state_dict()
        self.assertRaisesRegex(ValueError, "no text of state", loader.load_state_dict, {"state": "rows1-1-2-3-4-5"})
        for options, words in (({"seed": 1}, "another seed"), ({"window_size_bytes": None}, "window_size_bytes"),
                               ({"shuffle": False}, "shuffle"),
                               ({"sources": self.sources({"web": 1})}, "other sources"),
                               ({"sources": {**self.sources({"web": 1, "books": 1}), "tales": {
                                   "paths": self.folder / "code"}}}, "their names")):
            self.assertRaisesRegex(ValueError, words, self.loader(**options).load_state_dict, state)
        broken = self.folder / "broken.parquet"
        parquet.write_table(table(0, 3000).select(["id"]), broken, compression="none", use_dictionary=False)
        with open(broken, "r+b") as file:
            file.seek(4)
            file.write(b"\x7f" * 100)
        loader = self.loader(sources={"web": web, "broken": {"paths": broken}}, window_size_bytes=None)
        for _ in range(2):
            self.assertRaisesRegex(dtrain.DataError, "broken.parquet, row group 0, column 'id'", next, iter(loader))

    def test_fewer_rows_than_a_batch_after_a_change_of_weights(self):
        loader = self.loader({"web": 1, "code": 1}, drop_last=True, batch_size=64)
        next(iter(loader))
        loader.set_weights({"web": 0, "code": 1})
        loader.set_epoch(1)
        self.assertRaisesRegex(ValueError, "an epoch has 3 rows with these weights", next, iter(loader))


if __name__ == "__main__":
    unittest.main()
