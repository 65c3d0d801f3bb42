#!/usr/bin/env python3
"""The digits example on 1, 2 and 4 ranks makes the same updates: its losses agree within 1e-5 at every step, and the
network reads at least 97 % of the test digits. Ranks are started by hand here, and by dtrain where it is built.

usage: digits_parity.py BIN_DIR [--data digits.csv.gz]
"""
import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5
LEAST_ACCURACY = 97.0
EPOCHS = 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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


def by_dtrain(dtrain):
    def start(command, ranks):
        done = subprocess.run([dtrain, "run", "--nproc", str(ranks), *command], text=True, capture_output=True)
        assert done.returncode == 0, f"dtrain ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    return start


def losses(start, train, data, ranks, folder):
    """Train; return the loss of every step."""
    csv = folder / f"{ranks}.csv"
    said = start([str(train), "--data", data, "--epochs", str(EPOCHS), "--loss-csv", str(csv)], ranks)
    accuracy = float(re.search(r"test accuracy ([\d.]+) %", said)[1])
    print(f"{ranks} ranks: test accuracy {accuracy} %")
    assert accuracy >= LEAST_ACCURACY, f"{accuracy} % is below {LEAST_ACCURACY} %"
    return [float(line.split(",")[1]) for line in csv.read_text().splitlines()[1:]]


def compare(alone, together, what):
    assert len(alone) == len(together) > 0, f"{what}: {len(together)} steps instead of {len(alone)}"
    largest = max(abs(a - b) for a, b in zip(alone, together))
    print(f"{what}: largest difference of {len(alone)} losses {largest:.2g}")
    assert largest <= TOLERANCE, f"{what}: {largest} is above {TOLERANCE}"


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
    dtrain = arguments.bin / "dtrain"
    signal.alarm(280)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        refuses_bad_input(train, folder)
        alone = losses(by_hand, train, arguments.data, 1, folder)
        for ranks in (2, 4):
            together = losses(by_hand, train, arguments.data, ranks, folder)
            compare(alone, together, f"{ranks} ranks by hand")
        if dtrain.exists():
            together = losses(by_dtrain(dtrain), train, arguments.data, 2, folder)
            compare(alone, together, "2 ranks by dtrain")
        plot = pathlib.Path(__file__).parents[2] / "examples/digits/plot_loss.py"
        picture = folder / "loss.svg"
        subprocess.run([sys.executable, plot, folder / "1.csv", folder / "2.csv", "-o", picture], check=True)
        assert "polyline" in picture.read_text()


if __name__ == "__main__":
    main()
