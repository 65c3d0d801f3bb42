"""Strangers at a port, for attack_test.py: every other one says nothing, the rest now and then a byte of a TLS hello
that never ends. Who is closed comes again. Says `all N` when each has been connected, or `only N: why`.

usage: crowd.py ADDRESS PORT COUNT"""
import errno
import os
import resource
import select
import socket
import sys
import time

TICK = 0.25        # seconds
AGAIN_AT_MOST = 100  # connections in a tick, and so many bytes said: the crowd is many, no flood
HELLO = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(1000)


class Crowd:
    def __init__(self, target, count):
        self.target, self.count = target, count
        self.events, self.peers, self.seen = select.epoll(), {}, set()
        self.said, self.gone = {}, []

    def connect(self, number):
        peer = socket.socket()
        peer.setblocking(False)
        code = peer.connect_ex(self.target)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        self.peers[peer.fileno()] = (number, peer)
        self.events.register(peer, select.EPOLLOUT)

    def turn(self):
        for fd, what in self.events.poll(TICK):
            number, peer = self.peers[fd]
            if what & select.EPOLLOUT and not peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.seen.add(number)
                self.events.modify(fd, select.EPOLLIN)
            else:  # an alert, or it was closed
                peer.close()
                del self.peers[fd]
                self.gone.append(number)

    def tick(self):
        for number in self.gone[:AGAIN_AT_MOST]:
            self.connect(number)
        del self.gone[:AGAIN_AT_MOST]
        slow = [(fd, peer) for fd, (number, peer) in self.peers.items() if number % 2 and number in self.seen]
        for fd, peer in slow[:AGAIN_AT_MOST]:
            at = self.said.get(fd, 0)
            self.said[fd] = at + 1
            try:
                peer.send(HELLO[at % len(HELLO):][:1])
            except OSError:
                pass  # closed meanwhile: an event says so

    def run(self):
        for number in range(self.count):
            self.connect(number)
        next_tick, told = 0.0, False
        while True:
            self.turn()
            if len(self.seen) == self.count and not told:
                told = True
                print(f"all {self.count}", flush=True)
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + TICK
                self.tick()


def main():
    count = int(sys.argv[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd((sys.argv[1], int(sys.argv[2])), count)
    try:
        crowd.run()
    except OSError as error:
        print(f"only {len(crowd.peers)}: {error.strerror}, with `ulimit -n {hard}`", flush=True)


if __name__ == "__main__":
    main()
