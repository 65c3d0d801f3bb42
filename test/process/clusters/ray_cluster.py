"""A Ray cluster on this host, in processes of its own."""
import json
import os
import pathlib
import signal
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = str(HERE.parents[2] / ".venv-ray/bin/python")
DATA = str(next((HERE.parents[2] / ".venv-spark/lib").iterdir()) / "site-packages")  # pandas and pyarrow for Ray Data


class RayCluster:
    def __init__(self, mark):
        """mark: NAME=VALUE, by which all that it starts is known."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment.update([mark.split("=")], PYTHONPATH=DATA)
        self.process = subprocess.Popen([PYTHON, HERE / "ray_nodes.py"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment,
                                        stderr=subprocess.DEVNULL)
        self.address, self.jobs = self.answer().split()

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("the cluster has ended")
        return line

    def wish(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.answer()

    def add(self, **amounts):
        return int(self.wish("add " + json.dumps(amounts)))

    def kill(self, node):
        self.wish(f"kill {node}")

    def settle(self):
        """Until Ray has seen which nodes were killed: it offers them for some seconds."""
        self.wish("settle")

    def raylet(self, node):
        return int(self.wish(f"raylet {node}"))

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
