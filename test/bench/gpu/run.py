"""run.py --build build/cuda --python PYTHON: training by Ddp and by FSDP, and all_reduce, on this machine's GPUs, by
dtrain in C++ and by torch in Python, in turn; prints the medians, and how many times as long Python takes. If --ranks
is above the number of GPUs, ranks share them: NCCL accepts that where it believes them to be on several hosts."""
import argparse
import json
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
LIMIT = 600  # seconds, for one program

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--build", default="build/cuda", type=pathlib.Path)
parser.add_argument("--python", required=True, help="one with a full CUDA torch")
parser.add_argument("--ranks", default=1, type=int)
parser.add_argument("--turns", default=3, type=int)
parser.add_argument("--shape", nargs=4, default=["30", "12", "1024", "256"],
                    metavar=("ROWS", "LAYERS", "WIDTH", "BATCH"))
chosen = parser.parse_args()


def measured(*program):
    """What one program prints, a JSON object, by name."""
    apart = ["sh", "-c", 'NCCL_HOSTID=rank$RANK exec "$@"', "sh"] if chosen.ranks > 1 else []
    done = subprocess.run([chosen.build / "bin/dtrain", "run", "--nproc", str(chosen.ranks), *apart, *program,
                           *chosen.shape], stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    return json.loads(done.stdout[done.stdout.index("{"):])  # after the prefix


bench, worker = chosen.build / "bin/gpu_bench", HERE / "gpu_worker.py"
turns = [(measured(bench.resolve()), measured(chosen.python, worker)) for _ in range(chosen.turns)]
print(f"{chosen.ranks} ranks; {' '.join(chosen.shape)} rows, layers, width, batch; medians of {chosen.turns} turns")
print(f"{'':24}{'C++':>14}{'Python':>14}  Python / C++")
for name in turns[0][0]:
    ours, theirs = (statistics.median(turn[which][name] for turn in turns) for which in (0, 1))
    print(f"{name:24}{ours:14.2f}{theirs:14.2f}  {theirs / ours if ours else float('nan'):.2f}")
