"""The lock of a killed torch.utils.cpp_extension build is named at start, and not that of a build that runs.

The interpreter that runs this test has torch. .venv-torch2.11, if it is there, has one that waits for such a file for
ever (TORCH=2.11 scripts/setup.sh train)."""
import ctypes
import importlib.util
import os
import pathlib
import select
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DTRAIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"], "dtrain").resolve()
OLDER = ROOT / ".venv-torch2.11/bin/python"
TORCH = pathlib.Path(importlib.util.find_spec("torch").origin).parent
DEADLINE_S = 120
PR_SET_CHILD_SUBREAPER = 36
HOURS_AGO = 3

# torch's own class, without the rest of torch.
HOLD = """import importlib.util, sys
spec = importlib.util.spec_from_file_location("file_baton", sys.argv[1] + "/utils/file_baton.py")
file_baton = importlib.util.module_from_spec(spec)
spec.loader.exec_module(file_baton)
assert file_baton.FileBaton(sys.argv[2]).try_acquire()
print("taken", flush=True)
sys.stdin.read()
"""
# What newer torch has in its place.
HOLD_NEWER = """import filelock, sys
filelock.FileLock(sys.argv[2]).acquire()
print("taken", flush=True)
sys.stdin.read()
"""
BUILD = """import sys
from torch.utils.cpp_extension import load
load("slow", sys.argv[1])
"""
# A compiler that says that it compiles and goes on until it is told to end; ccache then tries again. It answers what
# torch asks it before.
COMPILER = """#!/bin/sh
case " $* " in
*" -c "*) [ -e {0}/ended ] && exit 1; echo compiling >{0}/said; exec cat {0}/end ;;
esac
exec c++ "$@"
"""


