#!/usr/bin/env python3
"""The digits example on 1, 2 and 4 ranks makes the same updates: in double precision its losses agree within 1e-8 at
every step, and so with every strategy; the network reads at least 97 % of the test digits. Two ranks started by
`dtrain run` and by our `torchrun` give, digit for digit, the losses of two started by hand.

usage: digits_parity.py BIN_DIR [--data digits.csv.gz]
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "support")]

from ports import free_port  # noqa: E402

# Ranks add up a batch in another order than one process does. In single precision that may put what goes into a ReLU on
# the other side of 0 after some hundred steps, and then the weights part.
TOLERANCE = 1e-8
LEAST_ACCURACY = 97.0
EPOCHS = 20


def by_hand(command, ranks):
    """Start the ranks with a plain environment; return what rank 0 printed."""
    world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    workers = [
        subprocess.Popen(command, env=os.environ | world | {"RANK": str(rank)}, text=True, stdout=subprocess.PIPE)
        for rank in range(ranks)
    ]
    said = [worker.communicate()[0] for worker in workers]
    codes = [worker.returncode for worker in workers]
    assert codes == [0] * ranks, f"{ranks} ranks ended with {codes}"
    return said[0]


def by_launcher(*launcher):
    def start(command, ranks):
        done = subprocess.run([*launcher, str(ranks), *command], text=True, capture_output=True)
        assert done.returncode == 0, f"{launcher[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    return start


def losses(start, train, data, ranks, folder):
    """Train; return the loss of every step."""
    csv = folder / f"{ranks}.csv"
    said = start([str(train), "--data", data, "--epochs", str(EPOCHS), "--double", "--loss-csv", str(csv)], ranks)
    accuracy = float(re.search(r"test accuracy ([\d.]+) %", said)[1])
    print(f"{ranks} ranks: test accuracy {accuracy} %")
    assert accuracy >= LEAST_ACCURACY, f"{accuracy} % is below {LEAST_ACCURACY} %"
    return [float(line.split(",")[1]) for line in csv.read_text().splitlines()[1:]]


def compare(alone, together, what, tolerance):
    assert len(alone) == len(together) > 0, f"{what}: {len(together)} steps instead of {len(alone)}"
    largest = max(abs(a - b) for a, b in zip(alone, together))
    print(f"{what}: largest difference of {len(alone)} losses {largest:.2g}")
    assert largest <= tolerance, f"{what}: {largest} is above {tolerance}"


def refuses_bad_input(train, folder):
    """Bad input is one line on stderr and no traceback."""
    for arguments, code, word in [(["--lr", "x"], 2, "--lr"), (["--data", str(folder / "none")], 1, "make setup")]:
        done = subprocess.run([str(train), *arguments], text=True, capture_output=True)
        assert done.returncode == code and word in done.stderr, (arguments, done.returncode, done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--data", required=True)
    arguments = parser.parse_args()
    train = arguments.bin / "train"
    launchers = [(str(arguments.bin / "dtrain"), "run", "--nproc"),
                 (str(arguments.bin / "torchrun"), "--no-python", "--nproc-per-node")]
    os.environ["OMP_NUM_THREADS"] = "1"  # launchers would choose; the number of threads changes the last digits
    signal.alarm(280)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        refuses_bad_input(train, folder)
        alone = losses(by_hand, train, arguments.data, 1, folder)
        pair = losses(by_hand, train, arguments.data, 2, folder)
        compare(alone, pair, "1 and 2 ranks", TOLERANCE)
        compare(alone, losses(by_hand, train, arguments.data, 4, folder), "1 and 4 ranks", TOLERANCE)
        for launcher in launchers:
            launched = losses(by_launcher(*launcher), train, arguments.data, 2, folder)
            compare(pair, launched, f"2 ranks by hand and by {pathlib.Path(launcher[0]).name}", tolerance=0)
        for strategy in ("zero1", "zero2", "fsdp"):
            os.environ["DTRAIN_STRATEGY"] = strategy
            compare(alone, losses(by_hand, train, arguments.data, 2, folder), f"1 rank, 2 with {strategy}", TOLERANCE)
        plot = pathlib.Path(__file__).parents[2] / "examples/digits/plot_loss.py"
        picture = folder / "loss.svg"
        subprocess.run([sys.executable, plot, folder / "1.csv", folder / "2.csv", "-o", picture], check=True)
        assert "polyline" in picture.read_text()


if __name__ == "__main__":
    main()
