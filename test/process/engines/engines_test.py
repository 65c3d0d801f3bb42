#!/usr/bin/env python3
"""The failure matrix under seven engines, each cell as rows.py demands, and one program that trains to the same losses
under all of them."""
import dataclasses
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "slurm")]

import engines  # noqa: E402
import matrix  # noqa: E402
from cluster import missing  # noqa: E402
from jobs import ENDLESS, Outcome  # noqa: E402
from rows import ABSENT, ROWS, faults  # noqa: E402

# `make engines-matrix` runs all rows. ssh waits for half a minute for a host that is silent, and a job of Spark takes
# 13 s: here it has the rows whose end depends on Spark.
NOT_OF_SSH = ("node without power",)
OF_SPARK = ("rank exits 7", "agent killed", "node lost", "submitter killed")
FOUND, LOSSES = {}, {}


def tearDownModule():
    print(matrix.table(ROWS, FOUND))


class Matrix(unittest.TestCase):
    def check(self, kind, rows=tuple(ROWS)):
        try:
            FOUND[kind.name], losses = matrix.run_engine(kind, rows)
        except engines.netlab.Unavailable as error:
            self.skipTest(str(error))
        for row in rows:
            with self.subTest(engine=kind.name, row=row.name):
                outcome = FOUND[kind.name].get(row.name)
                if (kind.name, row.name) in ABSENT:
                    self.assertIsNone(outcome)
                else:
                    self.assertEqual(faults(kind.name, row, outcome), [], outcome.said[-4000:])
        with self.subTest(engine=kind.name, losses=True):
            if losses is None:
                self.skipTest("examples/digits is not built")
            LOSSES[kind.name] = losses
            self.assertGreater(losses.count(b"\n"), 10)
            self.assertEqual(set(LOSSES.values()), {losses}, list(LOSSES))

    def test_local(self):
        self.check(engines.Local)

    def test_ssh(self):
        self.check(engines.Ssh, [row for row in ROWS if row.name not in NOT_OF_SSH])

    def test_open_mpi(self):
        self.check(engines.OpenMpi)

    def test_mpich(self):
        self.check(engines.Mpich)

    @unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
    def test_slurm(self):
        self.check(engines.Slurm)

    def test_ray(self):
        self.check(engines.Ray)

    def test_spark(self):
        self.check(engines.Spark, [row for row in ROWS if row.name in OF_SPARK])


class Table(unittest.TestCase):
    def test_every_hole_has_a_place_and_a_reason(self):
        names = {kind.name for kind in engines.ENGINES + matrix.PEERS}
        for (engine, row), why in ABSENT.items():
            self.assertIn(engine, names)
            self.assertIn(row, matrix.BY_NAME)
            self.assertRegex(why, r"^[A-Z].*\.$")

    def test_each_fault_is_found(self):
        row, good = matrix.BY_NAME["rank exits 7"], Outcome(7, 0.1, [], "first failure: rank 1: exit code 7")
        self.assertEqual(faults("ssh", row, good), [])
        for change in {"code": 0}, {"code": ENDLESS}, {"seconds": 11}, {"left": ["sh (1)"]}, {"said": "exit code 7"}:
            with self.subTest(change=change):
                self.assertEqual(len(faults("ssh", row, dataclasses.replace(good, **change))), 1)


if __name__ == "__main__":
    engines.netlab.become_able()
    unittest.main()
