"""How far the training is, told to the launcher: what dtrain/progress.h offers to C++."""
import json
import math
import os
import threading
import time

EVERY_SECONDS = 0.5
_LOCK = threading.Lock()
_next = 0.0


def _number(value):
    """Of a number, a tensor or an array of one element. JSON has no NaN and no infinity. What is none of these is told
    as a text: it is no reason for training to stop."""
    try:
        value = value.item() if hasattr(value, "item") else value
    except Exception:
        return type(value).__name__
    if value is None or isinstance(value, (bool, int, str)):
        return value
    try:
        value = float(value)
    except Exception:
        return str(value)
    return value if math.isfinite(value) else None


def _is_last(step, steps):
    try:
        return steps is not None and bool(step >= steps)
    except Exception:
        return False


def report_progress(step, steps=None, *, seconds_left=None, **metrics):
    """Tell the launcher that `step` steps are done, of `steps` in all, with the metrics of this moment. Rank 0's
    progress is the job's: other ranks may call, to no effect. Writes a small file (DTRAIN_PROGRESS_FILE) at most twice
    a second, and always at the last step. Where nobody reads it, nothing is written, and tensors are not waited for."""
    global _next
    path = os.environ.get("DTRAIN_PROGRESS_FILE")
    if not path:
        return
    with _LOCK:
        now = time.monotonic()
        if now < _next and not _is_last(step, steps):
            return
        _next = now + EVERY_SECONDS
        told = {"step": _number(step), "steps": _number(steps), "seconds_left": _number(seconds_left)}
        told = {name: value for name, value in told.items() if value is not None}
        told["metrics"] = {name: _number(value) for name, value in metrics.items()}
        text = json.dumps(told) + "\n"
        try:
            # In place: a second file that takes its place would be left behind by a process that is killed meanwhile.
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.write(file, text.encode())
        except OSError:
            pass
        finally:
            os.close(file)
