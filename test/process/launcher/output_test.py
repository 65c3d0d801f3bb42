"""What workers write arrives: whole lines with their prefix, every byte, in files and on the console."""
import glob
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import *


def text_of(job, rank):
    """The bytes that the console showed for one rank, without the prefixes."""
    prefix = b"[%d] " % rank
    return b"".join(line[len(prefix):] for line in job.output.splitlines(keepends=True) if line.startswith(prefix))


def python(code):
    return ["--no-python", sys.executable, "-c", code]


class Lines(ProcessTest):
    def test_lines_are_whole_and_prefixed(self):
        job = self.assert_run(0, "--nproc", 8, "sh", "-c",
                              'i=0; while [ $i -lt 300 ]; do echo "$RANK line $i of many"; i=$((i+1)); done')
        lines = job.output.splitlines()
        self.assertEqual(len(lines), 8 * 300)
        for line in lines:
            self.assertRegex(line, rb"^\[(\d)\] \1 line \d+ of many$")
        for rank in range(8):
            numbers = [int(x) for x in re.findall(rb"line (\d+)", text_of(job, rank))]
            self.assertEqual(numbers, list(range(300)))

    def test_pieces_of_lines_are_put_together(self):
        code = ("import os\nfor i in range(200):\n for c in b'abcdefghij': os.write(1, bytes([c]))\n"
                " os.write(1, b'\\n')")
        job = self.assert_run(0, "--nproc", 3, *python(code))
        self.assertEqual(sorted(job.output.splitlines()), sorted([b"[%d] abcdefghij" % r for r in range(3)] * 200))

    def test_a_worker_that_had_to_wait_for_another_s_long_line_goes_on(self):
        # Rank 1 writes until dtrain no longer reads, because rank 0 is within a long line; rank 0 ends the line, and
        # then waits for rank 1.
        code = """
import fcntl, os, select, sys, time
folder, rank = sys.argv[1], int(os.environ["RANK"])
def wait_for(name, meanwhile=lambda: None):
    for _ in range(600):
        if os.path.exists(f"{folder}/{name}"): return
        meanwhile()
        select.select([], [], [], 0.05)
    sys.exit(f"no {name}")
if rank == 0:
    os.write(1, b"x" * 100_000)
    wait_for("paused", lambda: os.write(1, b"x"))
    os.write(1, b"\\n")
    wait_for("done")
else:
    flags = fcntl.fcntl(1, fcntl.F_GETFL)
    fcntl.fcntl(1, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    while select.select([], [1], [], 0.5)[1]: os.write(1, (b"y" * 63 + b"\\n") * 32)
    open(f"{folder}/paused", "w").close()
    fcntl.fcntl(1, fcntl.F_SETFL, flags)
    for _ in range(32): os.write(1, (b"y" * 63 + b"\\n") * 2048)
    open(f"{folder}/done", "w").close()
"""
        with tempfile.TemporaryDirectory() as folder:
            job = self.assert_run(0, "--nproc", 2, *python(code), folder)
        self.assertGreater(text_of(job, 1).count(b"y" * 63 + b"\n"), 32 * 2048)

    def test_no_final_newline(self):
        job = self.assert_run(0, "--nproc", 2, "printf", "x\ny")
        self.assertEqual(sorted(job.output.splitlines()), [b"[0] x", b"[0] y", b"[1] x", b"[1] y"])

    def test_both_streams_go_their_ways(self):
        job = self.assert_run(0, "--nproc", 2, "--quiet", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual(sorted(job.output.splitlines()), [b"[0] out", b"[1] out"])
        self.assertEqual(sorted(x for x in job.said.splitlines() if x.endswith("err")), ["[0] err", "[1] err"])

    def test_carriage_returns_are_shown_as_they_come(self):
        code = ("import os, signal\nfor i in range(3): os.write(1, b'\\r%d%%' % i)\n"
                "os.write(1, b'\\rdone\\n'); signal.pause()")
        with Job("--failure-grace", 0, *python(code)) as job:
            job.expect(rb"done\n")  # while the worker still runs
            self.assertRegex(job.output, rb"0%\r[^\n]*1%\r[^\n]*2%\r[^\n]*done\n")
            job.signal(signal.SIGTERM)
            job.wait()

    def test_grandchild_speaks_after_the_death_of_the_worker(self):
        script = ("mkfifo $TMPDIR/go; (trap '' TERM; echo > $TMPDIR/go; sleep 0.3; echo late) & read x < $TMPDIR/go; "
                  "rm $TMPDIR/go; echo early")
        job = self.assert_run(0, "sh", "-c", script)
        self.assertEqual(job.output, b"[0] early\n[0] late\n")

    def test_every_byte_value_arrives(self):
        code = "import os\nos.write(1, bytes(range(256)) + b'\\n')\nos.write(1, b'\\0' * 10 + b'\\xff\\xfe\\n')"
        job = self.assert_run(0, "--nproc", 1, "-t", "3", "--log-dir", "/dev/null", *python(code))
        shown = job.output.replace(b"[0] ", b"")
        self.assertEqual(shown, bytes(range(256)) + b"\n" + b"\0" * 10 + b"\xff\xfe\n")

    def test_512_workers(self):
        job = self.assert_run(0, "--nproc", 512, "sh", "-c", "echo $RANK; echo $RANK >&2", timeout=60 * SLOW)
        self.assertEqual(sorted(job.output.splitlines()), sorted(b"[%d] %d" % (r, r) for r in range(512)))


class Volume(ProcessTest):
    def test_line_of_100_megabytes(self):
        size = 100_000_000
        code = (f"import os\nblock = b'0123456789' * 10000\nfor i in range({size} // 100000):\n"
                " v = memoryview(block)\n while v: v = v[os.write(1, v):]\nos.write(1, b'\\n')")
        with Job(*python(code), stdout=subprocess.PIPE) as job:
            fd, total, peak, digest = job.process.stdout.fileno(), 0, 0, hashlib.sha256()
            while True:
                chunk = os.read(fd, 1 << 20)
                if not chunk:
                    break
                total += len(chunk)
                digest.update(chunk)
                if job.agent is None:
                    job.find_processes()
                peak = max(peak, status_of(job.agent, "VmRSS"))
            self.assertEqual(job.process.wait(DEADLINE), 0)
        expected = hashlib.sha256(b"[0] ")
        for _ in range(size // 100000):
            expected.update(b"0123456789" * 10000)
        expected.update(b"\n")
        self.assertEqual(total, size + 5)
        print(f"agent's peak with a line of 100 MB: {peak / 1024:.1f} MiB resident")
        if SLOW == 1:  # a sanitizer's own memory is not ours
            self.assertLess(peak, 64 * 1024)
        self.assertEqual(digest.hexdigest(), expected.hexdigest())

    def test_sums_of_eight_workers_agree_at_every_place(self):
        code = """
import hashlib, os, random
rank = int(os.environ['RANK'])
out, err = random.Random(rank), random.Random(-rank - 1)
sums = {1: hashlib.sha256(), 2: hashlib.sha256()}
for i in range(400):
    for fd, rnd in ((1, out), (2, err)):
        data = bytes(rnd.choices(range(33, 127), k=rnd.randrange(200))) + b'\\n'
        data = data * 40
        sums[fd].update(data)
        while data: data = data[os.write(fd, data):]
open(os.environ['SUMS'] + '/' + str(rank), 'w').write(sums[1].hexdigest() + ' ' + sums[2].hexdigest())
"""
        with tempfile.TemporaryDirectory() as folder:
            logs, sums = os.path.join(folder, "logs"), os.path.join(folder, "sums")
            os.mkdir(sums)
            with Job("--nproc", 8, "-t", 3, "--log-dir", logs, "--quiet", "--color", "never", *python(code),
                     env={"SUMS": sums}) as job:
                self.assertEqual(job.wait(120 * SLOW), 0)
                said = contents(job.errors.name)
            for rank in range(8):
                out, err = contents(os.path.join(sums, str(rank))).decode().split()
                prefix = b"[%d] " % rank
                for stream, text, want in (("stdout", job.output, out), ("stderr", said, err)):
                    shown = b"".join(x[4:] for x in text.splitlines(keepends=True) if x.startswith(prefix))
                    self.assertEqual(hashlib.sha256(shown).hexdigest(), want, f"console, rank {rank}, {stream}")
                    files = glob.glob(f"{logs}/{job.tag}_*/attempt_0/{rank}/{stream}.log")
                    self.assertEqual(len(files), 1)
                    self.assertEqual(hashlib.sha256(contents(files[0])).hexdigest(), want,
                                     f"file, rank {rank}, {stream}")

    def test_redirected_output_is_not_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.assert_run(0, "--nproc", 2, "-r", "0:1,1:3", "--log-dir", folder,
                                  "sh", "-c", "echo out; echo err >&2")
            self.assertEqual(job.output, b"")
            self.assertIn("[0] err", job.said)
            self.assertNotIn("[1] err", job.said)
            files = sorted(os.path.relpath(p, folder).split("/", 1)[1] for p in glob.glob(f"{folder}/*/*/*/*.log"))
        self.assertEqual(files, ["attempt_0/0/stdout.log", "attempt_0/1/stderr.log", "attempt_0/1/stdout.log"])


# Writes 10 bytes at a time, N lines.
WRITER = ["sh", "-c", 'yes 123456789 | head -n $LINES; echo done >&2']


class Readers(ProcessTest):
    """The one who reads dtrain's output goes away, is slow, or cannot write."""

    def lost(self, said):
        pattern = r"rank 0: (\d+) bytes \((\d+) lines\) of stdout were not written"
        return [(int(b), int(n)) for b, n in re.findall(pattern, said)]

    def test_slow_reader_does_not_keep_a_restart(self):
        # What the console's queue and a pipe hold, at 0.6 MB/s: the first round's output is read long after its end.
        script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] ||" \
                 " { head -c 16900000 /dev/zero | tr '\\0' x; exit 5; }; echo round 2"
        with Job("--max-restarts", 1, "sh", "-c", script) as job:
            out = job.process.stdout.fileno()
            while "restart 1 of 1" not in job.stderr():
                job.output += os.read(out, 1 << 17)
                time.sleep(0.1)  # tidy: allow sleep, because a slow reader is what is tested
            self.assertEqual(job.wait(), 0)
            self.assertEqual(job.output.count(b"x"), 16900000)
            self.assertIn(b"round 2\n", job.output)
            self.assert_gone(job)

    def test_reader_that_leaves(self):
        lines = 100_000
        with Job(*WRITER, env={"LINES": str(lines)}, stdout=subprocess.PIPE) as job:
            kept = b""
            while len(kept) < 1000:
                kept += os.read(job.process.stdout.fileno(), 1000)
            job.process.stdout.close()
            job.process.stdout = None
            self.assertEqual(job.wait(), 0)
            said = job.stderr()
        self.assertIn("[0] done", said)
        ((lost, lost_lines),) = self.lost(said)
        # What was in the pipe when it closed went to nobody either, but it was written.
        self.assertLess(lost, lines * 10)
        self.assertGreater(lost, 0)
        self.assertLess(lost_lines * 10 - lost, 10)  # the first of them may have been torn

    def test_head_in_a_pipeline(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"{DTRAIN} run --nproc 2 {HOSTILE} plain exit:6 | head -1; echo ${{PIPESTATUS[0]}}"
            done = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=DEADLINE, env={**os.environ, "TMPDIR": folder})
        self.assertIn(done.stdout.splitlines()[-1], (b"6",), done)

    def test_reader_that_sleeps_gets_everything(self):
        lines = 30_000
        with Job(*WRITER, env={"LINES": str(lines)}, stdout=subprocess.PIPE) as job:
            total = 0
            fd = job.process.stdout.fileno()
            for turn in range(10):
                total += len(os.read(fd, 4096))
                time.sleep(0.05)  # tidy: allow sleep, because a slow reader is what is tested
            total += len(b"".join(iter(lambda: os.read(fd, 1 << 16), b"")))
            self.assertEqual(job.wait(), 0)
            self.assertEqual(total, lines * 14)
            self.assertEqual(self.lost(job.stderr()), [])

    def test_reader_that_never_reads_does_not_stop_the_job(self):
        lines = 4_000_000
        with Job(*WRITER, env={"LINES": str(lines)}, stdout=subprocess.PIPE) as job:
            until(lambda: "[0] done" in job.stderr(), 60 * SLOW, "the end of a worker whose output nobody reads")
            fd = job.process.stdout.fileno()
            got = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
            self.assertEqual(job.wait(), 0)
            lost = sum(b for b, _ in self.lost(job.stderr()))
        self.assertEqual(lost + len(got.replace(b"[0] ", b"")), lines * 10, (got[:50], got[-50:]))
        self.assertGreater(lost, 0)

    def test_full_device(self):
        with open("/dev/full", "wb") as full:
            job = self.assert_run(4, "sh", "-c", "yes 123456789 | head -n 5000; exit 4", stdout=full)
        self.assertEqual(self.lost(job.said), [(50000, 5000)])
        self.assertIn("No space left on device", job.said)

    @needs_root
    def test_full_disk_is_counted_to_the_byte(self):
        lines = 300_000
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
            try:
                job = self.assert_run(0, "--nproc", 2, "-t", 1, "--log-dir", folder, *WRITER, env={"LINES": str(lines)})
                written = {int(p.split("/")[-2]): os.path.getsize(p) for p in glob.glob(f"{folder}/*/*/*/stdout.log")}
            finally:
                subprocess.run(["umount", folder], check=True)
        self.assertEqual(job.output.count(b"123456789\n"), 2 * lines, "the console is not the disk")
        for rank in (0, 1):
            pattern = rf"rank {rank}: (\d+) bytes \(\d+ lines\) of stdout were not written to {folder}.*No space"
            lost = re.findall(pattern, job.said)
            self.assertEqual(sum(map(int, lost)) + written[rank], lines * 10, job.said)

    def test_loss_to_stderr_that_is_closed_ends_the_job_as_ever(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([DTRAIN, "run", "--nproc", "2", "sh", "-c", "echo lost >&2; exit 8"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer, timeout=DEADLINE)
        os.close(writer)
        self.assertEqual(done.returncode, 8)


if __name__ == "__main__":
    unittest.main()
