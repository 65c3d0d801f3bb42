"""One trial: a small job of two workers, one restart and a store, in which one system call fails. For syscalls_test.py
and soak_syscalls.py; fail_call.cc says how it is made to fail."""
import errno
import glob
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field

from support import DEADLINE, SLOW, TEST_BIN_DIR, Job

FAIL_CALL = os.path.join(TEST_BIN_DIR, "fail_call")

# What a call can say when memory, descriptors, processes or the disk run out, or a sandbox is in the way.
OUT_OF_FILES, OUT_OF_MEMORY = errno.EMFILE, errno.ENOMEM
ERRORS = {
    "accept4": (OUT_OF_FILES, errno.ECONNABORTED), "access": (errno.EACCES,), "bind": (errno.EADDRNOTAVAIL,),
    "clone": (errno.EAGAIN, OUT_OF_MEMORY), "clone3": (errno.EAGAIN, errno.ENOSYS),
    "close_range": (errno.ENOSYS,), "connect": (errno.EPERM, errno.EAGAIN), "dup2": (errno.EBUSY,),
    "dup3": (errno.EBUSY,), "epoll_create1": (OUT_OF_FILES, OUT_OF_MEMORY), "epoll_ctl": (OUT_OF_MEMORY, errno.ENOSPC),
    "epoll_pwait": (errno.EINVAL,), "epoll_wait": (errno.EINVAL,), "eventfd2": (OUT_OF_FILES,),
    "execve": (OUT_OF_MEMORY, errno.EACCES), "faccessat": (errno.EACCES,), "fchmod": (errno.EPERM,),
    "fcntl": (OUT_OF_FILES,), "fork": (errno.EAGAIN,), "fstat": (errno.EIO,), "ftruncate": (errno.EIO,),
    "getdents64": (errno.EIO,), "getrandom": (errno.ENOSYS,), "getsockname": (errno.ENOBUFS,),
    "getsockopt": (errno.EPERM,), "ioctl": (errno.EIO,), "kill": (errno.EPERM,), "listen": (errno.EADDRINUSE,),
    "lseek": (errno.EINVAL,), "memfd_create": (OUT_OF_FILES, errno.EPERM), "mkdir": (errno.ENOSPC, errno.EACCES),
    "mkdirat": (errno.ENOSPC, errno.EACCES), "mmap": (OUT_OF_MEMORY,), "mount": (errno.EPERM,),
    "mprotect": (OUT_OF_MEMORY,), "newfstatat": (errno.EIO,), "open": (OUT_OF_FILES,),
    "openat": (OUT_OF_FILES, errno.EACCES, errno.ENOSPC), "pidfd_open": (OUT_OF_FILES, errno.EPERM),
    "pidfd_send_signal": (errno.EPERM,), "pipe": (OUT_OF_FILES,), "pipe2": (OUT_OF_FILES,), "poll": (OUT_OF_MEMORY,),
    "ppoll": (OUT_OF_MEMORY,), "prctl": (errno.EPERM,), "prlimit64": (errno.EPERM,), "pwrite64": (errno.ENOSPC,),
    "read": (errno.EIO,), "readlink": (errno.EACCES,), "readlinkat": (errno.EACCES,), "readv": (errno.EIO,),
    "recvfrom": (OUT_OF_MEMORY,), "recvmsg": (OUT_OF_MEMORY,), "rename": (errno.ENOSPC,), "rmdir": (errno.EBUSY,),
    "sched_getaffinity": (errno.EPERM,), "sendmsg": (errno.ENOBUFS, errno.EPERM), "sendto": (errno.ENOBUFS,),
    "setpgid": (errno.EPERM,), "setsid": (errno.EPERM,), "setsockopt": (errno.ENOBUFS,), "shutdown": (errno.ENOTCONN,),
    "signalfd4": (OUT_OF_FILES, OUT_OF_MEMORY), "socket": (OUT_OF_FILES, errno.EPERM), "socketpair": (OUT_OF_FILES,),
    "statx": (errno.EIO,), "sysinfo": (errno.EPERM,), "timerfd_create": (OUT_OF_FILES,),
    "timerfd_settime": (errno.ECANCELED,), "uname": (errno.EPERM,), "unlink": (errno.EIO,), "unlinkat": (errno.EIO,),
    "unshare": (errno.EPERM,), "vfork": (errno.EAGAIN,), "write": (errno.ENOSPC, errno.EIO), "writev": (errno.ENOSPC,),
}

