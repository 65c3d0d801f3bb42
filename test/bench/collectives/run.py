#!/usr/bin/env python3
"""Measure dtrain's collectives beside gloo (from Python) and OpenMPI (from C++), in turn and in one run.

    run.py --build build [--only PART,...] [--ranks 2,4] [--runs 3] [--most BYTES] [--alone] [--write FOLDER]

allreduce   float32 and bfloat16, 1 KiB to 256 MiB. Bound: what P ranks must read and write at the least, 2 P S bytes,
            at the rate at which all of them together copy memory here. `shared`: of tensors that need no copies
            (docs/training/collectives.md). Nobody touches the tensors between the operations, so what fits into a
            core's cache stays there, most of all where nothing is copied
others      broadcast, all_gather, reduce_scatter, all_to_all, send and recv, float32
hosts       the same between two hosts in a lab of network namespaces, with half of the ranks and of the cores each;
            gloo and dtrain
fusion      500 gradients of 4 KB: hvd::Context, which fuses them, beside a collective for each
ddp         a step of Python's DistributedDataParallel, a model of 50 MB with little work of its own, whose buckets are
            shared, and with DDP_DISABLE_COMM_MEM=1. In C++ too; and both without any reduction, which shows what that
            adds. Then where malloc keeps what is freed, for gloo too, and a step of 50 small layers, whose time is
            what the host takes to call them

The same measure for all: the median of five rows of operations, and of --runs such medians taken in turn, each at a
time when the machine's cores were as near to each other as they can be (cores.py). A figure that falls short does not
make the benchmark fail. Needs a build with -DDTRAIN_BENCH=ON and a Python with torch.
"""
import argparse
import copy
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TEST = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TEST / "bench"), str(TEST / "support")]

import lab_case  # noqa: E402
import netlab  # noqa: E402
import page  # noqa: E402
from cores import Cores  # noqa: E402

WORKER = pathlib.Path(__file__).resolve().parent / "collectives_worker.py"
KIB, MIB = 1 << 10, 1 << 20
SIZES = [KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 32 * MIB, 256 * MIB]
OTHERS = ["broadcast", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
COLLECTIVES = ["memory", "all_reduce", "all_reduce_shared", *OTHERS]  # of collectives_bench
GLOO, PYTHON, CPP, MPI = "gloo, Python", "dtrain, Python", "dtrain, C++", "OpenMPI, C++"
SHARED, CPP_SHARED = "shared, Python", "shared, C++"  # dtrain's, of shared tensors
WAYS = [("hvd::Context", CPP, "hvd"), ("hvd::Context, not fused", CPP, "hvd_unfused"),
        ("all_reduce of each, C++", CPP, "each"), ("asynchronous all_reduces, C++", CPP, "each_async"),
        ("all_reduce of each, dtrain, Python", PYTHON, "each"),
        ("asynchronous all_reduces, dtrain, Python", PYTHON, "each_async"),
        ("all_reduce of each, gloo, Python", GLOO, "each"),
        ("asynchronous all_reduces, gloo, Python", GLOO, "each_async")]  # to reduce many gradients
# What dtrain does itself where there is no GPU (docs/adr/0614), for gloo too. Without it glibc gives the gradients'
# pages back with each step and the kernel clears new ones.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(10**9), "MALLOC_MMAP_THRESHOLD_": str(10**9)}
LIMIT = 600


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


class Peers:
    def __init__(self, args):
        programs = pathlib.Path(args.build, "bin")
        self.python, self.cores = args.python, args.cores
        self.launch = [str(programs / "dtrain"), "run", "--nproc"]
        self.cpp = str(programs / "collectives_bench")
        self.mpi, self.steps = str(programs / "mpi_bench"), str(programs / "steps_bench")
        environment = {**os.environ, "PYTHON_EXEC": self.python, "PYTHONWARNINGS": "ignore",
                       "PYTHONPATH": os.path.join(args.build, "python")}
        self.started = {"env": environment, "text": True, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                        "stderr": subprocess.PIPE}

    def within(self, environment):
        """The same, with these variables set."""
        other = copy.copy(self)
        other.started = {**self.started, "env": {**self.started["env"], **environment}}
        return other

    def command(self, peer, ranks, op, kind, sizes):
        if peer in (SHARED, CPP_SHARED):
            op += "_shared"
        words = [op, kind, ",".join(map(str, sizes))]
        if peer == MPI:
            return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), self.mpi,
                    *words]
        if peer in (CPP, CPP_SHARED):
            return [*self.launch, str(ranks), self.cpp if op in COLLECTIVES else self.steps, *words]
        return [*self.launch, str(ranks), str(WORKER), "gloo" if peer == GLOO else "dtrain", *words]

    def measure(self, peer, ranks, op, kind, sizes):
        """Microseconds for each size."""
        command = self.command(peer, ranks, op, kind, sizes)

        def once():
            try:
                return self.run(command)
            except SystemExit as error:
                if peer != GLOO:
                    raise
                print(f"once more: {error}", file=sys.stderr)  # some of its processes abort when they end
                return self.run(command)
        rows = [line.removeprefix("[0] ").split() for line in self.cores.near(once)]
        return {int(size): float(us) for size, us in rows}

    def run(self, command):
        """The lines that it prints."""
        return self.ended([subprocess.Popen(command, **self.started)])

    @staticmethod
    def ended(programs):
        said = [program.communicate(timeout=LIMIT) for program in programs]
        for program, (_, errors) in zip(programs, said):
            if program.returncode != 0:
                raise SystemExit(f"{program.args} ended with {program.returncode}\n{errors}")
        return [line for lines, _ in said for line in lines.splitlines()]

    def medians(self, peers, runs, *what):
        """For each peer the medians of `runs` measurements, which take turns."""
        taken = {peer: [] for peer in peers}
        for _ in range(runs):
            for peer, rows in taken.items():
                rows.append(self.measure(peer, *what))
        return {peer: {size: statistics.median(row[size] for row in rows) for size in rows[0]}
                for peer, rows in taken.items()}


