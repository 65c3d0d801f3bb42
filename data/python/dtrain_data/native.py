"""dtrain-data and libdtrain_data.so for the pyarrow of this Python, which has Arrow's headers and libraries.

A package from pip has their sources: what is needed is compiled when it is first used, and kept for all later programs
of the user. `dtrain-data` on the PATH is main() here, which becomes the program. Without torch.
"""
import importlib.util
import json
import os
import pathlib
import re
import signal
import sys
import time

from . import compiling

OLDEST = 24  # of pyarrow: cmake/FindArrowWheel.cmake
SOURCES = pathlib.Path(__file__).parent / "_sources"
PROGRAM, LIBRARY = "dtrain-data", "libdtrain_data.so"
LIBRARIES = {PROGRAM: ["parquet", "arrow", "arrow_compute"], LIBRARY: ["parquet", "arrow"]}
STORES = "arrow_s3"  # S3, which older wheels have in libarrow
# The library's functions for C alone are visible.
VISIBLE = "{ global: dtrain_*; local: *; };\n"
# SHA-256 is OpenSSL's, whose headers few machines have: _sources/include/openssl declares what is used of them.
OPENSSL = ["libcrypto.so.3", "libcrypto.so.1.1"]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
PATIENCE = 5  # seconds, for a process that is to be stopped
NOT_FOUND = 127  # as for a program that is not there


def _arrow(what):
    """The folder of pyarrow, and its version."""
    found = importlib.util.find_spec("pyarrow")
    install = f"{sys.executable} -m pip install 'pyarrow>={OLDEST}'"
    if not found:
        raise ImportError(f"dtrain: {what} needs Arrow, which pyarrow brings, and {sys.executable} has none: {install}")
    folder = pathlib.Path(found.submodule_search_locations[0])
    header = folder / "include/arrow/util/config.h"
    if not header.exists():
        raise ImportError(f"dtrain: {what} is compiled with Arrow's headers, and the pyarrow in {folder} has none: "
                          f"take the one of PyPI, {install}")
    version = re.search(r'#define ARROW_VERSION_STRING "([\d.]+)', header.read_text())[1]
    if int(version.partition(".")[0]) < OLDEST:
        raise ImportError(f"dtrain: {what} needs pyarrow {OLDEST} or newer, and this is {version}: {install}")
    return folder, version


def _linked(name, folder):
    """What the linker is told of Arrow's libraries, whose names end in a number."""
    words = [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    for library in [*LIBRARIES[name], STORES]:
        files = [path.name for path in folder.glob(f"lib{library}.so.*") if re.fullmatch(r".*\.so\.\d+", path.name)]
        if library == STORES and not files:
            continue
        if len(files) != 1:
            raise ImportError(f"dtrain: {name}: there are {len(files)} files lib{library}.so.NUMBER in {folder}; "
                              "install pyarrow again")
        words.append(f"-l:{files[0]}")
    return words


def _compile(sources, folder, name, arrow):
    compiler = compiling.compiler(name)
    flags = [*compiling.COMPILE, f"-I{sources}"]
    for system in (sources / "data/include", sources / "strategies/include", sources / "include", arrow / "include"):
        flags += ["-isystem", str(system)]
    units = json.loads((sources / "units.json").read_text())[name]
    objects = compiling.objects(units, folder, [*compiler, *flags], name)
    link = [*compiler, "-pthread", "-o", str(folder / name), *objects, *_linked(name, arrow), compiling.LINK]
    if name == LIBRARY:
        (folder / "visible").write_text(VISIBLE)
        compiling.run([*link, "-shared", f"-Wl,--version-script={folder / 'visible'}"], what=name)
        return
    for number, crypto in enumerate(OPENSSL):
        try:
            return compiling.run([*link, f"-l:{crypto}"], what=name)
        except ImportError:
            if number + 1 == len(OPENSSL):
                raise


def built(name, sources=SOURCES):
    """The file of `name`, PROGRAM or LIBRARY. Raises ImportError, which says what to do."""
    if not sources.exists():
        raise ImportError(f"dtrain: {name} is not in this package. Build dtrain where pip has installed pyarrow "
                          "(docs/training/loader.md)")
    arrow, version = _arrow(name)
    folder = compiling.cache() / f"data-pyarrow{version}-{compiling.digest(sources, str(arrow))}"
    return compiling.built(folder, name, name, f"pyarrow {version}",
                           lambda scratch: _compile(sources, scratch, name, arrow))


def _text(path):
    """Empty: the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _descendants(pid):
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    children = {int(child) for thread in threads
                for child in _text(pathlib.Path(f"/proc/{pid}/task/{thread}/children")).split()}
    return children.union(*map(_descendants, children))


def _runs(pid):
    """Whether it can start another. One that waits for its vfork() to end is in D."""
    state = _text(pathlib.Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1]
    return bool(state) and state[0] not in "DTtZX"


def _send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def _stop_descendants(patience):
    """All of them. One that is being stopped may still start another."""
    stopped, until = set(), time.monotonic() + patience
    while found := _descendants(os.getpid()) - stopped:
        _send(found, signal.SIGSTOP)
        stopped |= found
        while any(map(_runs, stopped)) and time.monotonic() < until:
            time.sleep(0.001)  # tidy: allow sleep, because who stops sends no event that a handler could wait for
    return stopped


def _end(number, _):
    """By a signal, with what compiles: nobody else would end that."""
    for other in SIGNALS:
        signal.signal(other, lambda *_: None)  # what is being started would ignore what is ignored here
    try:
        compiling.start_no_more(PATIENCE)
        _send(_stop_descendants(PATIENCE), signal.SIGKILL)
    finally:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def main():
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        program = built(PROGRAM)
        for number in signal.SIGPIPE, signal.SIGXFSZ:  # which Python ignores, and whoever it becomes would too
            signal.signal(number, signal.SIG_DFL)
        os.execv(program, [PROGRAM, *sys.argv[1:]])
    except (ImportError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_FOUND)
