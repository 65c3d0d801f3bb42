"""dtrain.run(): a function or a script as a job of several ranks, from a Python program or a notebook."""
import ctypes
import glob
import os
import pathlib
import pickle
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

from ._call import cloudpickle, dumps

HERE = pathlib.Path(__file__).resolve().parent
FIRST_WISH = 1.0  # seconds that the job has to end by itself after an interrupt
LAST_WISH = 10.0
LAST_LINES = 100  # of an output, in an error
MOST_OUTPUT = 64 << 20  # bytes that a script's value has; what comes before is only shown
PR_SET_PDEATHSIG = 1


class RunError(RuntimeError):
    """The job has failed, and not by an exception of the function. `code`: dtrain's exit code (docs/exit-codes.md).
    `output`: the last lines of all ranks."""

    def __init__(self, message, code, output):
        super().__init__(f"{message}\n{output}" if output else message)
        self.code, self.output = code, output


class RemoteTraceback(Exception):
    """The cause of an exception that comes from a rank: the traceback there."""

    def __str__(self):
        return f"\n{self.args[0]}"


def find_dtrain():
    """Beside this package in a build folder, of this Python, or in PATH."""
    found = [HERE.parents[1] / "bin/dtrain", pathlib.Path(sysconfig.get_path("scripts")) / "dtrain"]
    for path in found:
        if os.access(path, os.X_OK):
            return str(path)
    path = shutil.which("dtrain")
    if not path:
        raise FileNotFoundError("there is no dtrain: neither in PATH nor beside this Python; `pip install` the wheel "
                                "(make wheel)")
    return path


def pickled(call):
    name = getattr(call[0], "__qualname__", "")
    if not cloudpickle() and (getattr(call[0], "__module__", "") == "__main__" or "<" in name):
        raise TypeError(f"{name} is not in a module of its own, so it reaches other processes by cloudpickle alone: "
                        "pip install cloudpickle")
    return dumps(call)


def _dies_with_us(parent, libc=ctypes.CDLL(None)):
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


class _Job:
    """One `dtrain run`, whose output goes to sys.stdout and sys.stderr as it comes."""

    def __init__(self, command, environment):
        parent = os.getpid()
        # A group of its own: of two signals that an interrupt sends, dtrain would take the second for haste.
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=lambda: _dies_with_us(parent))
        self.said = bytearray()  # standard output
        self.last = bytearray()  # both
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ, ("stdout", bytearray()))
        self.selector.register(self.process.stderr, selectors.EVENT_READ, ("stderr", bytearray()))

    def show(self, deadline=None):
        """Until the end of its output, or `deadline`."""
        while self.selector.get_map() and (deadline is None or time.monotonic() < deadline):
            for key, _ in self.selector.select(None if deadline is None else deadline - time.monotonic()):
                name, line = key.data
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    self.selector.unregister(key.fileobj)
                line += chunk
                # Whole lines: two streams of a notebook may be one.
                whole = line.rfind(b"\n") + 1 if chunk else len(line)
                self.write(name, bytes(line[:whole]))
                del line[:whole]

    def write(self, name, text):
        if name == "stdout":
            self.said += text
            del self.said[:-MOST_OUTPUT]
        self.last += text
        del self.last[:-(1 << 16)]
        stream = getattr(sys, name)
        stream.write(text.decode(errors="replace"))
        stream.flush()

    def end(self):
        """After an interrupt. Nothing of the job is left."""
        for seconds in FIRST_WISH, LAST_WISH:
            self.process.send_signal(signal.SIGINT)
            deadline = time.monotonic() + seconds
            self.show(deadline)
            try:
                self.process.wait(max(0, deadline - time.monotonic()))
                return
            except subprocess.TimeoutExpired:
                pass
        self.process.kill()  # its guard ends the workers
        self.process.wait()

    def run(self):
        """Its exit code."""
        try:
            self.show()
            return self.process.wait()
        except BaseException:
            if self.process.poll() is None:
                self.end()
            raise
        finally:
            self.selector.close()
            self.process.stdout.close()
            self.process.stderr.close()

    def last_lines(self):
        return "\n".join(self.last.decode(errors="replace").splitlines()[-LAST_LINES:])


