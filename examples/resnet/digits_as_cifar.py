#!/usr/bin/env python3
"""Write scikit-learn's handwritten digits in the format of CIFAR-10's binary version: real images of ten classes for
`resnet --files`. Needs nothing but Python.

usage: digits_as_cifar.py DIGITS.csv.gz FOLDER [--most N]

DIGITS.csv.gz is what `make setup` puts into .cache. The 8 x 8 pixels become 32 x 32 by interpolation, grey in all three
colours; every fifth digit goes to test_batch.bin, the others in turn to data_batch_1.bin ... data_batch_5.bin.
"""
import argparse
import gzip
import pathlib
import sys

FROM, TO = 8, 32
DARKEST = 16  # of the file's pixels


def weights():
    """For each of the 32 places: the two of the 8 pixels it lies between, and how near it is to the second."""
    for place in range(TO):
        at = min(max((place + 0.5) * FROM / TO - 0.5, 0), FROM - 1)
        first = min(int(at), FROM - 2)
        yield first, at - first


def enlarge(pixels):
    """64 numbers of 0 to 16 -> 1,024 bytes."""
    across = list(weights())
    rows = [[row[i] * (1 - t) + row[i + 1] * t for i, t in across]
            for row in (pixels[y * FROM:(y + 1) * FROM] for y in range(FROM))]
    return bytes(round((a * (1 - t) + b * t) * 255 / DARKEST)
                 for i, t in across for a, b in zip(rows[i], rows[i + 1]))


def record(line):
    *pixels, label = (float(number) for number in line.split(","))
    if len(pixels) != FROM * FROM or not 0 <= label <= 9 or not all(0 <= p <= DARKEST for p in pixels):
        raise ValueError("a line is not 64 pixels of 0 to 16 and a digit")
    return bytes([int(label)]) + 3 * enlarge(pixels)


def main():
    parser = argparse.ArgumentParser(description="Write scikit-learn's digits in the format of CIFAR-10.")
    parser.add_argument("digits", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--most", type=int, help="no more digits than this")
    arguments = parser.parse_args()
    try:
        with gzip.open(arguments.digits, "rt") as file:
            records = [record(line) for line in file.read().split()[:arguments.most]]
    except (OSError, EOFError, ValueError) as error:
        sys.exit(f"digits_as_cifar.py: {arguments.digits} is not digits.csv.gz of scikit-learn: {error}")
    train = [record for i, record in enumerate(records) if i % 5 != 4]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for i in range(5):
        (arguments.folder / f"data_batch_{i + 1}.bin").write_bytes(b"".join(train[i::5]))
    (arguments.folder / "test_batch.bin").write_bytes(b"".join(records[4::5]))
    print(f"wrote {len(train)} images to train on and {len(records) - len(train)} to test on into {arguments.folder}")


if __name__ == "__main__":
    main()
