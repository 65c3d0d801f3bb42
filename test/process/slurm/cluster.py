"""A real SLURM on this machine, for tests: munged, slurmctld and some slurmd, on free ports, in a folder of its own.

    with Cluster(nodes=3) as cluster:
        cluster.run("srun", "-N3", "hostname")

On a host of a netlab (network=lab.host(0)) its nodes are at that host's address, not at loopback: then a job of several
nodes is one across hosts.

Nothing of it touches /etc, /run or the machine's own SLURM. A keeper process is the parent and subreaper of all daemons
and jobs; when the test ends, however it ends, the keeper sees the end of its standard input, kills all of them and
removes the folder. If the keeper itself is killed, the kernel kills the daemons.
"""
import contextlib
import ctypes
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from ports import free_port  # noqa: E402

PACKAGES = ("munged", "slurmctld", "slurmd", "srun")
START = 60 * float(os.environ.get("DTRAIN_TEST_SLOWER", "1"))
REQUEUE_AFTER = 20  # seconds that a job waits before it runs again; SLURM itself: 120
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
os.environ["PATH"] += ":/usr/sbin:/sbin"

CONFIGURATION = """
ClusterName=dtrain
SlurmctldHost={host}({address})
SlurmctldPort={control}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire={requeue_after}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/{tracked_by}
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobRequeue=1
KillWait={kill_wait}
ReturnToService=2
SlurmdTimeout=300
FirstJobId={job}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def missing(*programs):
    """Those of the programs (without any: all that a cluster needs) that this machine lacks."""
    return [name for name in programs or PACKAGES if not shutil.which(name)]


class Munged:
    """A munged with a key of its own; its socket is .socket."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="dtrain-slurm-")
        self.keeper = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.folder],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.keeper.stdin.close()
        self.keeper.wait(START)
        self.keeper.stdout.close()

    def _start(self):
        os.chmod(self.folder, 0o755)  # munged refuses a folder that others may write
        os.mkdir(self._path("munge"), 0o755)
        self.socket = self._path("munge", "socket")
        with open(self._path("key"), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(secrets.token_bytes(128))
        self._daemon("munged", "--foreground", f"--key-file={self._path('key')}", f"--socket={self.socket}",
                     f"--pid-file={self._path('munged.pid')}", f"--seed-file={self._path('seed')}",
                     f"--log-file={self._path('munged.log')}", "--num-threads=2")
        self._wait(lambda: os.path.exists(self.socket), "munged's socket")

    def logs(self):
        """The last lines of every daemon."""
        found = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(self._path(name), errors="replace") as f:
                    found.append(f"== {name}\n" + "".join(f.readlines()[-15:]))
        return "\n".join(found)

    def _path(self, *names):
        return os.path.join(self.folder, *names)

    def _daemon(self, *command, log=None):
        """Ask the keeper to start it."""
        line = "\0".join([log or command[0], *command]) + "\n"
        self.keeper.stdin.write(line.encode())
        self.keeper.stdin.flush()

    def _wait(self, condition, what):
        end = time.monotonic() + START
        while not condition():
            if select.select([self.keeper.stdout], [], [], 0)[0]:
                raise AssertionError(f"{self.keeper.stdout.readline().decode()}\n{self.logs()}")
            if time.monotonic() > end:
                raise AssertionError(f"no {what} within {START:g} s\n{self.logs()}")
            time.sleep(0.05)  # tidy: allow sleep, because SLURM tells nobody when a node is ready


class Cluster(Munged):
    """`nodes` nodes, node1, node2, ..., with `cpus` CPUs each; all of them are this machine.

    SLURM's signals go to the process group of the task, much as with proctrack/cgroup to the task alone; with
    tracked_by="linuxproc" to every process below it.
    """

    def __init__(self, nodes=3, cpus=2, tracked_by="pgid", kill_wait=8, network=None):
        self.nodes, self.cpus, self.tracked_by, self.kill_wait = nodes, cpus, tracked_by, kill_wait
        self.address = network.ipv4 if network else "127.0.0.1"
        self.network = network.network if network else contextlib.nullcontext

    def __enter__(self):
        with self.network():
            return super().__enter__()

    def environment(self, **more):
        """The test's environment without another SLURM's or dtrain's variables, for a client of this cluster."""
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("SLURM", "SBATCH_", "SALLOC_", "DTRAIN_", "PET_", "TORCHELASTIC_"))}
        return {**kept, "SLURM_CONF": self._path("slurm.conf"), "DTRAIN_MUNGE_SOCKET": self.socket, **more}

    def start(self, *command, **popen):
        """A client, e.g. srun, in a session of its own."""
        settings = dict(env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        with self.network():
            return subprocess.Popen([str(word) for word in command], **{**settings, **popen})

    def run(self, *command, timeout=START, **popen):
        """A client to its end: its exit code in .returncode, .stdout and .stderr."""
        with self.start(*command, **popen) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def wait_for(self, process, text, count=1):
        """Read a client's output until `text` has come `count` times in all; returns what was read."""
        end, said = time.monotonic() + START, ""
        while said.count(text) < count:
            left = end - time.monotonic()
            chunk = ""
            if left > 0 and select.select([process.stdout], [], [], left)[0]:
                chunk = os.read(process.stdout.fileno(), 65536).decode(errors="replace")
            if not chunk:
                raise AssertionError(f"{count} × {text!r} did not come, but {said!r}\n{self.logs()}")
            said += chunk
        return said

    def jobs(self):
        """The ids of all jobs that wait or run."""
        return self.run("squeue", "-h", "-o", "%i").stdout.split()

    def left(self):
        """What jobs have left behind: (pid, name) of each process below the keeper that is not a part of SLURM."""
        found = []
        for pid in descendants(self.keeper.pid):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    name = f.read().strip()
            except OSError:
                continue
            if not name.startswith(("munged", "slurm", "sackd")):
                found.append((pid, name))
        return found

    def _start(self):
        super()._start()
        os.mkdir(self._path("state"))
        self._write_configuration()
        self._daemon("slurmctld", "-D", "-i", "-f", self._path("slurm.conf"))
        for node in range(1, self.nodes + 1):
            self._daemon("slurmd", "-D", "-N", f"node{node}", "-f", self._path("slurm.conf"), log=f"node{node}")
        self._wait(self._all_idle, f"{self.nodes} idle nodes")

    def _write_configuration(self):
        ports = [free_port() for _ in range(self.nodes + 1)]
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(f"NodeName=node{i} NodeHostname={host} NodeAddr={self.address} Port={ports[i]} "
                          f"CPUs={self.cpus} State=UNKNOWN" for i in range(1, self.nodes + 1))
        with open(self._path("slurm.conf"), "w") as f:
            f.write(CONFIGURATION.format(
                host=host, address=self.address, control=ports[0], user=pwd.getpwuid(os.geteuid()).pw_name,
                folder=self.folder, nodes=nodes, tracked_by=self.tracked_by, kill_wait=self.kill_wait,
                requeue_after=REQUEUE_AFTER, job=1000 + secrets.randbelow(1000000)))
        with open(self._path("cgroup.conf"), "w") as f:
            f.write("CgroupPlugin=cgroup/v1\n")

    def _all_idle(self):
        done = self.run("sinfo", "-h", "-N", "-o", "%t")
        return done.stdout.split() == ["idle"] * self.nodes


# The keeper: `python3 cluster.py FOLDER`. Each line of its standard input names a log and a daemon to start.

def prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def descendants(root):
    """All living processes below a process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as f:
                    state, parent = f.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue  # it has ended
            if state not in (b"Z", b"X"):
                parents.setdefault(int(parent), []).append(int(name))
    found = list(parents.get(root, []))
    for pid in found:
        found += parents.get(pid, [])
    return found


def kill_all():
    """Until no child is left: what a killed process leaves comes to its subreaper, which is this one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def keep(folder):
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries what comes to us
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    keeper, daemons = os.getpid(), {}

    def before_daemon():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)

    try:
        while line := sys.stdin.readline():
            name, *command = line.rstrip("\n").split("\0")
            with open(os.path.join(folder, name + ".log"), "ab") as output:
                environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
                daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                                env=environment, preexec_fn=before_daemon)
    finally:
        kill_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep(sys.argv[1])
