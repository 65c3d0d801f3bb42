#!/usr/bin/env python3
"""A free port is free on every address, as a server that binds them all needs it. In a network namespace whose
connections have 64 ports, all but one of them are somebody's on another address of the loopback."""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SCRIPT = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from ports import free_port
with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
    file.write("40000 40063")
others = [socket.socket() for _ in range(63)]
for port, other in enumerate(others, 40000):
    other.bind(("127.0.0.2", port))
print(free_port())
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", 40063))
    server.listen()
"""


@unittest.skipUnless(os.geteuid() == 0, "needs root, for a network namespace")
class Ports(unittest.TestCase):
    def test_a_free_port_is_nobodys_on_any_address(self):
        run = subprocess.run(["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable,
                              "-B", "-c", SCRIPT, ROOT / "test/support"], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.stdout, run.stderr), ("40063\n", ""))


if __name__ == "__main__":
    unittest.main()