class PeersBetweenHosts(Peers):
    """Each host of a lab has an equal share of the ranks, and of the cores, which real ones do not share either."""

    def __init__(self, args, lab, folder):
        super().__init__(args)
        os.mkdir(os.path.join(folder, "dtrain"))
        lab_case.new_token(self.launch[0], os.path.join(folder, "dtrain"))
        self.started["env"]["XDG_CONFIG_HOME"] = folder
        self.hosts = lab.hosts
        cores = sorted(os.sched_getaffinity(0))
        share = max(1, len(cores) // len(self.hosts))
        self.shares = [cores[share * i % len(cores):][:share] for i in range(len(self.hosts))]
        self.launch[2:] = ["--nnodes", str(len(self.hosts)), "--rdzv-backend", "c10d", "--rdzv-endpoint",
                           "host1:29400", "--rdzv-id", "bench", "--nproc"]

    def command(self, peer, ranks, *what):
        return super().command(peer, ranks // len(self.hosts), *what)

    def run(self, command):
        return self.ended([host.popen(["taskset", "-c", ",".join(map(str, share)), *command], **self.started)
                           for host, share in zip(self.hosts, self.shares)])


def table(header, rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] + ["---:"] * (len(header) - 1), *rows])


def compared(found, sizes, bound=None):
    """Rows of times, and how many times as fast dtrain is as its peer in the same language."""
    def faster(ours, peer, size):
        return f"{found[peer][size] / found[ours][size]:.1f}x" if peer in found else "-"
    rows = []
    for size in sizes:
        row = [size_text(size), *(f"{found[peer][size]:,.1f}" for peer in found), faster(PYTHON, GLOO, size)]
        if MPI in found:
            row.append(faster(CPP, MPI, size))
        if bound:
            row += [f"{100 * bound(size) / found[peer][size]:.0f} %" for peer in (CPP, CPP_SHARED)]
        rows.append(row)
    header = ["size", *(f"{peer}, us" for peer in found), "gloo / dtrain"]
    header += ["OpenMPI / dtrain"] if MPI in found else []
    return table(header + (["of the bound", "shared"] if bound else []), rows)


def worst(found, ours, peer, sizes):
    return min(found[peer][size] / found[ours][size] for size in sizes)


def bars_of(found, what, sizes):
    bars = [page.judged(f"{what}: as fast as gloo, at least", worst(found, PYTHON, GLOO, sizes), ">=", 1, "times")]
    if MPI in found:
        bars.append(page.judged(f"{what}: as fast as OpenMPI, at least", worst(found, CPP, MPI, sizes), ">=", 1,
                                "times"))
    return bars