def waits(python):
    """Whether this torch waits for the file."""
    where = subprocess.run([python, "-c", "import importlib.util as i; print(i.find_spec('torch').origin)"],
                           capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout.strip()
    return "FileBaton(" in pathlib.Path(where).with_name("utils").joinpath("cpp_extension.py").read_text()


def reap():
    """Until this process has no child left; those of children that were killed are its own."""
    signal.alarm(DEADLINE_S)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        signal.alarm(0)


class BuildLock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.cache = pathlib.Path(holder.name)
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        self.folder = self.cache / f"torch_extensions/{version}_cpu/slow"
        self.folder.mkdir(parents=True)
        self.lock = self.folder / "lock"

    def start(self, *command, **more):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        return process

    def hold(self, program=HOLD):
        process = self.start(sys.executable, "-c", program, TORCH, self.lock)
        self.assertEqual(process.stdout.readline(), "taken\n")
        self.make_old()
        return process

    def make_old(self):
        """Neither a young lock nor a folder in which something has changed is what keeps dtrain silent."""
        for path in (*self.folder.iterdir(), self.folder):
            then = path.stat().st_mtime - HOURS_AGO * 3600
            os.utime(path, (then, then))

    def kill(self, process):
        process.kill()
        process.wait(DEADLINE_S)

    def run_dtrain(self, *words, python="/no/python", **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("DTRAIN_", "PET_", "TORCH_EXTENSIONS"))}
        environment.update({"XDG_CACHE_HOME": str(self.cache), "PYTHON_EXEC": str(python), **variables})
        return subprocess.run([DTRAIN, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE_S)

    def says(self, *flags, **more):
        done = self.run_dtrain("run", "--nproc", "1", *flags, "true", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in done.stderr.splitlines() if "lock" in line]

    def assert_named(self, **more):
        self.assertEqual(self.says(**more), [
            f"dtrain: {self.lock} is {HOURS_AGO} h 0 min old, and {self.why_left()}: a build that was killed has left "
            f"it, and workers that need slow wait for it for ever; remove it: rm {self.lock}"])
        self.assertTrue(self.lock.exists())

    def why_left(self):
        """Where other containers or hosts may build in the folder, time alone tells."""
        local = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]" and subprocess.run(
            ["stat", "-f", "-c", "%T", self.folder], capture_output=True, text=True, check=True, timeout=DEADLINE_S
        ).stdout.strip() in ("ext2/ext3", "xfs", "btrfs", "tmpfs", "overlayfs")
        return "no process builds there" if local else f"nothing has changed there for {HOURS_AGO} h 0 min"

    def test_a_killed_builders(self):
        self.assertEqual(self.says(), [])
        builder = self.hold()
        self.assertEqual(self.says(), [])
        self.kill(builder)
        self.assert_named()
        self.assertEqual(self.says("--quiet"), [])
        self.assertEqual(self.says("--dry-run"), [])
        self.lock.unlink()
        self.assertEqual(self.says(), [])

    def test_other_folders(self):
        self.kill(self.hold())
        self.assert_named(XDG_CACHE_HOME="/none", TORCH_EXTENSIONS_DIR=str(self.folder.parent))
        self.assertEqual(self.says(TORCH_EXTENSIONS_DIR="/none"), [])

    def test_what_a_killed_builder_has_started_still_builds(self):
        builder = self.hold()
        compiler = self.start("cat", cwd=self.folder)
        self.kill(builder)
        self.assertEqual(self.says(), [])
        self.kill(compiler)
        self.assert_named()

    def test_newer_torch_leaves_its_file_always(self):
        self.kill(self.hold(HOLD_NEWER))
        self.assertTrue(self.lock.exists())
        self.assertEqual(self.says(), [])

    def test_the_doctor_shows_it(self):
        def shown():
            return " ".join(self.run_dtrain("doctor").stdout.split()).partition("warn build lock ")[2]

        self.assertEqual(shown(), "")
        self.kill(self.hold())
        self.assertIn(f"-> a build that was killed has left it, and workers that need slow wait for it for ever; "
                      f"remove it: rm {self.lock}", shown())

    def real_build(self, python):
        source = self.cache / "slow.cc"
        source.write_text("")
        compiler = self.cache / "compiler"
        compiler.write_text(COMPILER.format(self.cache))
        compiler.chmod(0o700)
        for name in ("said", "end"):
            os.mkfifo(self.cache / name)
        said = os.open(self.cache / "said", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, said)
        builder = self.start(python, "-W", "ignore", "-c", BUILD, source, start_new_session=True,
                             stderr=subprocess.STDOUT, env={**os.environ, "CXX": str(compiler),
                                                            "TORCH_EXTENSIONS_DIR": str(self.folder.parent)})
        if not select.select([said], [], [], DEADLINE_S)[0]:
            self.kill(builder)
            self.fail(builder.stdout.read())
        self.make_old()
        self.assertTrue(self.lock.exists())
        self.assertEqual(bool(self.lock.stat().st_mode & stat.S_IXUSR), waits(python))
        self.assertEqual(self.says(python=python), [])
        self.kill(builder)  # its compiler goes on
        self.make_old()
        self.assertEqual(self.says(python=python), [])
        os.killpg(builder.pid, signal.SIGKILL)  # ninja; what it has started is in another group
        (self.cache / "ended").touch()
        os.close(os.open(self.cache / "end", os.O_WRONLY))
        reap()
        for path in (*self.folder.iterdir(), self.folder):
            os.utime(path)
        self.make_old()
        if waits(python):
            self.assert_named(python=python)
        else:
            self.assertEqual(self.says(python=python), [])

    def test_a_real_build(self):
        self.real_build(sys.executable)

    @unittest.skipUnless(OLDER.exists(), "no .venv-torch2.11: TORCH=2.11 scripts/setup.sh train")
    def test_a_real_build_of_a_torch_that_waits(self):
        self.assertTrue(waits(OLDER))
        self.real_build(OLDER)

    @unittest.skipUnless(OLDER.exists(), "no .venv-torch2.11: TORCH=2.11 scripts/setup.sh train")
    def test_a_torch_that_does_not_wait(self):
        self.kill(self.hold())
        self.assert_named(python=OLDER)
        if not waits(sys.executable):
            self.assertEqual(self.says(python=sys.executable), [])


if __name__ == "__main__":
    unittest.main()
