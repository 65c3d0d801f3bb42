"""Stock torchrun agents that meet at the open store of `dtrain rendezvous serve`, in a lab. usage: open_store_test.py
PYTHON [unittest's arguments]; PYTHON has the torch.
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support")]

from lab_case import LabCase, new_token  # noqa: E402

PYTHON = sys.argv.pop(1)
DTRAIN = os.path.join(os.environ["DTRAIN_BIN_DIR"], "dtrain")
DEADLINE = 240
PORT = 29500

# Of both kinds of clients that torch has: what fits, what does not, and that the store is there after it.
QUOTAS = f"""
import sys, datetime, torch.distributed as dist
def client(libuv):
    return dist.TCPStore(sys.argv[1], {PORT}, is_master=False, use_libuv=libuv,
                         timeout=datetime.timedelta(seconds=60))
def fails(action):
    try:
        action()
    except RuntimeError as e:
        return True
holder = client(True)  # when the last client leaves, everything is forgotten
for libuv in (True, False):
    store = client(libuv)
    store.set("kept", "value")
    assert store.compare_set("kept", "value", "other") == b"other"
    assert fails(lambda: (store.set("large", "x" * (2 << 20)), store.get("kept"))), "a value of 2 MiB"
    store = client(libuv)
    assert fails(lambda: [store.set(f"key {{i}}", "") for i in range(101)] and store.get("kept")), "101 keys"
    store = client(libuv)
    assert store.get("kept") == b"other" and not store.check(["large"])
    for i in range(101):
        store.delete_key(f"key {{i}}")
left = client(True)
left.set("left", "")
print("quotas hold")
"""


# Two nodes, 20 steps; no failure: torchrun's own restarts across nodes meet keys of the round before, in its own store.
TRAINS = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    (model(torch.randn(8, 10) + dist.get_rank()) - 1).pow(2).mean().backward()
    optimizer.step()
print("weights", sum(p.sum().item() for p in model.parameters()), flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # see ../torch/ddp_worker.py
"""


class OpenStore(LabCase):
    def setUp(self):
        self.net = self.lab(3)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        token = new_token(DTRAIN, self.folder)
        self.address = self.net.host(0).ipv4
        self.program = os.path.join(self.folder, "trains.py")
        pathlib.Path(self.program).write_text(TRAINS)
        self.log = os.path.join(self.folder, "server")
        with open(self.log, "w") as log:
            self.server = self.net.host(0).popen(
                [DTRAIN, "rendezvous", "serve", "--token-file", token, "--open-store", f"{self.address}:{PORT}",
                 "--max-store-mib", "1", "--max-store-keys", "100"], stderr=log)

        self.addCleanup(self.server.wait, 60)
        self.addCleanup(self.server.kill)

    def said(self):
        return pathlib.Path(self.log).read_text()

    def keys(self):
        with socket.create_connection((self.address, PORT), 60) as client:
            client.sendall(b"\0\xce\xf7\x85\x3c\x07")  # VALIDATE, NUM_KEYS
            return int.from_bytes(client.recv(8, socket.MSG_WAITALL), "little")

    def torchruns(self, job):
        return [host.popen([PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node",
                            "1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                            f"{self.address}:{PORT}", "--rdzv-conf", "is_host=false", "--rdzv-id", job, self.program],
                           env={**os.environ, "PYTHONWARNINGS": "ignore"}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for host in self.net.hosts[1:]]

    def test_torchrun(self):
        quotas = self.net.host(1).run([PYTHON, "-W", "ignore", "-c", QUOTAS, self.address], timeout=DEADLINE)
        self.assertEqual(quotas.stdout, "quotas hold\n", quotas.stderr)
        with self.net.host(1).network():  # the server hears of the end of the last client soon
            end = time.monotonic() + 60
            while self.keys() != 0:
                self.assertLess(time.monotonic(), end, "the store has not forgotten its keys")
        agents = self.torchruns("one")
        said = [agent.communicate(timeout=DEADLINE)[0] for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0, 0], "\n".join(said))
        weights = re.findall(r"weights (\S+)$", "\n".join(said), re.M)
        self.assertEqual(len(weights), 2, said)
        self.assertEqual(len(set(weights)), 1, "the replicas are equal")
        self.server.terminate()
        self.assertEqual(self.server.wait(60), 0, self.said())
        self.assertRegex(self.said(), rf"--open-store: ANYBODY WHO REACHES {re.escape(self.address)}:{PORT} can")
        self.assertRegex(self.said(), r"open store: closed connection \d+: store is full")


if __name__ == "__main__":
    unittest.main()
