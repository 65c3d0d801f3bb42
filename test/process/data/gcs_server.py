"""A server of Google's storage API for a test: gcp-storage-emulator's, with a thread for each connection. Its own
server has one thread in all, and a client that holds a half-read answer open would keep the others waiting."""
import os
import pathlib
import subprocess

import pyarrow.fs

from store_files import StoreFiles

ROOT = pathlib.Path(__file__).resolve().parents[3]
SERVER = """
import functools, http.server, os, sys, threading
from gcp_storage_emulator import server
storage = server.Storage(use_memory_fs=True)
server.buckets.create_bucket(sys.argv[1], storage)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # with 5 the kernel drops connections of a reader that asks for many things at once

here = Server(("127.0.0.1", 0), functools.partial(server.RequestHandler, storage))
print(here.server_port, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # it ends with the test
here.serve_forever()
"""


class GcsServer(StoreFiles):
    """One for a test class: .url, .env, .files (pyarrow's way to it)."""
    scheme = "gs"

    def __init__(self, bucket):
        self.process = subprocess.Popen([ROOT / ".venv-test/bin/python", "-B", "-c", SERVER, bucket],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env={"PATH": os.environ["PATH"]})
        port = self.process.stdout.readline().strip()
        if not port:
            raise RuntimeError("the server of Google's storage API does not start")
        self.bucket, self.url = bucket, f"http://127.0.0.1:{port}"
        self.env = {"STORAGE_EMULATOR_HOST": self.url}
        self.files = pyarrow.fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=f"127.0.0.1:{port}")

    def close(self):
        self.process.kill()
        self.process.communicate()

    def names(self, key):
        """Of the objects under a key, without those that stand for folders."""
        listed = self.files.get_file_info(
            pyarrow.fs.FileSelector(f"{self.bucket}/{key}", recursive=True, allow_not_found=True))
        return [each.path.removeprefix(f"{self.bucket}/{key}/") for each in listed if each.is_file]
