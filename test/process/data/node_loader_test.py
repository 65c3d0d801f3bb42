#!/usr/bin/env python3
"""The ranks of a node with one reader: each process a rank, as a launcher starts them. Their rows are those that each
would read by itself, whoever leaves or dies."""
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import numpy
import pyarrow
import pyarrow.parquet as parquet

from tables import ALL, GROUP, ragged_table, table, texts_table, write_set, write_tables

WORKER = os.path.join(os.environ["DTRAIN_TEST_BIN_DIR"], "loader_worker")
RANKS = 4
WINDOW = 8 * GROUP + 16 * 2048


def varint(number, size=0):
    """A number as Thrift's compact protocol has it, filled up to a size."""
    digits = []
    while number or len(digits) < max(size, 1):
        digits.append(number % 128)
        number //= 128
    return bytes(digit + 128 for digit in digits[:-1]) + bytes(digits[-1:])


class Rank:
    """A worker process. Its answer to a job comes when it is asked for."""

    def __init__(self, rank, round=0, limit=""):
        """limit: arguments of ulimit."""
        self.rank = rank
        names = {"RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": RANKS, "DTRAIN_ROUND": round,
                 "TORCHELASTIC_RUN_ID": f"node-loader-{os.getpid()}"}
        self.process = subprocess.Popen(
            ["sh", "-c", f'ulimit {limit}; exec "$0"', WORKER] if limit else [WORKER], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **{name: str(value) for name, value in names.items()}})

    def begin(self, options, **job):
        job["options"] = {"rank": self.rank, "world_size": RANKS, "columns": ["id"], "window": WINDOW,
                          "batch_size": 100, **options}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def descriptors(self):
        folder = pathlib.Path(f"/proc/{self.process.pid}/fd")
        return {int(number): os.readlink(folder / number) for number in os.listdir(folder)}

    def leave_descriptors(self, count):
        """The process can open so many more, as `ulimit -n` does it."""
        there = self.descriptors()
        limit = next(limit for limit in range(max(there) + 1, 10_000) if limit - len(there) >= count)
        most = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (limit, most))

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def bytes_read(self):
        lines = pathlib.Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("rchar")).split()[1])

    def end(self):
        """What it has said."""
        self.process.stdin.close()
        said = self.process.stderr.read()
        self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process.stderr.close()
        return said


