"""The token of a job across hosts: `dtrain token` makes one that only its user can read and never shows it; no worker
and no report gets it from the environment. usage: token_test.py path/to/dtrain [unittest's arguments]"""
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest

from terminal import Terminal

DTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
DEADLINE_S = 30


class Token(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.home = pathlib.Path(holder.name)

    def call(self, *words, **env):
        return subprocess.run([DTRAIN, *words], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=DEADLINE_S, umask=0,
                              env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.home), **env})

    def make(self, *words):
        done = self.call("token", "--new", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return re.search("fingerprint ([0-9a-f]{8})", done.stdout)[1]

    def test_the_usual_file(self):
        made = self.make()
        file = self.home / ".config/dtrain/token"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(file.parent.stat().st_mode), 0o700)
        shown = self.call("token")
        self.assertEqual(shown.stdout, f"token of {file}, fingerprint {made}\n")
        token = file.read_text().strip()
        self.assertNotIn(token, shown.stdout)
        by_variable = self.call("token", DTRAIN_TOKEN=token)
        self.assertEqual(by_variable.stdout, f"token of DTRAIN_TOKEN, fingerprint {made}\n")
        again = self.call("token", "--new")
        self.assertEqual(again.returncode, 2)
        self.assertIn("is there already", again.stderr)
        self.assertEqual(file.read_text().strip(), token)

    def test_a_named_file(self):
        file = self.home / "a token"
        made = self.make("--file", str(file))
        self.assertEqual(self.call("token", f"--file={file}").stdout, f"token of {file}, fingerprint {made}\n")
        self.assertNotEqual(made, self.make("--file", str(self.home / "other")))
        file.chmod(0o644)
        done = self.call("token", "--file", str(file))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("chmod 600", done.stderr)

    def test_a_code_makes_the_same_token_on_another_node(self):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.home)}
        with Terminal([DTRAIN, "token", "--code", "--file", str(self.home / "first")], env=env) as terminal:
            seen, status = terminal.finish()
            text = seen.decode()
        self.assertEqual(status, 0, text)
        code = re.search(r"join code: (\S+)\r\n", text)[1]
        made = re.search("fingerprint ([0-9a-f]{8})", text)[1]
        with Terminal([DTRAIN, "token", "--join", "--file", str(self.home / "second")], env=env) as terminal:
            terminal.wait_for("join code: ")
            terminal.type(code.lower().replace("-", " ") + "\n")
            seen, status = terminal.finish()
            text = seen.decode()
        self.assertEqual(status, 0, text)
        self.assertIn(f"fingerprint {made}", text)
        self.assertNotIn(code[:5].lower(), text)  # what is typed is not shown
        self.assertEqual((self.home / "first").read_text(), (self.home / "second").read_text())
        self.assertEqual(stat.S_IMODE((self.home / "second").stat().st_mode), 0o600)
        third = subprocess.run([DTRAIN, "token", "--join"], input=code + "\n", text=True, capture_output=True,
                               timeout=DEADLINE_S, env=env)
        self.assertEqual((third.returncode, third.stderr), (0, ""))
        self.assertIn(f"fingerprint {made}", third.stdout)

    def test_a_code_that_is_not_to_be_had(self):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.home)}
        done = subprocess.run([DTRAIN, "token", "--code"], stdin=subprocess.DEVNULL, text=True, capture_output=True,
                              timeout=DEADLINE_S, env=env, start_new_session=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("shows the join code on a terminal, but there is none", done.stderr)
        self.assertFalse((self.home / ".config/dtrain/token").exists())
        for typed, why in (("", "nothing was typed"), ("x" * 300, "too long"), ("7Q2MX", "5 letters and digits")):
            done = subprocess.run([DTRAIN, "token", "--join"], input=typed, text=True, capture_output=True,
                                  timeout=DEADLINE_S, env=env)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)
        with Terminal([DTRAIN, "token", "--join"], env=env) as terminal:
            terminal.wait_for("join code: ")
            terminal.type("7Q2\x03")
            seen, status = terminal.finish()
            self.assertEqual(status, 2)
            self.assertIn(b"given up", seen)

    def test_what_is_wrong_is_said(self):
        for words, why in ((["--fiel"], "takes --new, --code, --join"), (["--file"], "needs a file's name"),
                           ([], "`dtrain token --new` makes one"), (["--new", "--file", "no/folder/x"], "cannot make")):
            done = self.call("token", *words)
            self.assertIn(why, done.stderr)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
            self.assertEqual(done.returncode, 125 if "no/folder/x" in words else 2)

    def test_nobody_gets_it_from_the_environment(self):
        self.make()
        token = (self.home / ".config/dtrain/token").read_text().strip()
        # The agent is the worker's ancestor: its /proc/PID/environ must not have it either.
        script = ("env; pid=$PPID; while [ $pid -gt 1 ]; do tr '\\0' '\\n' </proc/$pid/environ; "
                  "tr '\\0' '\\n' </proc/$pid/cmdline; set -- $(cut -d')' -f2 /proc/$pid/stat); pid=$2; "
                  "[ \"$pid\" = $STOP ] && break; done")
        done = self.call("run", "--nproc=2", "--no-python", "sh", "-c", script, DTRAIN_TOKEN=token,
                         STOP=str(os.getpid()))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("MASTER_PORT=", done.stdout)
        self.assertNotIn(token, done.stdout + done.stderr)
        for words in (["env"], ["env", "--json"], ["run", "--dry-run", "true"], ["run", "--print-config", "true"]):
            done = self.call(*words, DTRAIN_TOKEN=token)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(token, done.stdout + done.stderr)
        self.assertRegex(self.call("env", DTRAIN_TOKEN=token).stdout, "DTRAIN_TOKEN +<redacted>")


if __name__ == "__main__":
    unittest.main()
