#!/usr/bin/env python3
"""The ResNet example end to end, on real files: two ranks have the losses of Python's DDP on gloo, from the same first
weights on the same batches, with other strategies and with Horovod's optimizer; a test does not depend on the number of
ranks; it learns; bad input is one line; scaling.py measures and draws.

usage: resnet_parity.py BIN_DIR --digits digits.csv.gz      (with a Python that has torch)
"""
import argparse
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/resnet"
PEER = ROOT / "test/bench/resnet/resnet_peer.py"
TOLERANCE = 1e-5
# Of the same steps in double precision. In single, Adam makes a step of a gradient's noise where that is nearly 0.
STEPS_TOLERANCE = 1e-8
LEAST_ACCURACY = 0.9


class Runs:
    def __init__(self, programs, folder):
        self.dtrain, self.resnet = str(programs / "dtrain"), str(programs / "resnet")
        self.folder = folder

    def job(self, ranks, *command):
        done = subprocess.run([self.dtrain, "run", "--nproc", str(ranks), *map(str, command)], text=True,
                              capture_output=True, env={**os.environ, "PYTHON_EXEC": sys.executable})
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"

    def losses(self, program, *flags, strategy="ddp"):
        """Of every step, on two ranks."""
        file = self.folder / "loss.csv"
        self.job(2, "--strategy", strategy, program, *flags, "--threads", "1", "--loss-csv", file)
        with open(file, newline="") as rows:
            return [float(row["loss"]) for row in csv.DictReader(rows)]

    def result(self, ranks, *flags):
        file = self.folder / "result.json"
        self.job(ranks, self.resnet, *flags, "--json", file)
        return json.loads(file.read_text())


def compare(ours, theirs, what):
    assert len(ours) == len(theirs) > 0, f"{what}: {len(ours)} steps and {len(theirs)}"
    largest = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"{what}: largest difference of {len(ours)} losses {largest:.2g}", flush=True)
    assert largest <= STEPS_TOLERANCE, f"{what}: {largest} is above {STEPS_TOLERANCE}"


def same_as_python(runs, images):
    """Three steps of 2 x 16 images each, of two epochs, with the weights that come out."""
    weights, theirs = runs.folder / "ours.pt", runs.folder / "theirs.pt"
    flags = ["--files", images, "--depth", 18, "--batch", 16, "--epochs", 2, "--double"]
    ddp = runs.losses(runs.resnet, *flags, "--save", weights)
    compare(ddp, runs.losses(PEER, *flags, "--save", theirs), "ddp and Python's DDP")
    compare(ddp, runs.losses(runs.resnet, *flags, "--strategy", "horovod"), "ddp and Horovod's optimizer")
    for strategy in ("zero2", "fsdp"):
        compare(ddp, runs.losses(runs.resnet, *flags, strategy=strategy), f"ddp and {strategy}")
    ours, theirs = dict(torch.load(weights)), torch.load(theirs)
    assert list(sorted(ours)) == list(sorted(theirs))
    largest = max((ours[name].double() - tensor.double()).abs().max().item() for name, tensor in theirs.items()
                  if "running" not in name)
    print(f"weights after them: largest difference {largest:.2g}")
    assert largest <= STEPS_TOLERANCE


def test_of_any_number_of_ranks(runs, images):
    weights = runs.folder / "weights.pt"
    train = ["--files", images, "--depth", 18, "--image-size", 40, "--batch", 8, "--lr", "1e-3"]
    trained = runs.result(2, *train, "--epochs", 1, "--save", weights)
    assert len(trained["epochs"]) == 1 and trained["epochs"][0]["images_per_second"] > 0
    for ranks in (1, 2, 3):
        tested = runs.result(ranks, *train, "--epochs", 0, "--init", weights)
        assert abs(tested["test_loss"] - trained["test_loss"]) <= TOLERANCE, (ranks, tested, trained)
        assert tested["test_accuracy"] == trained["test_accuracy"], (ranks, tested, trained)
    print(f"test loss {trained['test_loss']:.6f} on 1, 2 and 3 ranks")


def learns(runs, images):
    found = runs.result(2, "--files", images, "--depth", 18, "--batch", 32, "--epochs", 3, "--lr", "1e-3")
    print(f"test accuracy {100 * found['test_accuracy']:.1f} % of {found['test_images']} digits")
    assert found["train_images"] == 1438 and found["test_images"] == 359
    assert found["test_accuracy"] >= LEAST_ACCURACY, found


