"""Engines of the failure matrix: each starts a job of two ranks, on two nodes where it has nodes."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROCESS, ROOT = HERE.parent, HERE.parents[2]
sys.path[:0] = [str(HERE), *(str(PROCESS / name) for name in ("launcher", "ssh", "mpi", "slurm", "clusters")),
                str(PROCESS.parent / "support")]

import netlab  # noqa: E402
from cluster import Cluster, descendants  # noqa: E402
from cluster_jobs import AGENTS, OURS, processes_with  # noqa: E402
from far_shell import FarShell  # noqa: E402
from jobs import DEADLINE, MARK, marked  # noqa: E402
from killing import end_at_once, end_step_at_once  # noqa: E402
from netlab import namespaces  # noqa: E402
from ray_cluster import PYTHON as RAY_PYTHON  # noqa: E402
from ray_cluster import RayCluster  # noqa: E402
from spark_cluster import OPTIONS, SparkCluster  # noqa: E402
from spark_cluster import PYTHON as SPARK_PYTHON  # noqa: E402
from ssh_server import SshServers  # noqa: E402
from support import DTRAIN, comm_of, proc_file, until  # noqa: E402

RUN = [os.path.abspath(DTRAIN), "run"]


class Engine(contextlib.ExitStack):
    """`with ENGINE(folder):` it runs. The folder is short and every node sees it."""

    name = ""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.environment = {**os.environ, **dict([MARK.split("=")]), "HOME": folder, "XDG_CONFIG_HOME": folder}
        # A folder that is empty on the last node, for engines whose nodes have no files of their own.
        self.hidden = os.path.join(folder, "hidden")
        os.makedirs(self.hidden, exist_ok=True)
        self.missing = shutil.copy("/usr/bin/true", self.hidden)

    def words(self, flags, command):
        """The user's command line for two ranks."""
        raise NotImplementedError

    def too_few(self, flags, command):
        """The same for more than there is."""
        raise NotImplementedError

    def popen(self, words, **options):
        return subprocess.Popen(words, env=self.environment, cwd=self.folder, **options)

    def left(self):
        """PIDs of all that a job has started."""
        return marked()

    def agents(self):
        return [pid for pid in self.left() if comm_of(pid) == "dtrain-agent"]

    def agent(self):
        """The PID of the agent of one node."""
        return self.agents()[-1]

    def lose_node(self):
        raise NotImplementedError

    def cut_power(self):
        raise NotImplementedError

    def find_node(self):
        """Undo lose_node() and cut_power()."""

    def settle(self):
        """Wait until the engine has room for the next job."""


class Local(Engine):
    name = "local"

    def words(self, flags, command):
        return [*RUN, "--nproc", "2", *flags, *command]


class OnLab(Engine):
    """On hosts of a lab: host1 is the user's, host2 and host3 are nodes."""

    def __enter__(self):
        super().__enter__()
        self.lab = self.enter_context(netlab.Lab(3))
        self.missing = "/run/tmp/train"  # /run is each host's own
        for host in self.lab.hosts[:2]:
            shutil.copy("/usr/bin/true", host.path(self.missing))
        return self

    def popen(self, words, **options):
        return self.lab.host(0).popen(words, env=self.environment, cwd=self.folder, **options)

    def servers(self):
        return set()

    def left(self):
        return [pid for host in self.lab.hosts if host.up for pid in host.pids() if pid not in self.servers()]

    def agents(self):
        return [pid for pid in self.lab.host(2).pids() if comm_of(pid) == "dtrain-agent"]

    def lose_node(self):
        end_at_once(self.lab.host(2).pids())

    def cut_power(self):
        self.lab.host(2).crash()

    def find_node(self):
        if not self.lab.host(2).up:
            self.lab.host(2).boot()


class Ssh(OnLab):
    name = "ssh"

    def __enter__(self):
        super().__enter__()
        self.ssh = self.enter_context(SshServers(self.lab, self.folder))
        self.environment["DTRAIN_SSH"] = self.ssh.command
        return self

    def words(self, flags, command):
        return [*RUN, "-H", "host2:1,host3:1", *flags, *command]

    def too_few(self, flags, command):
        return self.words(["--nnodes", "3", *flags], command)

    def servers(self):
        return self.ssh.pids()

    def find_node(self):
        super().find_node()
        self.ssh.stop("host3")
        self.ssh.start(self.lab.host(2))


