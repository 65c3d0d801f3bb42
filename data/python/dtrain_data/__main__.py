"""python -m dtrain_data KIND SCRIPT INPUT OUTPUT [ARGUMENT...]: a worker of `dtrain predict` (KIND predict) and of the
processors python (KIND process), dask, modin and ray (hosted.py).

SCRIPT has a function of this name, which is called once for each row group of INPUT with a pyarrow.Table. It returns a
pyarrow.Table or RecordBatch, a DataFrame of pandas, or a dict of columns (arrays of numpy, tensors, lists): predict() a
row for each row of the table, process() as many as it likes. The results are files of the folder OUTPUT; see parts.py
and docs/predict.md."""
import contextlib
import hashlib
import os
import runpy
import signal
import sys
import time
import traceback

try:
    import pyarrow
except ImportError as missing:
    sys.exit(f"dtrain: {sys.executable}: {missing}; pip install pyarrow")

from . import hosted, stores  # noqa: E402
from .parts import MOST_TRIES, Parts, Refused  # noqa: E402

# The names of the functions, and whether there is a row of the result for each row of the input.
ROW_FOR_ROW = {"predict": True, "process": False}


def say(text):
    print(f"dtrain: {text}", file=sys.stderr, flush=True)


def as_column(values):
    """Tensors of torch as well, without an import of torch."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def as_table(result, part, kind):
    if isinstance(result, pyarrow.RecordBatch):
        result = pyarrow.Table.from_batches([result])
    elif isinstance(result, dict):
        result = pyarrow.table({name: as_column(values) for name, values in result.items()})
    elif hasattr(result, "iloc"):
        result = pyarrow.Table.from_pandas(result, preserve_index=False)
    if not isinstance(result, pyarrow.Table):
        raise Refused(f"{part}: {kind}() returned a {type(result).__name__}; return a pyarrow.Table, a DataFrame or a "
                      "dict of columns")
    if ROW_FOR_ROW[kind] and result.num_rows != part.rows:
        raise Refused(f"{part}: {kind}() returned {result.num_rows} rows for {part.rows}; return one for each")
    return result


def told_by(script, error):
    """Its traceback, from the script's first line on."""
    while error.__traceback__ and error.__traceback__.tb_frame.f_code.co_filename != script:
        error.__traceback__ = error.__traceback__.tb_next
    return "".join(traceback.format_exception(error)).rstrip()


def loaded(kind, script, arguments):
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        function = runpy.run_path(script).get(kind)
    except (SyntaxError, ImportError) as error:  # it fails again after each restart
        raise Refused(f"{script} cannot be loaded:\n{told_by(script, error)}") from None
    if not callable(function):
        raise Refused(f"{script} has no function {kind}(table)")
    return function


def place_among_workers(parts):
    """Where this worker begins: far from the others, which saves locks that are taken."""
    rank, size = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    return rank * len(parts) // size


def work(parts, kind, function):
    """Returns how many parts and rows this process has done."""
    left = parts.left()
    begin = place_among_workers(left)
    done = rows = 0
    for part in left[begin:] + left[:begin]:
        with parts.claimed(part) as mine:
            if not mine:
                continue
            with parts.one_try(part):
                try:
                    result = function(part.read())
                except Exception:
                    say(f"{kind}() failed on {part}")
                    raise
                parts.commit(part, as_table(result, part, kind))
        done += 1
        rows += part.rows
    return done, rows


def refuse_what_fails(parts):
    left = parts.left()
    failed = [part for part in left if parts.has_failed(part)]
    if failed and len(failed) == len(left):
        for part in failed:
            say(f"{part} has ended {MOST_TRIES} workers")
        raise Refused(f"{len(failed)} of {len(parts.parts)} row groups have no result; the others have theirs in "
                      f"{parts.folder}. Starting again tries these again; with another script or input, choose another "
                      "folder")
    if len(parts.left()) < len(left):  # others have gone on meanwhile
        refuse_what_fails(parts)


def main(kind, script, source, folder, *arguments):
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if stores.is_uri(folder):
        raise Refused(f"{folder}: results are written into a folder of the file system")
    if kind in hosted.RESULTS:
        return hosted.work(kind, lambda: loaded("process", script, arguments), source, folder)
    parts = Parts(kind, source, folder, script, list(arguments))
    before = parts.left()
    if parts.done_before:
        if before:
            raise Refused(f"{folder}: {parts.result(before[0])} is gone since the job was done; remove the folder")
        parts.finish()  # who was killed while it did so has left files
        return say(f"all {len(parts.parts)} row groups have their results in {folder} already")
    try:
        done, rows = work(parts, kind, loaded(kind, script, arguments)) if before else (0, 0)
        refuse_what_fails(parts)
        say(f"{done} of {len(parts.parts)} row groups, {rows} rows, in {time.monotonic() - begun:.1f} s")
        if not parts.left():
            parts.finish()
    except FileNotFoundError:
        if not os.path.exists(os.path.join(folder, "_SUCCESS")):  # another process has found the work done
            raise
    return None


def refusal_file(folder):
    """There once a worker of this job has said what the user must do: starting again does not help."""
    job = hashlib.sha256(os.environ.get("TORCHELASTIC_RUN_ID", "").encode()).hexdigest()[:16]
    return os.path.join(folder, ".dtrain", f"refused-{job}")


if __name__ == "__main__":
    words = sys.argv[1:]
    try:
        if len(words) < 4 or words[0] not in (*ROW_FOR_ROW, *hosted.RESULTS):
            raise Refused("usage: python -m dtrain_data predict|process|dask|modin|ray SCRIPT INPUT OUTPUT "
                          "[ARGUMENT...]")
        if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0 and os.path.exists(refusal_file(words[3])):
            sys.exit(1)
        main(*words)
    except Refused as refused:
        say(str(refused))
        if len(words) > 3:
            with contextlib.suppress(OSError), open(refusal_file(words[3]), "w"):
                pass
        sys.exit(1)
    except OSError as error:
        traceback.print_exc()
        sys.exit(f"dtrain: {error}")
