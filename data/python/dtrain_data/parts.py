"""A data set's parts, each worked on by one process and written once, whatever dies.

A part is a row group of the input. Its result is one file of the output folder, whose name gives its place:

    part-00000.parquet ...   the results, in the order of the input
    _SUCCESS                 all are there
    .dtrain/plan.json        of what the results are: the first process writes it, and all compare it with theirs
    .dtrain/schema           of the first result; all have the same
    .dtrain/00000.lock       whoever works on a part holds flock() on it, which the kernel gives back when he dies
    .dtrain/00000.tries      a line for each time that somebody began and did not end, with the job's id
    .dtrain/00000.*.tmp      a result that is being written

A result becomes visible whole, by link(), which fails if the name is there: so there is one result of a part, even on a
file system that does not keep locks between its hosts.
"""
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import secrets
import shutil

import pyarrow
import pyarrow.parquet as parquet

from . import stores

MOST_TRIES = 3  # of a part in one job
GROUP_ROWS = 1 << 17  # of a result: who reads it may have to take a row group at once


class Refused(Exception):
    """The user must do something, and the text says what."""


def input_files(source, output):
    """The Parquet files of a file, a folder or a pattern, here or in an object store, in the order of their paths; none
    that lies in `output`. With @LIST those of a file that has a path in each line, in that order."""
    if stores.is_uri(source):
        return files_of_store(source)
    if os.path.isfile(source):
        return [source]
    if source.startswith("@"):
        with open(source[1:], encoding="utf-8", errors="surrogateescape") as listed:
            return listed.read().splitlines()
    if os.path.isdir(source):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names
                 if name.endswith(".parquet") and not hidden(os.path.relpath(os.path.join(folder, name), source))]
    else:
        found = [name for name in glob.glob(source) if os.path.isfile(name) and not hidden(os.path.basename(name))]
        if not found:
            return [source]  # which is not there: whoever opens it says so
    inside = os.path.join(os.path.abspath(output), "")
    found = [name for name in found if not os.path.abspath(name).startswith(inside)]
    if not found:
        raise Refused(f"{source}: no file in this folder ends with .parquet")
    return sorted(found)


def files_of_store(source):
    try:
        with stores.told_of(source):
            found = stores.parquet_files(source)
    except (OSError, ValueError) as error:
        raise Refused(f"{source}: {error}") from None
    if not found:
        raise Refused(f"{source}: there is no such object, and no folder with objects that end with .parquet")
    return found


def setting(name):
    """A variable of dtrain's, in JSON."""
    text = os.environ.get(name, "")
    return json.loads(text) if text else None


def hidden(path):
    return any(part[0] in "._" for part in path.split(os.sep))


def described(source, output):
    """What the plan says of the input, but for the row groups, which are not read if there is a plan already."""
    files = []
    for path in input_files(source, output):
        try:
            if stores.is_uri(path):
                with stores.told_of(path):
                    size, changed = stores.facts_of(path)
            else:
                facts = os.stat(path)
                path, size, changed = os.path.abspath(path), facts.st_size, facts.st_mtime_ns
        except OSError as error:
            raise Refused(f"{path}: {error.strerror or error}") from None
        files.append({"path": path, "bytes": size, "mtime_ns": changed})
    return files


def opened(path):
    if not stores.is_uri(path):
        return parquet.ParquetFile(path)
    files, key = stores.found_in(path)
    return parquet.ParquetFile(files.open_input_file(key))


def with_row_groups(files):
    whole = []
    for file in files:
        try:
            with stores.told_of(file["path"]), opened(file["path"]) as whole_file:
                groups = whole_file.metadata
                rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        except (OSError, pyarrow.ArrowException) as error:
            raise Refused(f"{file['path']}: cannot be read as Parquet: {error}") from None
        whole.append({**file, "row_groups": rows})
    return whole


def draft_name():
    """Of a file that nobody else writes, whatever hosts and containers there are."""
    return f"{secrets.token_hex(8)}.tmp"


def sync(file):
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def new_file(path, draft, mode=0o666):
    """A file that gets this name, whole and on the disk, at the end of the block, if there is none by then."""
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            sync(file)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def link_once(work, path, content, mode=0o666):
    """Make the file with this content, if there is none, by way of the folder `work`. Returns what is in it then."""
    with new_file(path, os.path.join(work, f"{os.path.basename(path)}.{draft_name()}"), mode) as file:
        file.write(content)
    with open(path, "rb") as file:
        return file.read()


