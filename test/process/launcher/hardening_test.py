"""The binary is built as cmake/DtrainCompile.cmake promises, and needs nothing but the C library."""
import os
import re
import subprocess
import unittest

DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, DTRAIN], capture_output=True, text=True, check=True).stdout


@unittest.skipUnless(os.environ.get("DTRAIN_TEST_SLOWER", "1") == "1", "sanitizer builds bring their own")
class Hardening(unittest.TestCase):
    def test_position_independent(self):
        self.assertRegex(readelf("-h"), r"Type:\s+DYN")
        self.assertRegex(readelf("-d"), r"Flags:.*PIE")

    def test_relocations_are_read_only_from_the_start(self):
        self.assertIn("GNU_RELRO", readelf("-l"))
        self.assertRegex(readelf("-d"), r"\bNOW\b")

    def test_stack_is_not_executable_and_has_canaries(self):
        self.assertRegex(readelf("-l"), r"GNU_STACK.* RW ")
        self.assertIn("__stack_chk_fail", readelf("--dyn-syms"))

    @unittest.skipIf(os.environ.get("DTRAIN_TEST_BUILD") == "Debug", "needs an optimised build")
    def test_library_calls_are_fortified(self):
        self.assertRegex(readelf("--dyn-syms"), r"__(memcpy|snprintf|read)_chk")

    def test_one_file(self):
        needed = re.findall(r"NEEDED.*\[(.*?)[.-]", readelf("-d"))
        # Every further library makes each start slower; libm comes in with std::from_chars of a double.
        self.assertLessEqual(set(needed), {"libc", "ld", "libpthread", "libdl", "linux"})


if __name__ == "__main__":
    unittest.main()
