"""docs/tutorial.md: its listings are the programs in examples/tutorial, its commands print what it shows, and a run
that failed and went on ends with the bits of a run that nothing interrupted.

The page's commands are run in their order in one folder, as a reader types them.
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import torch

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/tutorial.md").read_text()
PROGRAMS = ROOT / "examples/tutorial"
DEADLINE = 200
HAS_PYTHON = (BIN.parent / "python/dtrain").is_dir()
NUMBER = r"\d+\.\d+"


def blocks(language):
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", PAGE)


def commands():
    """(command, lines that the page shows of its output), in the page's order."""
    found = []
    for block in blocks("console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line != "...":
                found[-1][1].append(line)
    return found


def places(block, lines):
    """Which lines of a program a listing shows; "..." in a line of its own stands for any number of them."""
    shown, start = set(), 0
    for part in re.split(r"(?m)^ *(?://|#) \.\.\.\n", block):
        wanted = part.splitlines()
        while lines[start:start + len(wanted)] != wanted:
            start += 1
            if start > len(lines):
                return None
        shown |= set(range(start, start + len(wanted)))
        start += len(wanted)
    return shown


def close(shown, printed):
    """The same line; its fractions, which depend on the CPU and the version of torch, are nearly the same."""
    if re.sub(NUMBER, "?", shown) != re.sub(NUMBER, "?", printed):
        return False
    pairs = zip(map(float, re.findall(NUMBER, shown)), map(float, re.findall(NUMBER, printed)))
    return all(abs(a - b) <= 0.02 * max(1, abs(a)) for a, b in pairs)


def source(line):
    return line.split()[0] if line.startswith(("[", "dtrain:")) else ""


def results(text):
    """The programs' own lines, without the ranks before them."""
    return re.findall(r"(?m)^(?:\[\d\] )?((?:epoch \d|test): .*)$", text)


def weights(file):
    """Parameters and running statistics, by name."""
    if file.name.startswith("python"):
        return torch.load(file)["net"]
    [newest] = sorted(file.glob("step-*/model.safetensors"))[-1:]
    data = newest.read_bytes()
    [size] = struct.unpack("<Q", data[:8])
    types = {"F32": torch.float32, "I64": torch.int64}
    return {name: torch.frombuffer(bytearray(data[8 + size:][slice(*each["data_offsets"])]), dtype=types[each["dtype"]])
            for name, each in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


class Tutorial(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        top = pathlib.Path(folder.name)
        cls.bin = top / "build/bin"
        cls.bin.mkdir(parents=True)
        for program in ("dtrain", "tutorial", "tutorial_alone"):
            (cls.bin / program).symlink_to(BIN / program)
        (top / "build/python").symlink_to(BIN.parent / "python")
        (top / "examples").symlink_to(ROOT / "examples")
        cls.printed, cls.weights = {}, {}
        for command, _ in commands():
            if "train.py" not in command or HAS_PYTHON:
                cls.run_command(command)

    @classmethod
    def run_command(cls, command):
        done = subprocess.run(command, shell=True, cwd=cls.bin, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=DEADLINE,
                              env={**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONWARNINGS": "ignore"})
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
        cls.printed[command] = done.stdout
        cls.weights[command] = {file.name: weights(file) for file in cls.bin.glob("*checkpoint*")}
        return done.stdout

    def lines(self, ending):
        """What the page's command with this ending printed of its results."""
        [command] = [command for command in self.printed if f"$ {command}".endswith(ending)]
        return results(self.printed[command])

    def assert_near(self, lines, others, tolerance):
        self.assertEqual([re.sub(NUMBER, "?", line) for line in lines], [re.sub(NUMBER, "?", line) for line in others])
        for line, other in zip(lines, others):
            for a, b in zip(re.findall(NUMBER, line), re.findall(NUMBER, other)):
                self.assertLessEqual(abs(float(a) - float(b)), tolerance, (line, other))

    def kept(self, ending, file):
        """The weights in the checkpoint that the page's command with this ending has left."""
        [command] = [command for command in self.printed if command.endswith(ending)]
        self.assertGreater(len(self.weights[command][file]), 3)
        return self.weights[command][file]

    def assert_went_on(self, unbroken, broken, file):
        self.assertEqual(len(self.lines(unbroken)), 7)
        self.assertEqual(self.lines(unbroken), self.lines(broken))
        [said] = [text for command, text in self.printed.items() if command.endswith(broken)]
        self.assertRegex(said, r"(?s)restart 1 of 1.*\[0\] epoch 3")
        first, second = self.kept(unbroken, file), self.kept(broken, file)
        self.assertEqual(list(first), list(second))
        self.assertTrue(any(name.endswith("running_var") for name in first), first)
        for name in first:
            self.assertTrue(torch.equal(first[name], second[name]), name)

    def test_listings_are_the_programs(self):
        for language, names in (("cpp", ("problem.h", "alone.cc", "train.cc")), ("python", ("train.py",))):
            programs = {name: (PROGRAMS / name).read_text().splitlines() for name in names}
            shown = {name: set() for name in names}
            for block in blocks(language):
                found = {name: places(block, lines) for name, lines in programs.items()}
                self.assertTrue(any(found.values()), f"no program has this listing:\n{block}")
                for name, where in found.items():
                    shown[name] |= where or set()
            for name, lines in programs.items():  # who copies the listings has the programs, but for their first lines
                begin = max(at for at, line in enumerate(lines) if re.match("#include|import|from", line))
                missing = [line for at, line in enumerate(lines) if at > begin and line and at not in shown[name]]
                self.assertEqual(missing, [], name)

    def test_commands_print_what_the_page_shows(self):
        for command, shown in commands():
            with self.subTest(command):
                printed = self.printed.get(command, "\n".join(shown)).splitlines()
                for by in {source(line) for line in shown}:  # only the lines of one process have an order
                    left = iter([line for line in printed if source(line) == by])
                    for line in (line for line in shown if source(line) == by):
                        self.assertTrue(any(close(line, other) for other in left), f"{line!r} is not there:\n{printed}")

    def test_goes_on_as_if_nothing_had_happened(self):
        self.assert_went_on("--nproc 2 ./tutorial", "--max-restarts 1 ./tutorial --fail", "checkpoint")

    def test_any_number_of_workers_and_strategy_gives_the_same_weights_the_same_score(self):
        score = self.lines("--max-restarts 1 ./tutorial --fail")[-1:]
        for ending in ("--nproc 3 ./tutorial", "--strategy fsdp ./tutorial", "$ ./tutorial"):
            self.assert_near(self.lines(ending), score, 0.00011)

    def test_without_batch_norm_any_number_of_workers_and_strategy_makes_the_same_updates(self):
        endings = [f"{start} ./tutorial --no-batch-norm" for start in
                   (";", "--nproc 2", "--nproc 3", "--strategy zero2", "--strategy fsdp")]
        alone = self.kept(endings[0], "checkpoint")
        for ending in endings[1:]:
            self.assert_near(self.lines(endings[0]), self.lines(ending), 0.00051)
            for name, value in self.kept(ending, "checkpoint").items():
                self.assertLess((value - alone[name]).abs().max().item(), 1e-4, name)

    @unittest.skipUnless(HAS_PYTHON, "the Python package dtrain is not built")
    def test_python_goes_on_as_if_nothing_had_happened(self):
        self.assert_went_on("--nproc 2 ../../examples/tutorial/train.py", "train.py --fail", "python_checkpoint.pt")


if __name__ == "__main__":
    unittest.main()
