#!/usr/bin/env python3
"""What `make bench-data` says of the order of rows, on a small table: skew, and accuracy beside a full shuffle."""
import os
import pathlib
import statistics
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/data"))
import quality  # noqa: E402

ROWS, SEEDS = 131_072, 3


class Quality(unittest.TestCase):
    def test_a_table_that_is_sorted_by_label(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-quality-") as folder:
            quality.make_table(folder, ROWS)
            quality.write_shuffled(os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain-data"), folder, ROWS)
            found = quality.measure(folder, ROWS, SEEDS, (quality.FULL, quality.CACHE, quality.RAW, quality.SORTED))
        skew = {name: one for name, (one, _) in found.items()}
        self.assertAlmostEqual(skew[quality.FULL], 0.037, delta=0.002)
        self.assertLessEqual(skew[quality.CACHE], 0.05)
        self.assertLessEqual(skew[quality.RAW], 0.30)
        self.assertGreater(skew[quality.SORTED], 0.85)
        accuracy = {name: ones for name, (_, ones) in found.items()}
        self.assertGreater(statistics.fmean(accuracy[quality.FULL]), 70)
        self.assertLess(statistics.fmean(accuracy[quality.SORTED]), 30)
        apart, error = quality.difference(accuracy[quality.CACHE], accuracy[quality.FULL])
        self.assertLess(error, 2)
        self.assertLessEqual(abs(apart), error)


if __name__ == "__main__":
    unittest.main()