def allreduce(peers, args):
    bars, parts = [], []
    for ranks in args.ranks:
        rate = peers.measure(CPP, ranks, "memory", "-", [0])[0] * 1e3  # bytes a microsecond
        for kind in ("float32", "bfloat16"):
            names = [GLOO, PYTHON, SHARED, CPP, CPP_SHARED] + ([MPI] if kind == "float32" else [])
            found = peers.medians(names, args.runs, ranks, "all_reduce", kind, args.sizes)
            what = f"{ranks} ranks, {kind}"
            parts.append(f"{what}; {rate / 1e3:.1f} GB/s of memory:\n\n" +
                         compared(found, args.sizes, lambda size: 2 * ranks * size / rate))
            bars += bars_of(found, what, args.sizes)
            for least, aim, ours, which in ((20, "up to 1 MiB", PYTHON, [s for s in args.sizes if s <= MIB]),
                                            (2.5, "32 MiB", PYTHON, [s for s in args.sizes if s == 32 * MIB]),
                                            (5, "32 MiB, shared", SHARED, [s for s in args.sizes if s == 32 * MIB])):
                if which:
                    bars.append(page.judged(f"{what}: aim against gloo, {aim}", worst(found, ours, GLOO, which), ">=",
                                            least, "times"))
    return bars, parts


def others(peers, args):
    bars, parts = [], []
    for ranks in args.ranks:
        for op in OTHERS:
            found = peers.medians([GLOO, PYTHON, CPP, MPI], args.runs, ranks, op, "float32", args.sizes)
            what = f"{op}, {ranks} ranks"
            parts.append(f"{what}:\n\n" + compared(found, args.sizes))
            bars += bars_of(found, what, args.sizes)
    return bars, parts


def hosts(_, args):
    bars, parts = [], []
    with tempfile.TemporaryDirectory() as folder, netlab.Lab(2) as lab:
        peers = PeersBetweenHosts(args, lab, folder)
        for ranks in args.ranks:
            for op in ["all_reduce", *OTHERS]:
                found = peers.medians([GLOO, PYTHON, CPP], args.runs, ranks, op, "float32", args.sizes)
                what = f"{op}, {ranks} ranks on 2 hosts"
                parts.append(f"{what}:\n\n" + compared(found, args.sizes))
                bars += bars_of(found, what, args.sizes)
    return bars, parts


def ddp(peers, args):
    bars, parts, size = [], [], 50 * 10**6
    for ranks in args.ranks:
        found = peers.medians([GLOO, PYTHON, SHARED, CPP], args.runs, ranks, "ddp", "float32", [size])
        views = peers.medians([GLOO, PYTHON, CPP], args.runs, ranks, "ddp_views", "float32", [size])
        alone = peers.medians([PYTHON, CPP], args.runs, ranks, "ddp_alone", "float32", [size])
        kept = {peer: us[size] / 1e3 for peer, us in peers.within(KEEPING).medians(
            [GLOO, SHARED, CPP], args.runs, ranks, "ddp", "float32", [size]).items()}
        host_size = 50 * 4096
        host = {peer: found[host_size] for peer, found in peers.medians(
            [GLOO, PYTHON, CPP], args.runs, ranks, "ddp_host", "float32", [host_size]).items()}
        plain, shared, theirs, cpp = (found[peer][size] / 1e3 for peer in (PYTHON, SHARED, GLOO, CPP))
        python_alone, cpp_alone = (alone[peer][size] / 1e3 for peer in (PYTHON, CPP))
        parts.append(f"{ranks} ranks: a step takes {theirs:.1f} ms on gloo, {shared:.1f} ms on dtrain, {plain:.1f} ms "
                     f"without shared buckets, {cpp:.1f} ms in C++. Without any reduction it takes {python_alone:.1f} "
                     f"ms in Python and {cpp_alone:.1f} ms in C++: what the reduction adds is "
                     f"{(theirs - python_alone) / (shared - python_alone):.1f} times as long on gloo. With "
                     f"gradient_as_bucket_view a step takes {views[GLOO][size] / 1e3:.1f} ms on gloo, "
                     f"{views[PYTHON][size] / 1e3:.1f} ms on dtrain and {views[CPP][size] / 1e3:.1f} ms in C++. Where "
                     f"malloc keeps what is freed for gloo too ("
                     f"{' '.join(f'{name}={value}' for name, value in KEEPING.items())}), a step takes "
                     f"{kept[GLOO]:.1f} ms on gloo, {kept[SHARED]:.1f} ms on dtrain and {kept[CPP]:.1f} ms in C++. A "
                     f"step of 50 layers of 4 KB, whose time is what the host takes to call, takes {host[GLOO]:,.0f} "
                     f"us on gloo, {host[PYTHON]:,.0f} us on dtrain and {host[CPP]:,.0f} us in C++.")
        bars.append(page.judged(f"{ranks} ranks: a step as fast as on gloo, at least", theirs / shared, ">=", 2,
                                "times"))
        bars.append(page.judged(f"{ranks} ranks, gradient_as_bucket_view: as fast as on gloo, at least",
                                views[GLOO][size] / views[PYTHON][size], ">=", 2, "times"))
        bars.append(page.judged(f"{ranks} ranks, gradient_as_bucket_view: C++ as fast as Python, at least",
                                views[PYTHON][size] / views[CPP][size], ">=", 1, "times"))
        bars.append(page.judged(f"{ranks} ranks: C++ as fast as Python, both on dtrain, at least", shared / cpp, ">=",
                                1, "times"))
        bars.append(page.judged(f"{ranks} ranks, malloc keeps: a step as fast as on gloo, at least",
                                kept[GLOO] / kept[SHARED], ">=", 2, "times"))
        bars.append(page.judged(f"{ranks} ranks, malloc keeps: C++ as fast as Python, both on dtrain, at least",
                                kept[SHARED] / kept[CPP], ">=", 1, "times"))
        bars.append(page.judged(f"{ranks} ranks: host time of a step, C++ as fast as Python, both on dtrain, at least",
                                host[PYTHON] / host[CPP], ">=", 1, "times"))
    return bars, parts


