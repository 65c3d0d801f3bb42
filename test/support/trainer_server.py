"""A server of the kind that Kubeflow Trainer has for the status of its jobs: HTTPS, with a certificate of an authority
of its own, and a bearer's token."""
import contextlib
import http.server
import json
import os
import queue
import re
import ssl
import threading

from lab_case import make_authority, make_certificate

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
SECRET = "a.jwt-of.kubernetes"


class TrainerServer:
    """Takes posts. `answers`: the codes of its first answers; then 200."""

    def __init__(self, folder, answers=()):
        self.folder, self.posts = folder, queue.Queue()
        answers = list(answers)
        posts = self.posts

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.put((self.path, self.headers["Authorization"], json.loads(body)["trainerStatus"]))
                # As the server's schema has it: one metric that does not fit, and the status is refused.
                fits = all(0 < len(each[key]) <= 64 for each in json.loads(body)["trainerStatus"]["metrics"]
                           for key in ("name", "value"))
                self.send_response(answers.pop(0) if answers else 200 if fits else 422)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"no")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "server.pem"), os.path.join(folder, "server.key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}{PATH}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def all_posts(self):
        """What has come, by the names of the metrics; the job is over."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                path, token, status = self.posts.get_nowait()
                assert (path, token) == (PATH, f"Bearer {SECRET}"), (path, token)
                told = {each["name"]: each["value"] for each in status.pop("metrics")}
                when = status.pop("lastUpdatedTime")
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)", when), when
                found.append({**told, **status})
        return found

    def variables(self, ca="authority.pem", token="token"):
        """Of a pod."""
        return variables(self.folder, self.url, ca, token)


def variables(folder, url, ca="authority.pem", token="token"):
    return {"KUBEFLOW_TRAINER_SERVER_URL": url, "KUBEFLOW_TRAINER_SERVER_CA_CERT": os.path.join(folder, ca),
            "KUBEFLOW_TRAINER_SERVER_TOKEN": os.path.join(folder, token)}


def make_credentials(folder):
    """Of the server and for its clients; stranger.pem is of another authority."""
    for authority in "authority", "stranger":
        make_authority(folder, authority)
    make_certificate(folder, "server", "authority", "/CN=trainer", "subjectAltName=IP:127.0.0.1\n")
    with open(os.path.join(folder, "token"), "w") as token:
        token.write(SECRET + "\n")
