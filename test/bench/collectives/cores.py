"""Whether the machine's cores are as near to each other as they were.

The host of a virtual machine moves its cores about: now they share a cache, and seconds later none. Then a line takes
six times as long from one to another, and so does whatever ranks exchange. Programs that are compared must not have
been measured one so and one so."""
import subprocess
import time


class Cores:
    PATIENCE, TRIES, FAR = 30, 4, 2  # seconds, measurements, times the least time that a line took

    def __init__(self, program, settle=5):
        self.program, self.least = program, float("inf")
        self.measured = self.again = self.far = 0  # since the last text()
        deadline = time.monotonic() + settle  # what this machine can do, if it's far apart just now
        while time.monotonic() < deadline:
            self.are_near()
            time.sleep(.2)

    def are_near(self):
        ns = float(subprocess.run([self.program], check=True, capture_output=True, text=True, timeout=60).stdout)
        self.least = min(self.least, ns)
        return ns <= self.FAR * self.least

    def wait(self):
        deadline = time.monotonic() + self.PATIENCE
        while not self.are_near() and time.monotonic() < deadline:
            time.sleep(.2)

    def near(self, measure):
        """What measure() returns, of a time at whose ends the cores were near; after some tries of any time."""
        self.measured += 1
        for tries in range(self.TRIES):
            self.again += tries > 0
            self.wait()
            found = measure()
            if self.are_near():
                return found
        self.far += 1
        return found

    def text(self):
        """How it went since it was asked last."""
        runs = self.measured + self.again
        said = (f"A cache line takes {self.least:.0f} ns from core to core; {self.again} of {runs} measurements were "
                "replaced, since it took more than twice as long when they ended")
        said += f", and {self.far} were not, all the same." if self.far else "."
        self.measured = self.again = self.far = 0
        return said
