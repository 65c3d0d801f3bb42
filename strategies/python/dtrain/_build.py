"""Compile the extension for this Python and this torch, once for all programs of the user.

The result is kept in $TORCH_EXTENSIONS_DIR/dtrain, or in $XDG_CACHE_HOME/dtrain, or in ~/.cache/dtrain. Programs that
need it at the same time, as the ranks of a job do, wait for the first of them.
"""
import concurrent.futures
import fcntl
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import time

import torch

LIMIT = 1800  # seconds, for one compilation and for all of another process
# Some classes in torch's headers change their layout with these: cmake/FindLibTorch.cmake has the same.
TORCH_DEFINITIONS = ["USE_DISTRIBUTED", "USE_C10D_GLOO", "USE_RPC", "USE_TENSORPIPE", "_GLIBCXX_USE_CXX11_ABI=1"]
COMPILE = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-pthread",
           "-DFMT_HEADER_ONLY", "-Wno-subobject-linkage"]
# Only the module's entry is visible: what else it contains must not be taken for another library's.
VISIBLE = "{ global: PyInit__C; local: *; };\n"


def _say(text):
    print(f"dtrain: {text}", file=sys.stderr, flush=True)


def _torch_folder():
    return pathlib.Path(torch.__file__).parent


def _name(sources):
    """Of the folder: the extension fits one Python, one torch, one place of torch and these sources."""
    digest = hashlib.sha256(str(_torch_folder()).encode())
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes())
    return f"{sys.implementation.cache_tag}-torch{torch.__version__}-{digest.hexdigest()[:16]}"


def _cache():
    chosen = os.environ.get("TORCH_EXTENSIONS_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = pathlib.Path(chosen) if chosen else pathlib.Path.home() / ".cache"
    return folder / "dtrain"


def _compiler():
    wanted = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if not shutil.which(wanted[0]):
        named = "which CXX names" if os.environ.get("CXX") else "which compiles the backend when it is first used"
        raise ImportError(f"dtrain: there is no {wanted[0]} here, {named}. Install one (Debian and Ubuntu: apt-get "
                          "install g++; Fedora and RHEL: dnf install gcc-c++), or set CXX")
    python = sysconfig.get_path("include")
    if not pathlib.Path(python, "Python.h").exists():
        raise ImportError(f"dtrain: there is no {python}/Python.h, which the backend is compiled with when it is first "
                          "used. Install it (Debian and Ubuntu: apt-get install python3-dev; Fedora and RHEL: dnf "
                          "install python3-devel)")
    return wanted


def _run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise ImportError("dtrain: the backend did not compile. This is the command and what it printed:\n"
                          f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def _compile(sources, folder):
    """_C.so in `folder`. A unit of units.json is compiled as one source: most of the time goes into headers."""
    compiler, torch_folder = _compiler(), _torch_folder()
    include = torch_folder / "include"
    flags = COMPILE + [f"-D{name}" for name in TORCH_DEFINITIONS] + [f"-I{sources}"]
    torch_api = include / "torch/csrc/api/include"
    for system in (sources / "strategies/include", sources / "include", include, torch_api,
                   sysconfig.get_path("include")):
        flags += ["-isystem", str(system)]
    commands, objects = [], []
    for number, unit in enumerate(json.loads((sources / "units.json").read_text())):
        source, compiled = folder / f"{number}.cc", folder / f"{number}.o"
        source.write_text("".join(f'#include "{name}"\n' for name in unit["sources"]))
        commands.append([*compiler, *flags, *unit["flags"], "-c", str(source), "-o", str(compiled)])
        objects.append(str(compiled))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            list(pool.map(_run, commands))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    (folder / "visible").write_text(VISIBLE)
    libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    _run([*compiler, "-shared", "-pthread", "-o", str(folder / "_C.so"), *objects, *libraries,
          f"-Wl,--version-script={folder / 'visible'}", "-Wl,--gc-sections,-z,relro,-z,now"])


def _locked(path):
    """The open file `path`, locked: a process that ends in any way unlocks it."""
    lock, until = open(path, "w"), time.monotonic() + LIMIT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > until:
                lock.close()
                raise ImportError(f"dtrain: another process has held {path} for {LIMIT} s. It compiles the backend, or "
                                  "hangs: end it and try again") from None
            time.sleep(0.1)  # tidy: allow sleep, because flock has no deadline


def built(sources):
    """The extension's file. Compiles it where that has not been done. Raises ImportError."""
    folder = _cache() / _name(sources)
    extension = folder / "_C.so"
    if extension.exists():
        return extension
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if extension.exists():  # by the process that had the lock
                return extension
            _compiler()
            _say(f"compiling the backend for torch {torch.__version__}, once: this takes a minute or two")
            started = time.monotonic()
            scratch = folder / f"scratch-{socket.gethostname()}"
            shutil.rmtree(scratch, ignore_errors=True)  # a killed process may have left it
            try:
                scratch.mkdir()
                _compile(sources, scratch)
                os.replace(scratch / "_C.so", extension)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            _say(f"compiled in {time.monotonic() - started:.0f} s, kept in {folder}")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImportError(f"dtrain: the backend cannot be compiled: {error}. TORCH_EXTENSIONS_DIR names another "
                          "folder for it") from error
    return extension
