"""What dtrain prints on a real terminal, as reviewed: test/golden/cli/screens, one file for each call and width.
DTRAIN_UPDATE_GOLDEN=1 rewrites them. usage: screens_test.py path/to/dtrain [unittest's arguments]"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from terminal import ESCAPES, Terminal

DTRAIN = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden" / "cli" / "screens"

# name -> (words, exit code)
SCREENS = {
    "help": (["--help"], 0),
    "no-command": ([], 2),
    "run-help": (["run", "--help"], 0),
    "run-help-all": (["run", "--help=all"], 0),
    "help-contain": (["help", "--contain"], 0),
    "help-env": (["help", "env"], 0),
    "help-exit-codes": (["help", "exit-codes"], 0),
    "help-environment": (["help", "environment"], 0),
    "help-workers": (["help", "workers"], 0),
    "unknown-command": (["rnu"], 2),
    "unknown-flag": (["run", "--nprox", "2", "true"], 2),
    "unknown-choice": (["run", "--contain", "cgruop", "true"], 2),
    "no-program": (["run", "--nproc", "2"], 2),
    "launch-help": (["launch", "--help"], 0),
    "help-launch": (["help", "launch"], 0),
    "help-logs": (["help", "logs"], 0),
    "logs-help": (["logs", "logs", "--help"], 0),
    "launch-no-program": (["launch", "--nproc", "2"], 2),
    "launch-unknown-flag": (["launch", "--wat", "true"], 2),
    "help-nonsense": (["help", "nonsense"], 2),
    "misspelled-flag": (["run", "--nprco", "2", "true"], 2),
    "no-such-file": (["run", "./trian"], 127),
    "dry-run": (["run", "--nproc", "2", "--rdzv-id", "night", "--dry-run", "./train", "--lr=0.1"], 0),
    "print-config": (["run", "--nproc", "2", "--print-config"], 0),
    "print-config-all": (["run", "--nproc", "2", "--print-config=all"], 0),
    "print-config-json": (["run", "--nproc", "2", "--print-config=json"], 0),
}
COLOURS = {"NO_COLOR": ""}
# Help is laid out for the width; the rest has lines of its own that the terminal wraps.
# These list all flags: they are what a pipe gets, whose text the unit tests pin.
AS_PIPED = {"run-help-all", "dry-run", "print-config", "print-config-all", "print-config-json"}
# These the unit tests pin as well, so they write them too.
SHARED = {"logs-help-80.txt": "help-logs-80.txt", "logs-help-40.txt": "help-logs-40.txt",
          "help-80.txt": "../help.txt", "help-40.txt": "../help-40.txt",
          "no-command-80.txt": "../help.txt", "no-command-40.txt": "../help-40.txt",
          "run-help-80.txt": "../help-run.txt", "run-help-40.txt": "../help-run-40.txt"}
LAID_OUT = {name for name in SCREENS if "help" in name or name == "no-command"} - {"help-nonsense"}


class Screens(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        train = self.folder / "train"
        train.write_text("#!/bin/sh\n")
        train.chmod(0o755)
        self.env = {"PATH": "/usr/bin:/bin", "TERM": "xterm", "OMP_NUM_THREADS": "1", "PET_MAX_RESTARTS": "3"}

    def show(self, words, columns, env=None):
        """Without colours, unless `env` says otherwise."""
        with Terminal([str(DTRAIN), *words], columns=columns, env={**self.env, "NO_COLOR": "1", **(env or {})},
                      folder=self.folder) as terminal:
            shown, code = terminal.finish()
        return shown.replace(b"\r\n", b"\n"), code

    def piped(self, words, columns):
        return subprocess.run([DTRAIN, *words], env={**self.env, "COLUMNS": str(columns)}, cwd=self.folder,
                              stdout=subprocess.PIPE, timeout=60).stdout

    def check_golden(self, name, shown):
        path = GOLDEN / SHARED.get(name, name)
        if os.environ.get("DTRAIN_UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(shown)
        self.assertTrue(path.exists(), f"{path} is missing; DTRAIN_UPDATE_GOLDEN=1 writes it")
        self.assertEqual(shown.decode(), path.read_text(), path)

    def test_every_screen_at_80_and_40_columns(self):
        for name, (words, expected) in SCREENS.items():
            for columns in (80, 40):
                with self.subTest(name=name, columns=columns):
                    shown, code = self.show(words, columns)
                    self.assertEqual(code, expected)
                    self.assertTrue(shown.isascii(), shown)
                    if name in LAID_OUT:
                        self.assertLessEqual(max(map(len, shown.splitlines())), columns)
                    if name in AS_PIPED:
                        self.assertEqual(shown, self.piped(words, columns))
                    elif columns == 80 or name in LAID_OUT:
                        self.check_golden(f"{name}-{columns}.txt", shown)

    def test_the_first_screens_do_not_scroll(self):
        for name in ("help", "run-help"):
            shown, _ = self.show(SCREENS[name][0], 80)
            self.assertLess(shown.count(b"\n"), 24, name)

    # What they say depends on the machine; how it looks does not.
    def test_doctor_and_env_fit_and_are_plain(self):
        for columns in (80, 40):
            shown, code = self.show(["doctor"], columns)
            self.assertIn(code, (0, 1))
            self.assertTrue(shown.isascii(), shown)
            for line in shown.decode().splitlines():
                self.assertTrue(len(line) <= columns or max(map(len, line.split())) > columns - 24, line)
        shown, code = self.show(["env"], 80)
        self.assertEqual(code, 0)
        self.assertTrue(shown.isascii(), shown)
        self.assertTrue(self.show(["version"], 80)[0].startswith(b"dtrain "))

    def test_no_terminal_gets_colours_it_did_not_ask_for(self):
        words = ["run", "--nproc", "2", "sh", "-c", "echo hello"]
        coloured, _ = self.show(words, 80, COLOURS)
        self.assertIn(b"\x1b[", coloured)
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb", **COLOURS}):
            shown, code = self.show(words, 80, env)
            self.assertEqual(code, 0)
            self.assertNotIn(b"\x1b", shown)
            self.assertEqual(sorted(re.findall(rb"\[\d\] hello", shown)), [b"[0] hello", b"[1] hello"])

    def test_headings_names_and_errors_have_colours_and_nothing_else_differs(self):
        for words, painted in ((["--help"], [b"\x1b[1;32mCommands:\x1b[0m\n", b"  \x1b[36mrun\x1b[0m   "]),
                               (["run", "--help"], [b"\x1b[1;32mUsage:\x1b[0m dtrain run",
                                                    b"  \x1b[36m-t, --tee STREAMS\x1b[0m "]),
                               (["run", "--nprox", "2", "true"], [b"\x1b[1;31mdtrain:\x1b[0m unknown flag --nprox"]),
                               (["doctor"], [b"\x1b[1;32mok\x1b[0m  "])):
            with self.subTest(words):
                plain, _ = self.show(words, 80)
                coloured, _ = self.show(words, 80, COLOURS)
                for text in painted:
                    self.assertIn(text, coloured)
                if words != ["doctor"]:  # what it measures differs
                    self.assertEqual(ESCAPES.sub(b"", coloured), plain)

    def test_a_job_says_what_it_is_and_how_it_went_and_no_line_breaks_within_a_word(self):
        def of_dtrain(words, columns):
            shown, code = self.show(words, columns)
            self.assertEqual(code, 0)
            return re.sub(rb"\d+(\.\d)? m?s", b"TIME", shown).decode()

        words = ["run", "--nproc", "2", "--max-restarts", "1", "--failure-grace", "0.5", "sh", "-c",
                 "test $TORCHELASTIC_RESTART_COUNT = 1 -o $RANK = 0"]
        said = of_dtrain(words, 80)
        self.assertTrue(said.startswith("dtrain: 2 workers of sh\n"), said)
        self.assertTrue(said.endswith("dtrain: done: 2 workers, TIME, 1 restart\n"), said)
        narrow = of_dtrain(words, 40)
        self.assertIn("\n  ", narrow)
        self.assertEqual(narrow.replace("\n  ", " "), said.replace("\n  ", " "))
        self.assertLessEqual(max(map(len, narrow.splitlines())), 40)
        self.assertNotIn("containment", said)
        env = {name: value for name, value in self.env.items() if name != "OMP_NUM_THREADS"}
        for words in (["-v"], ["--quiet", "--verbose"]):
            done = subprocess.run([DTRAIN, "run", "--nproc", "2", *words, "true"], env=env, stderr=subprocess.PIPE,
                                  text=True, timeout=60)
            self.assertRegex(done.stderr, r"dtrain: OMP_NUM_THREADS=\d+ for each of 2 workers \(\d+ cores\); set it to "
                             r"choose\ndtrain: 2 workers of true\ndtrain: containment \w+.*\ndtrain: done: 2 workers")
        quiet = subprocess.run([DTRAIN, "run", "--nproc", "2", "--quiet", "true"], env=env, stderr=subprocess.PIPE,
                               timeout=60)
        self.assertEqual(quiet.stderr, b"")

    def test_the_locale_does_not_matter(self):
        for name in ("run-help-all", "dry-run"):
            for locale in ("C", "POSIX", "de_DE.ISO-8859-1"):
                shown, _ = self.show(SCREENS[name][0], 80, {"LC_ALL": locale, "LANG": locale})
                self.assertEqual(shown, self.piped(SCREENS[name][0], 80))


if __name__ == "__main__":
    unittest.main()
