"""A Python program finds itself under dtrain as under `python -u`, which is what torchrun starts.
usage: python_test.py path/to/dtrain"""
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

DTRAIN = os.path.abspath(sys.argv[1])
DEADLINE_S = 60
SHOW = """import os, sys
print([sys.argv, sys.path[0], os.getcwd(), globals().get("__file__"), __name__, __package__, sys.orig_argv[1:],
       sys.stdout.write_through, sys.executable], flush=True)
""" if sys.version_info >= (3, 10) else """import os, sys
print([sys.argv, sys.path[0], os.getcwd(), globals().get("__file__"), __name__, __package__,
       sys.stdout.write_through, sys.executable], flush=True)
"""
ARGUMENTS = ["", "a b", "--nproc", "-m", "--", "$HOME", "${rank}", "*", "é", "$"]


class Same(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        for name in ("train.py", "pkg/__init__.py", "pkg/__main__.py", "pkg/sub/__init__.py", "pkg/sub/mod.py",
                     "app/__main__.py"):
            cls.write(name, "" if name.endswith("init__.py") else SHOW)
        cls.write("plain", "#!/usr/bin/env python3\n" + SHOW)
        cls.write("windows", ("#!/usr/bin/env python3\n" + SHOW).replace("\n", "\r\n"))
        for name in ("app.zip", "app.pyz", "archive"):
            with zipfile.ZipFile(os.path.join(cls.folder.name, name), "w") as archive:
                archive.writestr("__main__.py", SHOW)

    @classmethod
    def write(cls, name, text, mode=0o644):
        path = os.path.join(cls.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", newline="") as f:
            f.write(text)
        os.chmod(path, mode)

    def call(self, *words, **env):
        hidden = ("DTRAIN_", "PET_", "VIRTUAL_ENV", "PYTHONUNBUFFERED")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        environment.update({"PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}, **env)
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                              cwd=self.folder.name, env=environment)

    def dtrain(self, *words):
        done = self.call(DTRAIN, "run", "--log-line-prefix-template", "${rank}", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_it_is_the_same(self):
        for words in (["train.py"], ["./train.py"], [os.path.join(self.folder.name, "train.py")], ["app"], ["app/"],
                      ["app.zip"], ["app.pyz"], ["./archive"], ["./plain"], ["./windows"], ["-m", "pkg"],
                      ["-m", "pkg.sub.mod"]):
            with self.subTest(words=words):
                plain = self.call(sys.executable, "-u", *words, *ARGUMENTS)
                self.assertEqual(plain.returncode, 0, plain.stderr)
                self.assertEqual(self.dtrain(*words, *ARGUMENTS).stdout, "0" + plain.stdout)

    def test_each_worker_has_its_local_rank_in_its_arguments(self):
        done = self.dtrain("--nproc", "2", "--no-python", "echo", "${local_rank}", "$local_rank", "$local_rankx", "$$")
        self.assertEqual(sorted(done.stdout.splitlines()), ["00 0 $local_rankx $$", "11 1 $local_rankx $$"])

    def test_an_executable_with_windows_line_ends(self):
        self.write("tool", "#!/usr/bin/env python3\r\nprint(1)\r\n", 0o755)
        done = self.call(DTRAIN, "run", "./tool")
        self.assertEqual(done.returncode, 126)
        self.assertIn("Windows line ends", done.stderr)

    def test_python_as_the_program(self):
        done = self.dtrain(sys.executable, "train.py", "x")
        self.assertIn("without -u holds its output back", done.stderr)
        self.assertIn("'train.py', 'x'", done.stdout)
        self.assertNotIn("without -u", self.dtrain(sys.executable, "-u", "train.py").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