def strong_and_weak(runs):
    flags = ["--synthetic", 64, "--depth", 18, "--batch", 8, "--epochs", 1]
    assert runs.result(2, *flags)["global_batch"] == 16
    assert runs.result(2, *flags, "--strong")["global_batch"] == 8


def refuses_bad_input(runs, images):
    """One line on stderr."""
    def cut(name, change):
        folder = runs.folder / name
        shutil.copytree(images, folder)
        change(folder)
        return folder

    def truncate(folder):
        with open(folder / "data_batch_3.bin", "r+b") as file:
            file.truncate(5000)

    def relabel(folder):
        with open(folder / "test_batch.bin", "r+b") as file:
            file.write(bytes([10]))

    cases = [(["--files", cut("cut", truncate)], 1, "data_batch_3.bin has 5000 bytes"),
             (["--files", cut("label", relabel), "--epochs", "0"], 1, "test_batch.bin: record 0 is of class 10"),
             (["--files", cut("less", lambda folder: (folder / "data_batch_5.bin").unlink())], 1,
              "cannot open " + str(runs.folder / "less/data_batch_5.bin")),
             (["--files", runs.folder / "none"], 1, "digits_as_cifar.py"),
             (["--synthetic", "63"], 1, "there are 63 images to train on, fewer than the 64 of one update"),
             (["--json", runs.folder / "no/file"], 1, "cannot write"),
             (["--save", runs.folder / "no/file"], 1, "cannot write"),
             (["--loss-csv", runs.folder / "no/file"], 1, "cannot write"),
             (["--init", images / "test_batch.bin", "--depth", "18"], 1, "are not what --save"),
             (["--files", images, "--synthetic", "8"], 2, "excludes"),
             (["--depth", "20"], 2, "--depth"), (["--batch", "1"], 2, "--batch"), (["--lr", "x"], 2, "--lr"),
             (["--strategy", "zero"], 2, "--strategy"), (["--image-size", "7"], 2, "--image-size")]
    for arguments, code, word in cases:
        done = subprocess.run([runs.resnet, *map(str, arguments)], text=True, capture_output=True)
        assert done.returncode == code and word in done.stderr, (arguments, done.returncode, done.stderr)
        assert len(done.stderr.strip().splitlines()) <= (1 if code == 1 else 2), done.stderr
    done = subprocess.run([runs.dtrain, "run", "--nproc", "2", runs.resnet, "--strong", "--batch", "3"], text=True,
                          capture_output=True)
    assert done.returncode == 1 and "--batch 3 is less than two images for each of 2" in done.stderr, done.stderr


def scaling(runs):
    table, picture = runs.folder / "scaling.csv", runs.folder / "scaling.svg"
    command = [sys.executable, EXAMPLE / "scaling.py", "--dtrain", runs.dtrain, "--nproc", "1,2", "--runs", "1", "-o",
               table, "--plot", picture, "--", runs.resnet, "--depth", "18", "--synthetic", "32", "--batch", "8",
               "--epochs", "1"]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(table, newline="") as rows:
        found = {(row["scaling"], row["ranks"]): row for row in csv.DictReader(rows)}
    assert set(found) == {(kind, ranks) for kind in ("strong", "weak") for ranks in ("1", "2")}, found
    for kind in ("strong", "weak"):
        one, two = (float(found[kind, ranks]["images_per_second"]) for ranks in ("1", "2"))
        assert one > 0 and float(found[kind, "1"]["efficiency"]) == 1
        assert abs(float(found[kind, "2"]["efficiency"]) - two / (2 * one)) < 1e-3, found
    assert picture.read_text().count("polyline") >= 2
    done = subprocess.run([*command[:-1], "x"], text=True, capture_output=True)
    assert done.returncode != 0 and "--epochs" in done.stderr and "Traceback" not in done.stderr, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--digits", required=True)
    arguments = parser.parse_args()
    signal.alarm(580)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(arguments.bin.resolve(), pathlib.Path(folder))
        few, all_digits = runs.folder / "few", runs.folder / "all"
        for target, most in ((few, ["--most", "120"]), (all_digits, [])):
            convert = EXAMPLE / "digits_as_cifar.py"
            subprocess.run([sys.executable, convert, arguments.digits, target, *most], check=True)
        refuses_bad_input(runs, few)
        same_as_python(runs, few)
        test_of_any_number_of_ranks(runs, few)
        strong_and_weak(runs)
        scaling(runs)
        learns(runs, all_digits)


if __name__ == "__main__":
    main()
