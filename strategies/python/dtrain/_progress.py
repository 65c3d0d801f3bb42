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
    """Of a number, a tensor or an array of one element. JSON has no NaN and no infinity."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        if now < _next and (steps is None or step < steps):
            return
        _next = now + EVERY_SECONDS
        told = {"step": int(step), "steps": None if steps is None else int(steps), "seconds_left": seconds_left}
        told = {name: value for name, value in told.items() if value is not None}
        told["metrics"] = {name: _number(value) for name, value in metrics.items()}
        try:
            # In place: a second file that takes its place would be left behind by a process that is killed meanwhile.
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.write(file, (json.dumps(told) + "\n").encode())
        except OSError:
            pass
        finally:
            os.close(file)
