#!/usr/bin/env python3
"""dtrain.run() in real notebooks. The Python of .venv-peers takes over: it has torch, Jupyter's kernel and nbclient."""
import os
import pathlib
import sys
import tempfile
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[3] / ".venv-peers"
if not PEERS.exists():
    print("SKIP: no .venv-peers: scripts/setup.sh peers")
    sys.exit(77)
if os.environ.setdefault("DTRAIN_TEST_PYTHON", "") != str(PEERS):
    os.environ["DTRAIN_TEST_PYTHON"] = str(PEERS)
    os.execv(PEERS / "bin/python", [str(PEERS / "bin/python"), *sys.argv])

import nbclient  # noqa: E402
import nbformat  # noqa: E402
from jupyter_client.manager import KernelManager  # noqa: E402
from nbformat.v4 import new_code_cell, new_notebook  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support_python import environment  # noqa: E402
from support import pids, proc_file, until  # noqa: E402

DEADLINE = 120
TRAIN = """import os, signal, dtrain
from dtrain.spark import TorchDistributor

def train(a):
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
    return 2 * a

def fails():
    raise ValueError("no luck")

def waits(path):
    print("started", flush=True)
    open(path).read()

def is_stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("started", flush=True)
    signal.pause()
"""
CALLS = "dtrain.run(train, 4, nproc=2)", """try:
    dtrain.run(fails, nproc=2)
except ValueError as error:
    print("raised", error, "| rank" in f"| {error.__cause__}".replace("\\n", ""))
""", "TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(train, 5)"


def streams(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


class Notebook(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="dtrain-notebook-"))
        self.mark = f"DTRAIN_TEST_JOB={os.path.basename(self.folder)}"
        # A kernel has the environment of who starts it.
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(environment(**dict([self.mark.split("=")]), TMPDIR=self.folder, IPYTHONDIR=self.folder))

    def ranks(self):
        def is_rank(variables):
            return self.mark.encode() in variables and any(each.startswith(b"LOCAL_RANK=") for each in variables)
        return [pid for pid in pids() if is_rank(proc_file(pid, "environ").split(b"\0"))]

    def test_a_notebook_is_executed(self):
        path = os.path.join(self.folder, "job.ipynb")
        nbformat.write(new_notebook(cells=[new_code_cell(text) for text in (TRAIN, *CALLS)]), path)
        notebook = nbformat.read(path, 4)
        nbclient.NotebookClient(notebook, timeout=DEADLINE, resources={"metadata": {"path": self.folder}}).execute()
        _, value, error, distributor = notebook.cells
        self.assertEqual([cell.outputs[-1].data["text/plain"] for cell in (value, distributor)], ["8", "10"])
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2\n", streams(value))
        self.assertIn("raised no luck True\n", streams(error))

    def kernel(self):
        manager = KernelManager()
        manager.start_kernel(cwd=self.folder)
        self.addCleanup(manager.shutdown_kernel, now=True)
        client = manager.blocking_client()
        client.start_channels()
        self.addCleanup(client.stop_channels)
        client.wait_for_ready(timeout=DEADLINE)
        client.execute_interactive(TRAIN, timeout=DEADLINE, output_hook=lambda _: None)
        return manager, client

    def shown(self, client, text):
        """Until the cell that runs has shown the text."""
        said = ""
        while text not in said:
            message = client.get_iopub_msg(timeout=DEADLINE)
            said += message["content"].get("text", "")

    def test_output_comes_while_the_cell_runs(self):
        _, client = self.kernel()
        gate = os.path.join(self.folder, "gate")
        os.mkfifo(gate)
        request = client.execute(f"dtrain.run(waits, {gate!r}, nproc=1)")
        self.shown(client, "started")
        pathlib.Path(gate).write_text("")  # the rank ends after this alone
        reply = client.get_shell_msg(timeout=DEADLINE)
        self.assertEqual((reply["parent_header"]["msg_id"], reply["content"]["status"]), (request, "ok"))

    def test_the_notebooks_stop_leaves_nothing_running(self):
        manager, client = self.kernel()
        client.execute("dtrain.run(is_stubborn, nproc=2)")
        self.shown(client, "started")
        self.assertNotEqual(self.ranks(), [])
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=DEADLINE)["content"]
        self.assertEqual((reply["status"], reply["ename"]), ("error", "KeyboardInterrupt"))
        until(lambda: not self.ranks(), 20, "the end of the ranks")
        client.execute_interactive("after = dtrain.run(train, 1, nproc=1)", timeout=DEADLINE,
                                   output_hook=lambda _: None)


if __name__ == "__main__":
    unittest.main()
