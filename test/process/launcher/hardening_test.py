"""The binary is built as cmake/DtrainCompile.cmake promises, and needs nothing but the C library."""
import json
import os
import platform
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

    @unittest.skipIf(os.environ.get("DTRAIN_TEST_BUILD") == "Debug", "needs an optimised build")
    def test_sizes_known_at_run_time_are_checked_too(self):
        with open(os.path.join(os.environ["DTRAIN_BIN_DIR"], "../compile_commands.json")) as f:
            # By where its object goes: a room that is compiled as one has a file in the build folder.
            commands = {re.search(r" -o (\S+)", entry["command"])[1]: entry["command"] for entry in json.load(f)}
        for folder in ("cli", "launcher", "rendezvous"):
            own = [file for file in commands if file.startswith(folder + "/")]
            self.assertTrue(own, folder)
            self.assertEqual([file for file in own if "-D_FORTIFY_SOURCE=3" not in commands[file]], [])

    @unittest.skipUnless(platform.machine() == "x86_64", "a feature of x86")
    def test_functions_begin_with_landing_pads(self):
        found = re.search(r"(?m)^\s*\d+: ([0-9a-f]+) .* FUNC .* main$", readelf("--syms"))
        if not found:
            self.skipTest("the binary is stripped")
        address = int(found[1], 16)
        loads = re.findall(r"(?m)^  LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", readelf("-l"))
        offset, start = next((int(o, 16), int(v, 16)) for o, v, size in loads
                             if int(v, 16) <= address < int(v, 16) + int(size, 16))
        with open(DTRAIN, "rb") as f:
            f.seek(offset + address - start)
            self.assertEqual(f.read(4), bytes.fromhex("f30f1efa"), "main has no endbr64")
        # The linker writes the note if every object has one. Debian 12's C start-up files have none (docs/security.md).
        startup = subprocess.run(["cc", "-print-file-name=Scrt1.o"], capture_output=True, text=True, check=True)
        notes = subprocess.run(["readelf", "-n", startup.stdout.strip()], capture_output=True, text=True, check=True)
        if "IBT" in notes.stdout:
            self.assertRegex(readelf("-n"), "IBT.*SHSTK")

    @unittest.skipIf(os.environ.get("DTRAIN_TEST_BUILD") == "Debug", "without optimisation ceil() is a call into libm")
    def test_one_file(self):
        needed = re.findall(r"NEEDED.*\[(.*?)[.-]", readelf("-d"))
        # Every further library makes each start slower; libm comes in with std::from_chars of a double, or with log().
        self.assertLessEqual(set(needed), {"libc", "ld", "libpthread", "libdl", "linux"})


if __name__ == "__main__":
    unittest.main()