def fusion(peers, args):
    bars, parts, size = [], [], 500 * 4096
    for ranks in args.ranks:
        taken = {way: [] for way in WAYS}
        for _ in range(args.runs):
            for (_, peer, op), times in taken.items():
                times.append(peers.measure(peer, ranks, op, "float32", [size])[size])
        taken = {text: statistics.median(times) for (text, _, _), times in taken.items()}
        fused = taken["hvd::Context"]
        parts.append(f"{ranks} ranks:\n\n" + table(["500 gradients of 4 KB", "us", "times hvd::Context"],
                                                   [[text, f"{us:,.0f}", f"{us / fused:.1f}"]
                                                    for text, us in taken.items()]))
        for text in ("hvd::Context, not fused", "all_reduce of each, gloo, Python"):
            bars.append(page.judged(f"{ranks} ranks: fusion against {text}", taken[text] / fused, ">=", 5, "times"))
    return bars, parts


PARTS = {"allreduce": ("All-reduce", allreduce), "others": ("The other collectives, and messages", others),
         "hosts": ("Between two hosts", hosts), "ddp": ("Python's DDP", ddp), "fusion": ("Fusion", fusion)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, separated by commas")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="no larger sizes than this")
    page.add_alone(parser)
    parser.add_argument("--python", default=".venv/bin/python", help="one with torch")
    parser.add_argument("--write", metavar="FOLDER", help="replace the measured sections on their pages in it")
    args = parser.parse_args()
    args.build, args.python = os.path.abspath(args.build), os.path.abspath(args.python)
    args.ranks = [int(ranks) for ranks in args.ranks.split(",")]
    args.sizes = [size for size in SIZES if size <= args.most]
    netlab.become_able()
    page.go_alone(args)
    args.cores = Cores(os.path.join(args.build, "bin", "cores_bench"))
    peers = Peers(args)
    *facts, load = page.machine(args.alone)
    facts += [f"torch {page.first_line(args.python, '-c', 'import torch; print(torch.__version__)')}.",
              f"{page.first_line('mpirun', '--version')}.", load]
    for name in args.only.split(","):
        title, part = PARTS[name]
        print(f"== {name}", flush=True)
        bars, parts = part(peers, args)
        text = "\n\n".join([page.bars_table(bars), *parts])
        print(text, flush=True)
        if args.write:
            page.write_section(args.write, "bench-collectives", name, f"## {title}\n\n{text}\n\n"
                               f"{' '.join([*facts, args.cores.text()])}")


if __name__ == "__main__":
    main()
