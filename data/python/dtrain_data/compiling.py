"""Compile sources that a package brings, once for all programs of the user.

The result is kept in $TORCH_EXTENSIONS_DIR/dtrain, or in $XDG_CACHE_HOME/dtrain, or in ~/.cache/dtrain. Programs that
need it at the same time, as the ranks of a job do, wait for the first of them. Without torch and pyarrow.
"""
import concurrent.futures
import fcntl
import hashlib
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time

LIMIT = 1800  # seconds, for one compilation and for all of another process
COMPILE = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-pthread",
           "-DFMT_HEADER_ONLY", "-Wno-subobject-linkage"]
LINK = "-Wl,--gc-sections,-z,relro,-z,now"
_starting = threading.Lock()  # held while a compiler is started, never by the main thread


def say(text):
    print(f"dtrain: {text}", file=sys.stderr, flush=True)


def digest(sources, *more):
    """Of the files of this folder, and of these texts."""
    found = hashlib.sha256("\0".join(more).encode())
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def cache():
    chosen = os.environ.get("TORCH_EXTENSIONS_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = pathlib.Path(chosen) if chosen else pathlib.Path.home() / ".cache"
    return folder / "dtrain"


def compiler(what):
    wanted = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if not shutil.which(wanted[0]):
        named = "which CXX names" if os.environ.get("CXX") else f"which compiles {what} when it is first used"
        raise ImportError(f"dtrain: there is no {wanted[0]} here, {named}. Install one (Debian and Ubuntu: apt-get "
                          "install g++; Fedora and RHEL: dnf install gcc-c++), or set CXX")
    return wanted


def start_no_more(seconds):
    """From a signal's handler: from now on no compiler is started, and none is being started."""
    return _starting.acquire(timeout=seconds)


def _run(command, what):
    with _starting:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
    with process:
        try:
            said, errors = process.communicate(timeout=LIMIT)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise ImportError(f"dtrain: {what} did not compile. This is the command and what it printed:\n"
                          f"{shlex.join(command)}\n{said}{errors}")


def run(*commands, what):
    """All of them, side by side."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            list(pool.map(lambda words: _run(words, what), commands))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def objects(units, folder, command, what):
    """Files in `folder`. A unit is compiled as one source: most of the time goes into headers."""
    commands, made = [], []
    for number, unit in enumerate(units):
        source, compiled = folder / f"{number}.cc", folder / f"{number}.o"
        source.write_text("".join(f'#include "{name}"\n' for name in unit["sources"]))
        commands.append([*command, *unit["flags"], "-c", str(source), "-o", str(compiled)])
        made.append(str(compiled))
    run(*commands, what=what)
    return made


def _locked(path, what):
    """The open file `path`, locked: a process that ends in any way unlocks it."""
    lock, until = open(path, "w"), time.monotonic() + LIMIT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > until:
                lock.close()
                raise ImportError(f"dtrain: another process has held {path} for {LIMIT} s. It compiles {what}, or "
                                  "hangs: end it and try again") from None
            time.sleep(0.1)  # tidy: allow sleep, because flock has no deadline


def built(folder, name, what, fits, compile_into, check=lambda: None):
    """The file `name` of `folder`, which is in the cache. compile_into(scratch) makes it where that has not been done,
    after check(); `what` and what it `fits` are for messages. Raises ImportError."""
    made = folder / name
    if made.exists():
        return made
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock", what):
            if made.exists():  # by the process that had the lock
                return made
            compiler(what)
            check()
            say(f"compiling {what} for {fits}, once: this takes a minute or two")
            started = time.monotonic()
            scratch = folder / f"scratch-{socket.gethostname()}"
            shutil.rmtree(scratch, ignore_errors=True)  # a killed process may have left it
            try:
                scratch.mkdir()
                compile_into(scratch)
                os.replace(scratch / name, made)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            say(f"compiled in {time.monotonic() - started:.0f} s, kept in {folder}")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImportError(f"dtrain: {what} cannot be compiled: {error}. TORCH_EXTENSIONS_DIR names another folder for "
                          "it") from error
    return made
