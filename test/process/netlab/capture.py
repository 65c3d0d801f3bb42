"""What goes over the wire at a host of the lab, as an eavesdropper has it: frames by AF_PACKET, and the TCP streams in
them."""
import contextlib
import socket
import struct
import threading

EVERYTHING = 0x0003  # ETH_P_ALL
IPV4, TCP = 0x0800, 6


class Capture:
    """`with Capture(host) as seen:` every frame at its eth0, both ways; .frames and .streams() when it has ended."""

    def __init__(self, host):
        with host.network():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        self.socket.bind(("eth0", EVERYTHING))
        self.socket.settimeout(0.2)
        self.frames, self.over = [], False
        self.reader = threading.Thread(target=self.read)

    def __enter__(self):
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.reader.join()
        self.socket.close()

    def read(self):
        while not self.over:
            with contextlib.suppress(TimeoutError):
                self.frames.append(self.socket.recv(1 << 17))

    def streams(self):
        """{(source, port, destination, port): all bytes that went that way}, in order, of whole streams."""
        pieces = {}
        for frame in self.frames:
            packet = tcp_of(frame)
            if packet:
                flow, flags, sequence, payload = packet
                pieces.setdefault(flow, {})
                if flags & 2:  # SYN: the first byte has the next number
                    pieces[flow]["begin"] = (sequence + 1) & 0xFFFFFFFF
                if payload:
                    pieces[flow][sequence] = max(payload, pieces[flow].get(sequence, b""), key=len)
        return {flow: put_together(found) for flow, found in pieces.items() if "begin" in found}


def tcp_of(frame):
    """(flow, flags, sequence number, payload), or nothing."""
    if len(frame) < 34 or struct.unpack_from(">H", frame, 12)[0] != IPV4 or frame[23] != TCP:
        return None
    ip = 14
    header, size = (frame[ip] & 15) * 4, struct.unpack_from(">H", frame, ip + 2)[0]
    tcp = ip + header
    source, destination = (socket.inet_ntoa(frame[ip + at:ip + at + 4]) for at in (12, 16))
    from_port, to_port, sequence = struct.unpack_from(">HHI", frame, tcp)
    offset, flags = (frame[tcp + 12] >> 4) * 4, frame[tcp + 13]
    end = ip + size if size else len(frame)
    return (source, from_port, destination, to_port), flags, sequence, frame[tcp + offset:end]


def put_together(found):
    begin = found.pop("begin")
    stream = bytearray()
    for distance, payload in sorted(((at - begin) & 0xFFFFFFFF, payload) for at, payload in found.items()):
        if distance > len(stream):
            break  # a hole
        stream[distance:] = payload if distance + len(payload) > len(stream) else stream[distance:]
    return bytes(stream)