def _failure(folder, job, code):
    errors = []
    for path in glob.glob(os.path.join(glob.escape(folder), "error-*")):
        if path.rsplit("-", 1)[1].isdigit():
            with open(path, "rb") as file:
                errors.append(pickle.load(file))
    if not errors:
        return RunError(f"the job has failed with exit code {code}", code, job.last_lines())
    first = min(errors, key=lambda each: each["when"])
    text = f"rank {first['rank']}:\n{first['text']}"
    if first["error"] is None:
        return RunError(f"the function has failed on {text}", code, "")
    error = pickle.loads(first["error"])
    error.__cause__ = RemoteTraceback(text)
    return error


def options_of(nproc, nnodes, engine, flags):
    options = [] if engine is None else ["--engine", str(engine)]
    options += [] if nnodes is None else ["--nnodes", str(nnodes)]
    options += [] if nproc is None else ["--nproc", str(nproc)]
    return options + [str(flag) for flag in flags]


def launch(target, args, kwargs, options, shared=False, environment=None, words=()):
    """shared: nodes of other hosts need what is in the job's folder, which then is in the working folder.
    words: the last ones of the ranks' command line."""
    environment = dict(os.environ if environment is None else environment)
    environment.setdefault("PYTHON_EXEC", sys.executable)
    command = [find_dtrain(), "run", *options]
    if not callable(target):
        if kwargs:
            raise TypeError("a script has arguments and no keywords: " + ", ".join(kwargs))
        job = _Job([*command, os.fspath(target), *map(str, args), *words], environment)
        code = job.run()
        if code:
            raise RunError(f"{os.fspath(target)} has failed with exit code {code}", code, job.last_lines())
        return job.said.decode(errors="replace")
    folder = tempfile.mkdtemp(prefix=".dtrain-run-", dir=os.getcwd()) if shared else tempfile.mkdtemp(
        prefix="dtrain-run-")
    try:
        shutil.copy(HERE / "_call.py", folder)
        with open(os.path.join(folder, "call"), "wb") as file:
            file.write(pickle.dumps([os.path.abspath(path) for path in sys.path]))
            file.write(pickled((target, args, kwargs)))
        program = ["--no-python", environment["PYTHON_EXEC"], "-u", os.path.join(folder, "_call.py"), folder,
                   *words]
        job = _Job([*command, *program], environment)
        code = job.run()
        if code:
            raise _failure(folder, job, code)
        with open(os.path.join(folder, "value"), "rb") as file:
            return pickle.load(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(target, *args, nproc=None, nnodes=None, engine=None, flags=(), **kwargs):
    """Run `target` as a job: a function, as target(*args, **kwargs) on each rank, or a script's path with arguments.

    Returns the function's value on rank 0, or what the script has written to its standard output, with the ranks before
    the lines as `dtrain run` shows them (the last 64 MiB). Both streams are shown as they come, also in a notebook.

    nproc, nnodes, engine: as --nproc, --nnodes and --engine of `dtrain run`; flags: more of its flags, e.g.
    ["--max-restarts", "3"]. With several nodes the working folder must be there on all of them.

    Raises the exception of the rank that failed first; its cause is the traceback there. RunError, with the exit code:
    a script has failed, or a rank has ended without an exception. An interrupt (Ctrl-C, a notebook's stop) ends all
    ranks within 2 s. They also end when this process does.
    """
    one_host = engine in (None, "local") and nnodes in (None, 1, "1", "1:1")
    return launch(target, args, kwargs, options_of(nproc, nnodes, engine, flags), shared=not one_host)
