"""Whether the machine's cores are as near to each other as they were.

The host of a virtual machine moves its cores about: now they share a cache, and seconds later none. Then a line takes
six times as long from one to another, and so does whatever ranks exchange. Programs that are compared must not have
been measured one so and one so."""
import subprocess
import time


class Cores:
    PATIENCE, TRIES, FAR = 30, 4, 2  # seconds, measurements, times the least time that a line took

    def __init__(self, program, settle=5):
        self.program, self.measured, self.again = program, 0, 0
        self.least = self.handover_ns()
        deadline = time.monotonic() + settle  # what this machine can do, if it's far apart just now
        while time.monotonic() < deadline:
            self.least = min(self.least, self.handover_ns())
            time.sleep(.2)

    def handover_ns(self):
        return float(subprocess.run([self.program], check=True, capture_output=True, text=True, timeout=60).stdout)

    def are_near(self):
        ns = self.handover_ns()
        self.least = min(self.least, ns)
        return ns <= self.FAR * self.least

    def wait(self):
        deadline = time.monotonic() + self.PATIENCE
        while not self.are_near() and time.monotonic() < deadline:
            time.sleep(.2)

    def near(self, measure):
        """What measure() returns, of a time at whose ends the cores were near; after some tries of any time."""
        self.measured += 1
        for _ in range(self.TRIES):
            self.wait()
            found = measure()
            if self.are_near():
                break
            self.again += 1
        return found

    def text(self):
        return (f"A cache line takes {self.least:.0f} ns from core to core; measurements were taken again {self.again} "
                f"times, for {self.measured}, since it took more than twice as long when they ended.")