class Mpi(OnLab):
    """`launch` is that of a launcher."""

    def __enter__(self):
        super().__enter__()
        self.shell = self.enter_context(FarShell(self.lab, os.path.join(self.folder, "far"))).command
        return self

    def words(self, flags, command):
        return [*self.launch(2), *RUN, "--nproc", "1", *flags, *command]

    def too_few(self, flags, command):
        return [*self.launch(3), *RUN, "--nproc", "1", *flags, *command]


class OpenMpi(Mpi):
    name = "Open MPI"

    def launch(self, processes):
        return ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.shell, "-n", str(processes),
                "-N", "1", "-H", "host2,host3"]


class Mpich(Mpi):
    name = "MPICH"

    def launch(self, processes):
        return ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", self.shell, "-hosts", "host2,host3", "-ppn", "1",
                "-n", str(processes)]


class Slurm(Engine):
    name = "SLURM"

    def __enter__(self):
        super().__enter__()
        network = self.enter_context(netlab.Lab(1))
        self.cluster = self.enter_context(SlurmNodes(self.hidden, network.host(0)))
        self.environment = self.cluster.environment(**dict([MARK.split("=")]), HOME=self.folder)
        return self

    def words(self, flags, command, nodes=2):
        return [*RUN, "--engine", "slurm", "--nnodes", str(nodes), "--nproc", "1", *flags, *command]

    def too_few(self, flags, command):
        """SLURM would queue the job, until there are so many nodes."""
        return self.words(["--srun=--immediate=1", *flags], command, 3)

    def popen(self, words, **options):
        return self.cluster.start(*words, env=self.environment, cwd=self.folder, **{"text": False, **options})

    def left(self):
        return sorted({pid for pid, _ in self.cluster.left()} | set(marked()))

    def agents(self):
        return [pid for pid in super().agents() if b"SLURM_NODEID=1" in proc_file(pid, "environ").split(b"\0")]

    def lose_node(self):
        end_step_at_once(self.agent(), descendants)

    def settle(self):
        until(lambda: not self.cluster.jobs(), DEADLINE, "the end of SLURM's last job")


class SlurmNodes(Cluster):
    """Two nodes; on the second one a folder is empty."""

    def __init__(self, hidden, network):
        super().__init__(nodes=2, network=network)
        self.hidden = hidden

    def _daemon(self, *command, log=None):
        if log == "node2":
            command = "unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', self.hidden, *command
        super()._daemon(*command, log=log)


class OnCluster(Engine):
    """A cluster whose own processes carry OURS; it starts those of a job from these."""

    starts = ()  # parts of the command lines of what the cluster starts for a job

    def words(self, flags, command, nodes=2):
        return [*RUN, "--engine", self.name.lower(), "--nnodes", str(nodes), "--nproc", "1", *flags, *command]

    def too_few(self, flags, command):
        return self.words(flags, command, 5)

    def left(self):
        return sorted({*marked(), *(pid for text in (*AGENTS, *self.starts) for pid in processes_with(text))})


class Ray(OnCluster):
    name = "Ray"
    starts = ("ray::Node",)

    def __enter__(self):
        super().__enter__()
        self.cluster = RayCluster(OURS)
        self.callback(self.cluster.close)
        self.cluster.add(num_cpus=1)
        self.find_node()
        self.environment.update(RAY_ADDRESS=self.cluster.address, PYTHON_EXEC=RAY_PYTHON)
        return self

    def lose_node(self):
        self.cluster.kill(self.node)

    def find_node(self):
        self.node = self.cluster.add(num_cpus=1, hidden=self.hidden)


class Spark(OnCluster):
    name = "Spark"

    def __enter__(self):
        super().__enter__()
        self.cluster = SparkCluster(OURS)
        self.callback(self.cluster.close)
        self.cluster.add_worker(1)
        with namespaces.hidden(self.hidden):
            self.cluster.add_worker(1)
        for name in "SPARK_HOME", "PYSPARK_PYTHON", "JAVA_HOME":
            self.environment.pop(name, None)
        self.environment.update(MASTER=self.cluster.address, PYTHON_EXEC=SPARK_PYTHON, SPARK_LOCAL_IP="127.0.0.1",
                                DTRAIN_SPARK=f"{OPTIONS} --conf spark.ui.enabled=false")
        return self

    def executors(self):
        return processes_with("CoarseGrainedExecutorBackend")

    def lose_node(self):
        os.kill(self.executors()[0], 9)

    def settle(self):
        until(lambda: not self.executors(), DEADLINE, "the end of Spark's executors")


ENGINES = [Local, Ssh, OpenMpi, Mpich, Slurm, Ray, Spark]
