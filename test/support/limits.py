"""Limits of memory for programs that tests and benchmarks start."""
import contextlib
import os
import pathlib
import resource
import signal
import time

CGROUPS = pathlib.Path("/sys/fs/cgroup")


def own_group(controller):
    """The path of this process's cgroup in that hierarchy."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == controller:
            return path.lstrip("/")
    return None


def make_group(limit, number=0):
    """A new memory cgroup with this limit, beside or in the own one; None: this machine does not let us. The name ends
    with that number."""
    name = f"dtrain-limit-{os.getpid()}-{number}"
    if (CGROUPS / "memory").is_dir():
        places, values = [CGROUPS / "memory"], {"memory.limit_in_bytes": limit}
    else:
        places, values = [CGROUPS, CGROUPS / (own_group("") or "")], {"memory.max": limit, "memory.swap.max": 0}
    for place in places:
        group = place / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for file, value in values.items():
                (group / file).write_text(str(value))
            with_swap = group / "memory.memsw.limit_in_bytes"
            if with_swap.exists():
                with_swap.write_text(str(limit))
            return group
        except OSError:
            group.rmdir()
    return None


def peak_of(group):
    """The most bytes that a group had."""
    file = group / "memory.max_usage_in_bytes"
    return int((file if file.exists() else group / "memory.peak").read_text())


def ended_of(group):
    """How many processes of a group the kernel ended for want of memory."""
    file = group / "memory.oom_control"
    lines = (file if file.exists() else group / "memory.events").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def enter(group):
    (group / "cgroup.procs").write_text(str(os.getpid()))


def remove(group):
    """Ends what is left in it. Processes leave a cgroup some time after they are reaped, and there is no event."""
    for _ in range(1500):
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            return group.rmdir()
        except OSError:
            # tidy: allow sleep, because nothing tells when the last process has left
            time.sleep(0.02)
    raise TimeoutError(f"{group} is not empty")


@contextlib.contextmanager
def group_of(limit, number=0):
    """A group, or None, which ends with the block."""
    group = make_group(limit, number)
    try:
        yield group
    finally:
        if group is not None:
            remove(group)


@contextlib.contextmanager
def limited(limit):
    """Yields what a child does before it execs, and the limit in words."""
    with group_of(limit) as group:
        if group is None:
            yield lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)), "of data (RLIMIT_DATA)"
        else:
            yield lambda: enter(group), "of a memory cgroup"
