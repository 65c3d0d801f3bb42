"""dtrain.run(): a function or a script as a job of several ranks, from a Python program or a notebook."""
import contextlib
import ctypes
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
from ._removed import removed

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
        self.ending = False
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
                # Whole lines, and steps of a progress bar: two streams of a notebook may be one.
                whole = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1 if chunk else 0
                line += chunk[:whole]
                if whole or not chunk:
                    self.write(name, bytes(line))
                    line[:] = chunk[whole:]
                else:
                    line += chunk

    def write(self, name, text):
        if name == "stdout":
            self.said += text
            del self.said[:-MOST_OUTPUT]
        self.last += text
        del self.last[:-(1 << 16)]
        stream = getattr(sys, name)
        if stream is None:
            return
        text = text.decode(errors="replace")
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError as error:
                stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
            stream.flush()
        except Exception:
            if not self.ending:
                raise

    def end(self):
        """After an interrupt. Nothing of the job is left, also after a second one."""
        self.ending = True
        try:
            for seconds in FIRST_WISH, LAST_WISH:
                self.process.send_signal(signal.SIGINT)
                deadline = time.monotonic() + seconds
                with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                    self.show(deadline)
                    self.process.wait(max(0, deadline - time.monotonic()))
                    return
        finally:
            if self.process.poll() is None:
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


def _last_round(folder):
    rounds = [int(name.split("-")[1]) for name in os.listdir(folder) if name.startswith("round-")]
    return os.path.join(folder, f"round-{max(rounds)}") if rounds else folder


def _failure(folder, job, code):
    errors = []
    for name in os.listdir(folder):
        if name.startswith("error-") and name[6:].isdigit():
            with open(os.path.join(folder, name), "rb") as file:
                errors.append(pickle.load(file))
    if not errors:
        return RunError(f"the job has failed with exit code {code}", code, job.last_lines())
    first = min(errors, key=lambda each: each["when"])
    text = f"rank {first['rank']}:\n{first['text']}"
    try:
        error = pickle.loads(first["error"])
        error.__cause__ = RemoteTraceback(text)
        return error
    except Exception:  # of a class that only the rank knows
        return RunError(f"the function has failed on {text}", code, "")


def _value(folder, job):
    try:
        with open(os.path.join(folder, "value"), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        raise RunError("rank 0 has ended without a value", 0, job.last_lines()) from None


# Who says one of these may mean several hosts.
PLACES = ("--nnodes", "--engine", "--hosts", "-H", "--hostfile", "--rdzv", "--node", "--master", "--config",
          "--backend")
PLACING = ("NNODES", "ENGINE", "HOSTS", "HOSTFILE", "RDZV_ENDPOINT", "MASTER_ADDR", "NODE_RANK", "CONFIG")
STEPS = ("SLURM_STEP_ID", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")


def _is_of_this_host(options, environment):
    if options[:2] == ["--engine", "local"]:
        options = options[2:]
    return not any(word.startswith(PLACES) for word in options) and not any(
        environment.get(name) for name in [*STEPS, *(f"{of}_{name}" for of in ("DTRAIN", "PET") for name in PLACING)])


def options_of(nproc, nnodes, engine, flags):
    if isinstance(flags, (str, bytes)):
        raise TypeError("flags is a text, and must be a list of texts")
    options = [] if engine is None else ["--engine", str(engine)]
    options += [] if nnodes in (None, 1) else ["--nnodes", str(nnodes)]
    options += [] if nproc is None else ["--nproc", str(nproc)]
    return options + [str(flag) for flag in flags]


def _script(target, python, variables):
    path = os.fsdecode(target)
    if not path:
        raise ValueError("the script's name is empty")
    path = "./" + path if path.startswith("-") else path
    if not variables:
        return [path]
    return ["--no-python", "env", *variables, *([python, "-u"] if path.endswith(".py") else []), path]


def launch(target, args, kwargs, options, environment=None, words=(), variables=()):
    """words: the last ones of the ranks' command line. variables: NAME=VALUE, for ranks whatever their node says."""
    environment = dict(os.environ if environment is None else environment)
    python = environment.get("PYTHON_EXEC") or sys.executable
    environment["PYTHON_EXEC"] = python
    command = [find_dtrain(), "run", *options]
    if not callable(target):
        if kwargs:
            raise TypeError("a script has arguments and no keywords: " + ", ".join(kwargs))
        job = _Job([*command, *_script(target, python, variables), *map(str, args), *words], environment)
        code = job.run()
        if code:
            raise RunError(f"{os.fsdecode(target)} has failed with exit code {code}", code, job.last_lines())
        return job.said.decode(errors="replace")
    if _is_of_this_host(options, environment):
        folder = tempfile.mkdtemp(prefix="dtrain-run-")
    else:  # of which other hosts know nothing
        folder = tempfile.mkdtemp(prefix=".dtrain-run-", dir=os.getcwd())
    with removed(folder):
        shutil.copy(HERE / "_call.py", folder)
        with open(os.path.join(folder, "call"), "wb") as file:
            file.write(pickle.dumps([os.path.abspath(path) for path in sys.path]))
            file.write(pickled((target, args, kwargs)))
        program = ["--no-python", "env", *variables, python, "-u", os.path.join(folder, "_call.py"), folder]
        job = _Job([*command, *program, *words], environment)
        code = job.run()
        if code:
            raise _failure(_last_round(folder), job, code)
        return _value(_last_round(folder), job)


def run(target, /, *args, nproc=None, nnodes=None, engine=None, flags=(), **kwargs):
    """Run `target` as a job: a function, as target(*args, **kwargs) on each rank, or a script's path with arguments.

    Returns the function's value on rank 0, or what the script has written to its standard output, with the ranks before
    the lines as `dtrain run` shows them (the last 64 MiB). Both streams are shown as they come, also in a notebook.

    nproc, nnodes, engine: as --nproc, --nnodes and --engine of `dtrain run`; flags: more of its flags, e.g.
    ["--max-restarts", "3"]. With several nodes the working folder must be there on all of them.

    Raises the Exception of the rank that failed first in the last round; its cause is the traceback there. RunError,
    with the exit code: a script has failed, or a rank has ended without an exception. An interrupt (Ctrl-C, a
    notebook's stop) ends all ranks within 2 s. They also end when this process does.
    """
    return launch(target, args, kwargs, options_of(nproc, nnodes, engine, flags))