def sync_folder(path):
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def digest_of(script):
    try:
        with open(script, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise Refused(f"{script}: {error.strerror}; name a Python file") from None


class Part:
    def __init__(self, number, file, group, first, rows):
        self.number = number
        self.file = file
        self.group = group
        self.first = first  # of its rows, in the file
        self.rows = rows

    def __str__(self):
        return f"row group {self.group} of {self.file} (rows {self.first} to {self.first + self.rows - 1})"

    def read(self):
        with stores.told_of(self.file), opened(self.file) as file:
            return file.read_row_group(self.group)


class Parts:
    """The parts of `source` whose results `folder` gets. `kind`: the function's name."""

    def __init__(self, kind, source, folder, script, arguments):
        self.folder = folder
        self.work = os.path.join(folder, ".dtrain")
        # A worker that is started alone is a job of its own each time.
        self.job = (os.environ.get("TORCHELASTIC_RUN_ID") or f"alone-{secrets.token_hex(8)}").encode()
        self.done_before = os.path.exists(os.path.join(folder, "_SUCCESS"))
        try:
            os.makedirs(self.work if not self.done_before else folder, exist_ok=True)
        except OSError as error:
            raise Refused(f"{folder}: {error.strerror}; name a folder that you may write") from None
        self.parts = self._numbered(self._plan(kind, source, script, arguments))
        self.digits = max(5, len(str(len(self.parts))))  # the names' order is that of the parts

    def _plan(self, kind, source, script, arguments):
        files = described(source, self.folder)
        mine = {"format": 1, "kind": kind, "script": digest_of(script), "arguments": arguments, "files": files}
        name = os.path.join(self.folder, "_SUCCESS") if self.done_before else os.path.join(self.work, "plan.json")
        try:
            with open(name, "rb") as file:
                text = file.read()
        except FileNotFoundError:
            if os.path.exists(os.path.join(self.folder, "_SUCCESS")):  # since we have looked
                self.done_before = True
                return self._plan(kind, source, script, arguments)
            self._refuse_foreign_results()
            text = self.write_once(name, (json.dumps({**mine, "files": with_row_groups(files)}) + "\n").encode())
        try:
            plan = json.loads(text)
            files = [{key: file[key] for key in ("path", "bytes", "mtime_ns")} for file in plan["files"]]
            theirs = {**plan, "files": files}
            what = next((key for key, value in mine.items() if theirs[key] != value), None)
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{name} is not what dtrain writes; choose another folder") from None
        if what:
            words = {"format": "was written by another version of dtrain", "kind": f"is not of {kind}()",
                     "script": f"was made with another {script}", "arguments": "was made with other arguments",
                     "files": "was made of other input files"}[what]
            raise Refused(f"{self.folder}: what is there {words}; choose another folder, or remove this one")
        return plan["files"]

    def write_once(self, path, content):
        return link_once(self.work, path, content)

    def _refuse_foreign_results(self):
        found = sorted(name for name in os.listdir(self.folder) if name != ".dtrain")
        # Another process may have made the plan since we have looked, and results too.
        if found and not os.path.exists(os.path.join(self.work, "plan.json")):
            raise Refused(f"{self.folder}: has other files than results ({found[0]}); choose another folder")

    @staticmethod
    def _numbered(files):
        parts = []
        for file in files:
            first = 0
            for group, rows in enumerate(file["row_groups"]):
                if rows > 0:
                    parts.append(Part(len(parts), file["path"], group, first, rows))
                first += rows
        return parts

    def result(self, part):
        return os.path.join(self.folder, f"part-{part.number:0{self.digits}d}.parquet")

    def beside(self, part, ending):
        return os.path.join(self.work, f"{part.number:05d}.{ending}")

    def tries(self, part):
        with contextlib.suppress(FileNotFoundError), open(self.beside(part, "tries"), "rb") as file:
            return file.read().splitlines().count(self.job)
        return 0

    def left(self):
        """The parts without a result."""
        there = set(os.listdir(self.folder))
        return [part for part in self.parts if os.path.basename(self.result(part)) not in there]

    @contextlib.contextmanager
    def locked(self, part, how=fcntl.LOCK_EX):
        """Whether the part is locked by this process until the end of the block."""
        lock = os.open(self.beside(part, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(lock, how | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                held = False
            yield held
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def claimed(self, part):
        """Whether the part is this process's, until the end of the block."""
        with self.locked(part) as held:
            yield held and not os.path.exists(self.result(part)) and self.tries(part) < MOST_TRIES

    def has_failed(self, part):
        """Nobody works on it, and nobody will: it has had all its tries."""
        if not self._is_without(part):
            return False
        # Who only looks keeps nobody else from looking. Who is at the last try has the lock.
        with self.locked(part, fcntl.LOCK_SH) as held:
            return held and self._is_without(part)

    def _is_without(self, part):
        return not os.path.exists(self.result(part)) and self.tries(part) >= MOST_TRIES

    @contextlib.contextmanager
    def one_try(self, part):
        """Who dies in this block has tried in vain, and so has who leaves it by an exception of the user's."""
        with open(self.beside(part, "tries"), "ab", buffering=0) as file:
            begun = file.tell()
            file.write(self.job + b"\n")
            try:
                yield
                blamed = False
            except (SystemExit, KeyboardInterrupt):  # asked to end: not the part's fault
                blamed = False
                raise
            except BaseException:
                blamed = True
                raise
            finally:
                if not blamed:
                    file.truncate(begun)

    def commit(self, part, table):
        """The result is there, whole and on the disk, when this returns."""
        mine = table.schema.remove_metadata()
        file = os.path.join(self.work, "schema")
        first = self.write_once(file, mine.serialize().to_pybytes())
        try:
            schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(first))
        except (pyarrow.ArrowException, EOFError, OSError) as error:
            raise Refused(f"{file} is damaged; remove {self.folder}, and start again ({error})") from None
        if not schema.equals(mine):
            raise Refused(f"{part}: its result has other columns than the results before it: {one_line(mine)}, not "
                          f"{one_line(schema)}")
        with new_file(self.result(part), self.beside(part, draft_name())) as file:
            parquet.write_table(table, file, row_group_size=GROUP_ROWS)
        sync_folder(self.folder)

    def finish(self):
        """All results are there: say so, and take away what only the work needed."""
        with contextlib.suppress(FileNotFoundError):  # another process is faster
            with open(os.path.join(self.work, "plan.json"), "rb") as file:
                plan = file.read()
            self.write_once(os.path.join(self.folder, "_SUCCESS"), plan)
            sync_folder(self.folder)
        shutil.rmtree(self.work, ignore_errors=True)


def one_line(schema):
    return ", ".join(f"{field.name} {field.type}" for field in schema)
