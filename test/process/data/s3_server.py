"""A real S3 server for a test, moto's, and what may go wrong between it and a program: a relay on TCP."""
import contextlib
import functools
import os
import pathlib
import re
import selectors
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from store_files import StoreFiles

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE_S = 60
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "open sesame"}


PUT = """
import ssl, sys, urllib.request
asked = urllib.request.Request(sys.argv[1], method="PUT")
urllib.request.urlopen(asked, context=ssl._create_unverified_context()).close()
"""


class S3Server(StoreFiles):
    """One for a test class: .url, .env, .files (pyarrow's way to it), .requests(). `popen` starts it, e.g. on a host of
    a lab. `tls`: its Certificate."""
    scheme = "s3"

    def __init__(self, bucket, popen=subprocess.Popen, tls=None):
        self.process = popen(
            [ROOT / ".venv-test/bin/python", "-B", "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0",
             *(("-c", tls.certificate, "-k", tls.key) if tls else ())],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"Running on https?://127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise RuntimeError("moto's server does not start")
        self.port = int(found[1])
        self.tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.lines, self.came, self.marks = [], threading.Condition(), 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.env = {**KEYS, "AWS_ENDPOINT_URL": self.url}
        self.bucket = bucket
        if popen([sys.executable, "-c", PUT, f"{self.url}/{bucket}"]).wait(DEADLINE_S) != 0:
            self.close()
            raise RuntimeError("moto makes no bucket")

    @functools.cached_property
    def files(self):
        import pyarrow.fs  # not all tests have it
        trust = {"tls_ca_file_path": str(self.tls.certificate)} if self.tls else {}
        return pyarrow.fs.S3FileSystem(
            access_key=KEYS["AWS_ACCESS_KEY_ID"], secret_key=KEYS["AWS_SECRET_ACCESS_KEY"], region="us-east-1",
            endpoint_override=f"127.0.0.1:{self.port}", scheme=self.url.partition(":")[0], **trust)

    def _read(self):
        for line in self.process.stderr:
            with self.came:
                self.lines.append(re.sub(r"\x1b\[[0-9;]*m", "", line))
                self.came.notify_all()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def reset_auth(self, requests):
        """After so many requests moto asks who it is, and knows nobody."""
        told = urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=str(requests).encode(),
                                      headers={"Content-Type": "text/plain"})
        with urllib.request.urlopen(told, timeout=DEADLINE_S) as answer:
            answer.read()

    def requests(self):
        """What came since the last call: "GET /bucket/key". All of it is there when a last request is, this one."""
        self.marks += 1
        mark = f"/moto-api/seen-{self.marks} "
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(self.url + mark.strip(), timeout=DEADLINE_S).close()
        with self.came:
            if not self.came.wait_for(lambda: any(mark in line for line in self.lines), DEADLINE_S):
                raise TimeoutError("moto does not log what it is asked")
            lines, self.lines = self.lines, []
        return [found[1] for line in lines if mark not in line and (found := re.search(r'"([A-Z]+ \S+) HTTP', line))]


class Certificate:
    """One that signs itself, for 127.0.0.1: .certificate and .key are its files."""

    def __init__(self, folder):
        self.certificate, self.key = pathlib.Path(folder, "cert.pem"), pathlib.Path(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.key, "-out", self.certificate], check=True, capture_output=True,
                       timeout=DEADLINE_S)


class Relay:
    """Passes on what comes, until told otherwise: .break_after(bytes) cuts answers there, .hold() keeps them, and
    .stop_after(bytes) is about what is sent."""

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.limit = None
        self.cut = 0
        self.answering = True
        self.asked, self.most, self.ends = 0, None, False
        self.stands = threading.Event()
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def break_after(self, limit, answers=1 << 30):
        """The next `answers` answers that are longer than this."""
        self.limit, self.cut = limit, answers

    def hold(self):
        self.answering = False

    def stop_after(self, most, cut):
        """Once so many bytes were sent, all connections are cut (`cut`), or stand still and .stands is set."""
        self.most, self.ends = most, cut

    def close(self):
        os.write(self.stop_write, b"x")
        self.thread.join()
        for each in (self.stop_read, self.stop_write):
            os.close(each)

    def _run(self):
        with selectors.DefaultSelector() as ready, contextlib.ExitStack() as opened:
            opened.enter_context(self.listener)
            ready.register(self.stop_read, selectors.EVENT_READ, None)
            ready.register(self.listener, selectors.EVENT_READ, None)
            passed = {}  # bytes of an answer so far, by its connection
            while True:
                for key, _ in ready.select():
                    if key.fd == self.stop_read:
                        return
                    if key.fileobj is self.listener:
                        near, _ = self.listener.accept()
                        if self.ends and self.asked > self.most:
                            near.close()
                            continue
                        far = socket.create_connection(self.target)
                        for one, other, answers in ((near, far, False), (far, near, True)):
                            opened.enter_context(one)
                            ready.register(one, selectors.EVENT_READ, (other, answers))
                        continue
                    other, answers = key.data
                    if key.fileobj.fileno() < 0:  # closed just now, with the other end
                        continue
                    try:
                        data = key.fileobj.recv(65536)
                    except OSError:
                        data = b""
                    if answers and not self.answering:
                        continue
                    self.asked += 0 if answers else len(data)
                    if self.most is not None and self.asked > self.most:
                        self.stands.set()
                        if data and not self.ends:
                            continue
                        data = b""
                    passed[key.fileobj] = passed.get(key.fileobj, 0) + len(data)
                    if not answers:
                        passed[other] = 0
                    broken = answers and self.limit is not None and self.cut > 0 and passed[key.fileobj] > self.limit
                    if broken:
                        self.cut -= 1
                        data = data[:self.limit]
                    with contextlib.suppress(OSError):
                        other.sendall(data)
                    if not data or broken:
                        for each in (key.fileobj, other):
                            with contextlib.suppress(KeyError):
                                ready.unregister(each)
                            each.close()