class NodeLoader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-node-loader-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.set = str(write_set(cls.folder / "set"))
        cls.ragged = cls.write("ragged", *(ragged_table(4000).slice(first, 2000) for first in (0, 2000)),
                               row_group_size=GROUP, compression="zstd")
        cls.ranks = [Rank(rank) for rank in range(RANKS)]
        cls.addClassCleanup(lambda: [rank.end() for rank in cls.ranks])

    @classmethod
    def write(cls, name, *tables, **options):
        return str(write_tables(cls.folder / name, *tables, **options))

    def ask(self, options=None, ranks=None, each=None, **job):
        """The answers of all ranks to a job. each: what else a rank's job has."""
        ranks = ranks or self.ranks
        for rank in ranks:
            rank.begin({"paths": [self.set], **(options or {})}, **{**job, **(each or {}).get(rank.rank, {})})
        return [rank.answer() for rank in ranks]

    def alone(self, options=None, **job):
        """The same, each by itself, one after the other."""
        return [self.ask({**(options or {}), "one_reader": False, "rank": rank}, self.ranks[:1], **job)[0]
                for rank in range(RANKS)]

    def same(self, found, expected):
        for answer in (*found, *expected):
            self.assertNotIn("data_error", answer)
        for key in ("epochs", "state"):
            self.assertEqual([answer[key] for answer in found], [answer[key] for answer in expected])

    def test_rows_are_those_of_each_rank_by_itself(self):
        """Every value of three epochs, whatever the window, the order, and the rows that repeat at the end."""
        everything = {"columns": [name for name in table(0, 1).column_names if name not in ("a", "b")],
                      "matrices": {"x": ["b", "a"]}}
        for options in ({"window": 0}, {}, {"shuffle": False}, {"batch_size": 7, "prefetch": 1, "drop_last": True},
                        {"batch_size": ALL}, {**everything, "window": 60 * 4000, "seed": 3}):
            with self.subTest(options=options):
                job = {"epochs": 3, "values": "matrices" in options}
                self.same(self.ask(options, **job), self.alone(options, **job))

    def ragged_options(self):
        return {"paths": [self.ragged], "columns": ["id", "blob", "list"], "window": 700_000}

    def test_rows_that_differ_in_length(self):
        """The same, of strings and lists of which one row is very long."""
        for options in ({"columns": [], "window": 0}, {"batch_size": 101},
                        {"columns": ["word"], "window": 120_000, "drop_last": True}):
            with self.subTest(options=options):
                options = {**self.ragged_options(), **options}
                self.same(self.ask(options, epochs=2, values=True), self.alone(options, epochs=2, values=True))

    def test_lists_of_strings(self):
        folder = self.write("texts", *(texts_table(2000, first) for first in (0, 2000)), row_group_size=GROUP)
        options = {"paths": [folder], "columns": [], "window": 900_000, "batch_size": 101}
        self.same(self.ask(options, epochs=2, values=True), self.alone(options, epochs=2, values=True))

    def test_virtual_local_ranks(self):
        """All have LOCAL_RANK=0. Nobody waits: the second epoch begins when all are known to have passed the first."""
        expected, begin = self.alone(epochs=3), time.monotonic()
        self.same(self.ask(epochs=3, env={"LOCAL_RANK": "0"}), expected)
        self.assertLess(time.monotonic() - begin, 9)
        self.ask(each={rank: {"env": {"LOCAL_RANK": str(rank)}} for rank in range(RANKS)}, batches=1)

    def test_memory_that_counts_as_a_file(self):
        """ulimit -f, in blocks of 512 bytes, is less than what strings could need. Nobody dies of it."""
        ranks = [Rank(rank, round=2, limit="-f 100000") for rank in range(RANKS)]
        try:
            self.same(self.ask(self.ragged_options(), ranks, epochs=2), self.alone(self.ragged_options(), epochs=2))
        finally:
            said = [rank.end() for rank in ranks]
        line = "counts as a file, and `ulimit -f` allows 51200000 bytes; this rank reads by itself"
        self.assertEqual([text.count(line) for text in said], RANKS * [1])

    def test_two_loaders_of_a_program_with_the_same_rows(self):
        """As when training's files are those of an evaluation, too. Each has a reader of its own."""
        expected, begin = self.alone(epochs=2), time.monotonic()
        found = self.ask(epochs=2, twin=True, options={"prefetch": 1})
        self.same(found, expected)
        self.assertEqual([answer["twin"] for answer in found], RANKS * [len(expected[0]["epochs"][0])])
        self.assertLess(time.monotonic() - begin, 9)

    def test_going_on_from_a_state(self):
        states = [batch["state"] for batch in self.alone(epochs=2)[0]["epochs"][1]]
        for state in states[:3]:
            self.same(self.ask(state=state, epochs=3), self.alone(state=state, epochs=3))

    def test_a_state_of_strings_with_another_window(self):
        """As an older dtrain counted it. The loader goes on with the rows that are left."""
        options = self.ragged_options()
        states = [batch["state"] for batch in self.alone(options)[0]["epochs"][0]]
        job = {"state": states[3], "epochs": 2}
        self.same(self.ask({**options, "window": 900_000}, **job), self.alone(options, **job))

    def test_a_rank_that_reads_on_by_itself_keeps_footers(self):
        """It has given back their memory, because another rank was the reader. Each footer is read once more."""
        columns = pyarrow.table({f"f{at}": numpy.arange(20_000) % 7 for at in range(30)})
        folder = self.write("footers", columns.append_column("id", columns[0]), row_group_size=200)
        [file] = pathlib.Path(folder).iterdir()
        footer = int.from_bytes(file.read_bytes()[-8:-4], "little")
        self.assertLess(footer, 500_000)
        reader, rest = self.ranks[0], self.ranks[1:]
        options = {"paths": [folder], "batch_size": 50, "window": 400_000}
        reader.begin(options, batches=30)  # more than can be shown before the others come
        self.until_shares(reader)
        before = [rank.bytes_read() for rank in rest]
        self.ask(options, rest)
        reader.answer()
        for rank, bytes_before in zip(rest, before):
            self.assertLess(rank.bytes_read() - bytes_before, 4 * footer + file.stat().st_size)

    def test_each_byte_is_read_once(self):
        rows, draw = 100_000, random.Random(1)
        numbers = pyarrow.table({f"f{at}": numpy.random.default_rng(at).random(rows) for at in range(10)})
        words = pyarrow.table({"word": pyarrow.array([draw.randbytes(draw.randrange(161)) for _ in range(rows)])})
        for name, columns, window in (("numbers", numbers, 650_000), ("words", words, 1_000_000)):
            with self.subTest(columns=name):
                folder = self.write(name, columns, row_group_size=5000, compression="none", use_dictionary=False)
                size = 80 * rows
                before = [rank.bytes_read() for rank in self.ranks]
                answers = self.ask({"paths": [folder], "columns": [], "window": window, "batch_size": 500}, quiet=True)
                self.assertEqual({answer["epoch"] for answer in answers}, {1})
                read = sum(rank.bytes_read() for rank in self.ranks) - sum(before)
                # Footers are read by all. The reader goes on to the next epoch, and when its rank has ended others read
                # what is left by themselves. Without it they would read RANKS times the size.
                self.assertLess(read, 0.6 * RANKS * size)
                self.assertGreater(read, 0.99 * size)

    def test_a_rank_that_leaves_early(self):
        """It may be the reader. The others get all their rows, and wait for nobody. It leaves when all have come: only
        the first 4096 rows can be read before that."""
        expected = self.alone(epochs=3)
        for leaver in range(RANKS):
            found = self.ask(epochs=3, each={leaver: {"batches": 14}})
            self.assertEqual(found[leaver]["epochs"][1], expected[leaver]["epochs"][1][:4])
            rest = [rank for rank in range(RANKS) if rank != leaver]
            self.same([found[rank] for rank in rest], [expected[rank] for rank in rest])
        job = {"options": self.ragged_options(), "epochs": 2, "values": True}
        found = self.ask(**job, each={0: {"batches": 12}})
        self.same(found[1:], self.alone(**job)[1:])

    def test_ranks_that_leave_early_and_have_forked(self):
        """The children keep their sockets; one of the two ranks has no reader. The others wait for neither."""
        expected, leavers, begin = self.alone(epochs=3), (0, 1), time.monotonic()
        found = self.ask(epochs=3, each=dict.fromkeys(leavers, {"batches": 14, "fork": True}))
        self.same(found[len(leavers):], expected[len(leavers):])
        self.assertLess(time.monotonic() - begin, 9)

    def test_the_reader_dies(self):
        """In another round, so that it is surely rank 0: it has begun when the others are not there yet. The last rank
        does not come, so the others cannot have read more than 4096 rows."""
        others = [Rank(rank, round=1) for rank in range(1, RANKS - 1)]
        try:
            for options, job in (({"paths": [self.set]}, {}), (self.ragged_options(), {"values": True})):
                with self.subTest(options=options):
                    self.same(self.when_the_reader_dies(others, options, job),
                              self.alone(options, epochs=3, **job)[1:-1])
        finally:
            said = [rank.end() for rank in others]
        line = "the rank that read for its node has ended; this rank reads by itself from here"
        self.assertEqual([text.count(line) for text in said], [2, 2])

    def when_the_reader_dies(self, others, options, job):
        reader = Rank(0, round=1)
        try:
            # All have torch before the reader counts its seconds.
            self.ask({"one_reader": False}, [reader, *others], batches=1)
            reader.begin(options, epochs=1000)
            self.until_shares(reader)
            for rank in others:
                rank.begin(options, epochs=3, **job)
            for rank in others:
                self.until_shares(rank)
        finally:
            reader.process.kill()
            reader.end()
        return [rank.answer() for rank in others]

    @staticmethod
    def shares(rank):
        """It maps a reader's memory."""
        return "memfd:dtrain-rows" in pathlib.Path(f"/proc/{rank.process.pid}/maps").read_text()

    @staticmethod
    def regions(rank):
        """The readers' memories that it maps."""
        lines = pathlib.Path(f"/proc/{rank.process.pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in lines if "memfd:dtrain-rows" in line}

    def until(self, condition):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end)
            threading.Event().wait(0.005)

    def until_shares(self, rank):
        """It has come to a reader."""
        self.until(lambda: self.shares(rank) or self.assertIsNone(rank.process.poll()))

    def own_ranks(self, round, count=RANKS):
        """Processes of this test alone, whose words it can read at their end."""
        ranks = [Rank(rank, round=round) for rank in range(count)]
        self.addCleanup(lambda: [rank.end() for rank in ranks if rank.process.returncode is None])
        self.ask({"one_reader": False}, ranks, batches=1)  # all have torch
        return ranks

    def long_rows(self):
        """Strings of very different lengths. The footer says that all are short, as that of a writer can that does not
        note how long strings are."""
        draw = random.Random(5)
        words = [draw.randbytes(draw.choice((0, 1, 8))) for _ in range(5000)]
        for at in range(4500, 5000, 50):
            words[at] = draw.randbytes(600_000 if at == 4500 else draw.randrange(2000))
        folder = self.write("long", pyarrow.table({"id": numpy.arange(5000), "word": words}), row_group_size=500,
                            use_dictionary=False, compression="none")
        file = pathlib.Path(folder) / "0.parquet"
        long = file.read_bytes()
        begin = len(long) - 8 - int.from_bytes(long[-8:-4], "little")
        said = varint(2 * sum(map(len, words[4500:])))
        self.assertEqual(long.count(said, begin), 1)
        file.write_bytes(long[:begin] + long[begin:].replace(said, varint(2 * 500, len(said))))
        return folder

    def test_rows_that_are_much_longer_than_the_footers_say(self):
        """There is no memory for them that the ranks could share: before any row is there, or between rows. All read on
        by themselves, and the memory that they have shared is given back."""
        ranks, folder = self.own_ranks(3), self.long_rows()
        shared = set(os.listdir("/dev/shm"))
        for options in ({"window": 0}, {"shuffle": False}):
            with self.subTest(options=options):
                options = {"paths": [folder], "columns": ["id", "word"], **options}
                answers = self.ask(options, ranks, values=True, limits={"tails_min": 0}, pause=12)
                self.assertEqual(answers, RANKS * [{"ready": True}])
                self.assertFalse([rank.rank for rank in ranks if self.shares(rank)])
                for rank in ranks:
                    rank.go_on()
                self.same([rank.answer() for rank in ranks], self.alone(options, values=True))
        line = ("dtrain: ParquetLoader: the reader of its node cannot go on: its rows are much longer than the footers "
                "of the files say; this rank reads by itself")
        self.assertEqual([[words.startswith(line) for words in rank.end().splitlines()] for rank in ranks],
                         RANKS * [[True, True]])
        self.assertEqual(set(os.listdir("/dev/shm")) - shared, set())

    def test_descriptors_of_the_readers_process_run_out(self):
        """Who comes reads by itself at once, and the reader goes on."""
        ranks, begin = self.own_ranks(4), time.monotonic()
        options = {"window": 0}
        self.ask(options, ranks[:1], limits={}, pause=1)  # it has read all rows
        ranks[0].leave_descriptors(0)
        rest = self.ask(options, ranks[1:])
        ranks[0].go_on()
        self.same([ranks[0].answer(), *rest], self.alone(options))
        self.assertLess(time.monotonic() - begin, 9)
        line = ("dtrain: ParquetLoader: the process of its node's reader has no descriptor left for it; raise "
                "`ulimit -n`; this rank reads by itself\n")
        self.assertEqual([rank.end() for rank in ranks], ["", line, line, line])

    def test_descriptors_of_a_rank_run_out(self):
        """It has one for its own reading, and says why it shares none."""
        ranks, begin = self.own_ranks(5), time.monotonic()
        self.ask({}, ranks[:1], limits={}, pause=1)
        ranks[1].leave_descriptors(2)
        rest = self.ask({}, ranks[1:])
        ranks[0].go_on()
        self.same([ranks[0].answer(), *rest], self.alone())
        self.assertLess(time.monotonic() - begin, 9)
        self.assertEqual(ranks[1].end(), "dtrain: ParquetLoader: its process has no descriptor left to share the "
                         "reader of its node; raise `ulimit -n`: Too many open files; this rank reads by itself\n")

    def test_a_rank_waits_once_for_the_readers_of_all_sources(self):
        """Their process has stopped: 3 s for the first one, and one second for each of the others."""
        reader, rank = self.own_ranks(6, 2)
        job = {"mixture": self.sources(), "limits": {"reader": 3}}
        reader.begin({}, **job)
        self.until(lambda: len(self.regions(reader)) == len(self.sources()))
        try:
            reader.process.send_signal(signal.SIGSTOP)
            begin = time.monotonic()
            rank.begin({}, **job)
            found = rank.answer()
            self.assertLess(time.monotonic() - begin, 8)
        finally:
            reader.process.kill()
            reader.end()
        self.same([found], self.alone(**job)[1:2])

    def test_files_are_read_through_once_by_a_rank_alone(self):
        """So are their footers, which are as long as the rows."""
        rows = pyarrow.table({f"f{at}": numpy.random.default_rng(at).random(20_000) for at in range(10)})
        folder = self.write("alone", rows, row_group_size=500, compression="none", use_dictionary=False)
        size = sum(file.stat().st_size for file in pathlib.Path(folder).iterdir())
        options = {"world_size": 1, "paths": [folder], "columns": [], "window": 300_000, "fully_executed": True,
                   "prefetch": 1}
        for job in ({"epochs": 2}, {"mixture": {folder: 1}, "steps": [{}, {}]}):
            with self.subTest(job=job):
                before = self.ranks[0].bytes_read()
                [answer] = self.ask(options, self.ranks[:1], quiet=True, **job)
                self.assertEqual(answer["epoch"], 2)
                read = (self.ranks[0].bytes_read() - before) / size
                self.assertGreater(read, 2.8)  # without the footers
                self.assertLess(read, 3.7)     # and some of the next epoch, ahead

    def test_every_rank_hears_of_a_broken_file(self):
        folder = self.folder / "broken"
        folder.mkdir()
        for number in (0, 1):
            parquet.write_table(table(3000 * number, 3000).select(["id"]), folder / f"{number}.parquet",
                                row_group_size=500, compression="none", use_dictionary=False)
        with open(folder / "1.parquet", "r+b") as file:
            file.seek(4)
            file.write(b"\x7f" * 100)
        for options in ({"shuffle": False}, {"window": 0}):  # between rows, and before the first one
            with self.subTest(options=options):
                begin = time.monotonic()
                for answer in self.ask({"paths": [str(folder)], **options}):
                    self.assertIn(f"{folder}/1.parquet, row group 0, column 'id'", answer["data_error"])
                    self.assertNotIn("\n", answer["data_error"])
                self.assertLess(time.monotonic() - begin, 9, "a rank has waited for a reader that has ended")

    def sources(self):
        """A mixture's sources and their weights. The small one comes again and again."""
        if not hasattr(self, "web"):
            type(self).web = self.write("web", table(0, 2100).select(["id", "pair"]), row_group_size=GROUP)
            type(self).books = self.write("books", table(2100, 900).select(["id", "pair"]), row_group_size=GROUP)
            type(self).code = self.write("code", table(3000, 50).select(["id", "pair"]), row_group_size=GROUP)
        return {self.web: 3, self.books: 2, self.code: 0.5}

    def test_rows_of_a_mixture(self):
        """Each source has one reader for all ranks. Its epochs come again within one of the mixture, and all begin anew
        with the next."""
        steps = [{}, {}, {"batches": 3}]
        for options in ({}, {"window": 0}, {"batch_size": 7, "prefetch": 1}):
            for ends in ("all", "first"):
                with self.subTest(options=options, ends=ends):
                    job = {"mixture": self.sources(), "steps": steps, "ends": ends}
                    self.same(self.ask(options, **job), self.alone(options, **job))

    def test_strings_and_lists_of_a_mixture(self):
        names = [self.write(f"texts-{first}", ragged_table(4000).slice(first, rows), row_group_size=GROUP)
                 for first, rows in ((0, 2500), (2500, 300))]
        for options in ({"window": 0}, {"window": 900_000, "batch_size": 33}):
            with self.subTest(options=options):
                options = {**self.ragged_options(), **options}
                job = {"mixture": dict(zip(names, (3, 1))), "steps": [{}, {"batches": 3}], "values": True}
                self.same(self.ask(options, **job), self.alone(options, **job))

    def test_memory_of_a_mixture(self):
        """Readers of earlier epochs go, and a source without a weight needs none."""
        weights = {**self.sources(), self.books: 0, self.code: 0}
        options = {"fully_executed": True, "prefetch": 1}
        for rank in self.ranks:
            rank.begin(options, mixture=weights, steps=24 * [{}], quiet=True, wait=True)
        self.assertEqual([rank.answer() for rank in self.ranks], RANKS * [{"ready": True}])
        regions = set.union(*(self.regions(rank) for rank in self.ranks))
        for rank in self.ranks:
            rank.go_on()
        self.assertEqual({rank.answer()["epoch"] for rank in self.ranks}, {24})
        # Each rank has those of the epochs that the ranks are in, and sees with its next batch which ones have ended.
        self.assertLessEqual(len(regions), 3 * RANKS)

    def test_a_mixture_goes_on_exactly(self):
        """With new weights between batches, and from a state."""
        weights = [dict(zip(self.sources(), each)) for each in ((1, 1, 1), (0, 1, 0), (5, 1, 1))]
        job = {"options": {"batch_size": 40}, "mixture": self.sources(),
               "steps": [{"batches": 5}, *({"weights": each, "batches": 4} for each in weights), {}]}
        expected = self.alone(**job)
        self.same(self.ask(**job), expected)
        for step, batch in ((0, 2), (2, 1)):
            again = {**job, "state": expected[0]["epochs"][step][batch]["state"], "steps": [{}, {}]}
            self.same(self.ask(**again), self.alone(**again))

    def test_a_rank_leaves_a_mixture(self):
        """It has readers that the others need, or it has none."""
        job = {"options": {"batch_size": 20}, "mixture": self.sources(), "steps": [{}]}
        expected = self.alone(**job)
        for leaver in (0, 1):
            begin = time.monotonic()
            found = self.ask(**job, each={leaver: {"steps": [{"batches": 5}]}})
            rest = [rank for rank in range(RANKS) if rank != leaver]
            self.same([found[rank] for rank in rest], [expected[rank] for rank in rest])
            # Who comes to the next epoch may wait for the leaver once, 10 s, and not until it is given up.
            self.assertLess(time.monotonic() - begin, 30)

    def test_each_byte_of_a_mixture_is_read_once(self):
        rows, weights = 20_000, {}
        for name, weight in (("big", 3), ("small", 1)):
            columns = pyarrow.table({f"f{at}": numpy.random.default_rng(at).random(rows * weight) for at in range(10)})
            weights[self.write(name, columns, row_group_size=2000, compression="none", use_dictionary=False)] = weight
        for window in (0, 400_000):
            for fully_executed in (False, True) if window else (False,):
                before = [rank.bytes_read() for rank in self.ranks]
                options = {"columns": [], "window": window, "batch_size": 500, "fully_executed": fully_executed}
                for rank in self.ranks:
                    rank.begin(options, mixture=weights, ends="first", steps=[{}, {}], quiet=True, wait=True)
                # No rank ends before all have their rows: it may have the readers.
                self.assertEqual([rank.answer() for rank in self.ranks], RANKS * [{"ready": True}])
                read = (sum(rank.bytes_read() for rank in self.ranks) - sum(before)) / (10 * 8 * 4 * rows)
                for rank in self.ranks:
                    rank.go_on()
                self.assertEqual({rank.answer()["epoch"] for rank in self.ranks}, {2})
                epochs = 2 + fully_executed  # and some of the next one, ahead
                self.assertLess(read, 0.6 * RANKS * epochs, (window, fully_executed))
                self.assertGreater(read, 0.99 * epochs)

    def test_nothing_is_left(self):
        self.ask(epochs=3)
        self.assertFalse(any(self.shares(rank) for rank in self.ranks))
        descriptors = [len(os.listdir(f"/proc/{rank.process.pid}/fd")) for rank in self.ranks]
        self.ask(epochs=3)
        self.assertEqual([len(os.listdir(f"/proc/{rank.process.pid}/fd")) for rank in self.ranks], descriptors)


if __name__ == "__main__":
    unittest.main()