# Meets the other at a barrier of the store, fails in the first round, is done in the second.
WORKER = r"""
trap '' PIPE
exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT" || exit 99
printf '\x00\xce\xf7\x85\x3c' >&3
printf "\x12\x01\0\0\0\0\0\0\0b\\x02\0\0\0\0\0\0\0" >&3
[ "$(head -c1 <&3 | od -An -tx1)" = " 00" ] || exit 99
[ "$TORCHELASTIC_RESTART_COUNT$RANK" = 01 ] && exit 1
echo "done $RANK in $DTRAIN_ROUND"; echo "told $RANK" >&2
[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exec sleep 600  # tidy: allow sleep, because the other worker ends this one
"""
# Exit codes that docs/exit-codes.md has for what dtrain itself cannot do, and the worker's own without its store. A log
# folder that cannot be looked at is one that was typed wrongly, and 2.
CODES = {0, 1, 99, 125, 126, 127}
CPU_LIMIT = 3 * SLOW  # seconds; such a job takes 0.1
# The call is the one that takes something away: then it may stay.
REMOVING = {"rmdir", "unlink", "unlinkat"}
MOST_ALIKE = 60


@dataclass
class Report:
    calls: dict = field(default_factory=dict)  # (role, call): how often
    processes: list = field(default_factory=list)
    failed: object = None                      # the first argument of the call that failed
    code: object = None                        # None: not all had ended in time
    cpu: float = 0.0


def parse(text):
    report = Report()
    for line in text.splitlines():
        kind, *rest = line.split()
        if kind == "calls":
            report.calls[rest[0], rest[1]] = int(rest[2])
        elif kind == "process":
            report.processes.append(int(rest[1]))
        elif kind == "failed":
            report.failed = int(rest[0])
        elif kind == "ended":
            report.code = int(rest[0])
        elif kind == "cpu":
            report.cpu = float(rest[0])
    return report


@dataclass
class Ended:
    report: Report
    said: str
    output: bytes
    left: list


def available():
    """Whether the kernel, and what we run in, let fail_call be asked."""
    return subprocess.run([FAIL_CALL, "true"], env={**os.environ, "FAIL_CALL_REPORT": os.devnull},
                          capture_output=True).returncode == 0


def run(level, fault=None):
    """The job at this containment level with this fault, or without one."""
    folder = tempfile.mkdtemp(prefix="dtrain-test-")
    try:
        report = os.path.join(folder, "report")
        prefix = [FAIL_CALL] + ([":".join(map(str, fault))] if fault else [])
        with Job("--nproc", 2, "--max-restarts", 1, "--contain", level, "--failure-grace", 0.2, "--tee", 3, "--log-dir",
                 os.path.join(folder, "logs"), "bash", "-c", WORKER, prefix=prefix,
                 env={"FAIL_CALL_REPORT": report, "FAIL_CALL_DEADLINE": str(int(DEADLINE * 2))}) as job:
            job.wait(DEADLINE * 3)
            with open(report) as f:
                ended = Ended(parse(f.read()), job.stderr(), job.output, job.traces())
        for pid in ended.report.processes:
            ended.left += glob.glob(f"/tmp/dtrain-{os.geteuid()}/{pid}-*")
        return ended
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def complaints(ended, fault):
    """What is wrong with this end, in words."""
    report, call = ended.report, fault[1]
    found = []
    if report.code is None:
        found.append("it does not end, or leaves processes")
    elif report.code not in CODES and not (report.code == 2 and "--log-dir" in ended.said):
        found.append(f"exit code {report.code}")
    if re.search(r"terminate called|Assertion|what\(\)|Traceback", ended.said):
        found.append("it crashed")
    told = [line for line in ended.said.splitlines() if line.startswith("dtrain: ")]
    if report.code and not told and call not in ("write", "writev"):
        found.append("it says nothing")
    if report.code == 0 and ended.output.count(b"in 1") != 2 and not re.search("lost|cannot|not written", ended.said):
        found.append("output is missing")
    if ended.left and call not in REMOVING:
        found.append(f"left: {ended.left}")
    if report.cpu > CPU_LIMIT:
        found.append(f"{report.cpu:.1f} s of CPU time")
    return found


def numbers(count):
    """Which ones of so many calls: all, but not each of a walk over all processes."""
    return range(1, count + 1, max(1, count // MOST_ALIKE))


def plan(level):
    """Every fault that a run at this level can meet: (role, call, number, errno)."""
    whole = run(level)
    if whole.report.code != 0:
        raise AssertionError(f"it fails without a fault: {whole}")
    return [(role, call, number, error) for (role, call), count in sorted(whole.report.calls.items())
            for number in numbers(count) for error in ERRORS.get(call, ())]


def describe(level, fault):
    role, call, number, error = fault
    return f"{level}: {role}:{call}:{number}:{error} ({errno.errorcode[error]})"
