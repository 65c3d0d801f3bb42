"""More than a hundred command lines, good and bad, under real torchrun and under dtrain called by that name and as
`dtrain run`: what workers find, what is printed, written, and answered. usage: compare_test.py PYTHON [unittest's
arguments]; PYTHON has the torch to compare with. DTRAIN_COMPARE: only cases of these names (patterns).

What differs and why is in deviations.py. A case is a line in cases.py.
"""
import fnmatch
import os
import pathlib
import re
import sys
import unittest

import cases
import compare
import sides
from deviations import DEVIATIONS

PYTHON = sys.argv.pop(1)
ONLY = os.environ.get("DTRAIN_COMPARE", "").split()
MIGRATING = pathlib.Path(__file__).resolve().parents[3] / "docs" / "migrating.md"


class Torchrun(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if ONLY:
            cases.CASES[:] = [c for c in cases.CASES if any(fnmatch.fnmatchcase(c.name, p) for p in ONLY)]
        peer = sides.Peer(PYTHON)
        try:
            cls.all = compare.Comparison(peer)
        finally:
            peer.close()

    def nothing(self, problems, what):
        self.assertEqual(len(problems), 0, f"{len(problems)} {what}:\n" + "\n".join(map(str, problems)))

    def test_every_case_ends(self):
        self.nothing(self.all.broken, "cases did not end")
        if not ONLY:
            self.assertGreaterEqual(self.all.count, 100)

    def test_every_difference_is_listed(self):
        self.nothing(self.all.unlisted(), "differences that deviations.py does not list")

    @unittest.skipIf(ONLY, "not all cases ran")
    def test_every_listed_deviation_occurs(self):
        self.nothing(self.all.idle(), "deviations that occur no more (id, called as, cases)")

    def test_refusals_say_what_is_wrong(self):
        self.nothing(self.all.wrong, "refusals without the right words (case, launcher, pattern, what it said)")

    def test_a_forked_torchrun_is_a_torchrun(self):
        self.nothing(self.all.unlike, "differences between peer.py's torchrun and one started afresh")


class Documented(unittest.TestCase):
    def test_the_table_of_differences_has_every_deviation_and_no_other(self):
        table = MIGRATING.read_text().split("## Every difference", 1)[1]
        told = re.findall(r"(?m)^\| `([\w-]+)` \|", table)
        self.assertEqual(sorted(told), sorted({d.id for d in DEVIATIONS}), f"{MIGRATING}: its last table")


if __name__ == "__main__":
    unittest.main()
