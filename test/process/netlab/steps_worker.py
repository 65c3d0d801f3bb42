"""A worker that trains, so to say: each step puts a value into the store, meets the others at a barrier there and reads
the value that rank 0 put there first. Says `step N round R` after each. Arguments: a text for keys, a text for values,
the number of steps (default: no end)."""
import os
import select
import socket
import struct
import sys

SET, GET, BARRIER, MAGIC = 1, 3, 18, b"\x00\xce\xf7\x85\x3c"
key, value, steps = sys.argv[1], sys.argv[2], int((sys.argv + ["1000000000"])[3])
rank, world = os.environ["RANK"], int(os.environ["WORLD_SIZE"])


def text(words):
    return struct.pack("<Q", len(words)) + words.encode()


def read(store, size):
    held = b""
    while len(held) < size and (more := store.recv(size - len(held))):
        held += more
    return held


with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as store:
    store.sendall(MAGIC)
    for step in range(steps):
        store.sendall(bytes([SET]) + text(f"{key}-{step}-{rank}") + text(value))
        store.sendall(bytes([BARRIER]) + text(f"step-{step}") + struct.pack("<q", world))
        if store.recv(1) != b"\0" or select.select([store], [], [], 0.01)[0]:  # a step takes its time
            sys.exit("the store has closed the connection")
        store.sendall(bytes([GET]) + text(f"{key}-0-0"))
        if read(store, 8 + len(value)) != text(value):
            sys.exit("the value in the store has changed")
        print(f"step {step} round {os.environ['DTRAIN_ROUND']}", flush=True)
