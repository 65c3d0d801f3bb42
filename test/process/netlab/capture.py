"""What goes over the wire at a host of the lab, as an eavesdropper has it: captured and read by tshark."""
import os
import pathlib
import signal
import socket
import subprocess

from support import DEADLINE, until


class Capture:
    """`with Capture(host, folder) as seen:` every frame at its eth0, both ways. When it has ended: .bytes, and what
    follows."""

    def __init__(self, host, folder):
        self.host = host
        self.file = pathlib.Path(folder) / "seen.pcapng"

    def __enter__(self):
        self.tshark = self.host.popen(["tshark", "-q", "-p", "-B", "64", "-i", "eth0", "-w", str(self.file)],
                                      stderr=subprocess.PIPE, text=True)
        said = []
        while not (said and "Capture started" in said[-1]):
            said.append(self.tshark.stderr.readline())
            assert said[-1], "".join(said)
        return self

    def __exit__(self, *_):
        # What the kernel holds when tshark is told to end is lost: it has seen all when it has seen what comes last.
        last = os.urandom(16)
        with self.host.network(), socket.socket(type=socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
            out.sendto(last, ("255.255.255.255", 9))
        until(lambda: last in self.file.read_bytes(), DEADLINE, "the end of the capture")
        self.tshark.send_signal(signal.SIGINT)
        _, said = self.tshark.communicate(timeout=DEADLINE)
        assert self.tshark.returncode == 0 and "dropped" not in said, said
        self.bytes = self.file.read_bytes()

    def fields(self, names, *flags):
        """A list of values by name for each frame, of those that `flags` choose."""
        words = ["tshark", "-r", str(self.file), "-T", "fields", *flags]
        for name in names:
            words += ["-e", name]
        said = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout
        return [line.split("\t") for line in said.splitlines()]

    def streams(self):
        """{(source, port, destination, port): all bytes that went that way}, in order, of whole connections."""
        ends = {}
        for stream, *flow in self.fields(["tcp.stream", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport"], "-Y",
                                         "tcp.flags.syn == 1 and tcp.flags.ack == 0 and ip"):
            ends[stream] = (flow[0], int(flow[1]), flow[2], int(flow[3]))
        found = {}
        for stream, flow in ends.items():
            said = subprocess.run(["tshark", "-r", str(self.file), "-q", "-z", f"follow,tcp,raw,{stream}"],
                                  capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
            lines = said.splitlines()
            begin = next(i for i, line in enumerate(lines) if line.startswith("Node 0:"))
            back = flow[2:] + flow[:2]
            first, second = (flow, back) if lines[begin] == "Node 0: {}:{}".format(*flow) else (back, flow)
            for line in lines[begin + 2:-1]:  # what the second one says is indented
                way = second if line.startswith("\t") else first
                found[way] = found.get(way, b"") + bytes.fromhex(line.strip())
        return found
