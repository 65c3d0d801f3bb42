"""Runs one command line of the table under one of the launchers, and writes down what could be seen of it."""
import ast
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import notices

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support")]

from ports import free_port  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BIN_DIR = pathlib.Path(os.environ.get("DTRAIN_BIN_DIR", "build/bin")).resolve()
DEADLINE = 120


@dataclasses.dataclass(frozen=True)
class Case:
    """A command line. `says`: what torchrun's and dtrain's refusal must match, for those that are refused."""
    name: str
    args: str
    do: str = ""                  # PROBE_DO, see probe.py
    env: tuple = ()               # pairs
    says: tuple = ()
    legacy: bool = False          # torch.distributed.launch and `dtrain launch`
    send: str = ""                # a signal for the launcher when all workers are ready
    workers: int = 1              # how many must be ready for that
    stdin: str = ""
    versions: str = "2.11 2.15"   # torch's versions that know the flags
    real: bool = False            # also under a torchrun started afresh, to check the peer server
    orphans: bool = False         # torchrun leaves workers behind, every time
    agents: tuple = ()            # of several agents of one job: what each adds to args, which name a `<port>`


class Server:
    """A peer.py."""

    def __init__(self, folder, name, python, *words):
        self.socket = str(folder / name)
        with open(f"{self.socket}.stderr", "w") as errors:
            self.process = subprocess.Popen([python, "-W", "ignore", HERE / "peer.py", self.socket, *words],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = self.process.stdout.readline()
        if not line:
            said = pathlib.Path(f"{self.socket}.stderr").read_text()[-2000:]
            raise AssertionError("peer.py did not start: " + said)
        self.about = json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(DEADLINE)
        self.process.stdout.close()

    def start(self, request):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(DEADLINE)
        connection.connect(self.socket)
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile()
        return int(answers.readline()), connection, answers


class Peer:
    """Starts torchrun and dtrain, and has the folder where all cases put their files."""

    def __init__(self, python):
        self.python = os.path.abspath(python)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-compare-"))
        self.torch = Server(self.folder, "torch.peer", self.python)
        self.plain = Server(self.folder, "plain.peer", self.python, "plain")
        self.version = ".".join(self.torch.about["version"].split(".")[:2])
        self.network = self.plain.about["network"]

    def close(self):
        self.torch.close()
        self.plain.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, request):
        return (self.plain if request["how"] == "exec" else self.torch).start(request)


def start_of(side, case, python):
    """What peer.py has to start: (how, argv)."""
    words = shlex.split(case.args)
    if side == "peer":
        return ("launch", ["launch.py", *words]) if case.legacy else ("run", ["torchrun", *words])
    if side == "real":
        script = ["-m", "torch.distributed.launch"] if case.legacy else [f"{os.path.dirname(python)}/torchrun"]
        return "exec", [python, *script, *words]
    if side == "torchrun":
        return "exec", [str(BIN_DIR / "torchrun"), *words]
    return "exec", [str(BIN_DIR / "dtrain"), "launch" if case.legacy else "run", *words]


def environment(case, root, python):
    bin_dir = os.path.dirname(python)
    env = {"PATH": f"{bin_dir}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": f"{root}/home", "TMPDIR": f"{root}/tmp",
           "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", "TERM": "dumb",
           "COLUMNS": "200", "USER": "someone", "PROBE_DIR": f"{root}/probe", "PROBE_DO": case.do}
    env.update({name: value.replace("<root>", root) for name, value in case.env})
    return env


def prepare(root, case):
    for name in ("cwd", "home", "tmp", "probe"):
        (root / name).mkdir(parents=True)
    shutil.copy(HERE / "probe.py", root / "cwd")
    os.symlink("probe.py", root / "cwd" / "probe")
    package = root / "cwd" / "folder"
    package.mkdir()
    os.symlink("../probe.py", package / "__main__.py")
    (root / "cwd" / "plain").write_text((HERE / "probe.py").read_text().partition("\n")[2])  # without its #! line
    (root / "cwd" / "file").write_text("a file\n")
    (root / "stdin").write_text(case.stdin)


def wait_ready(root, case):
    end = time.monotonic() + DEADLINE
    while len(list((root / "probe").glob("ready.*"))) < case.workers:
        if time.monotonic() > end:
            raise AssertionError(f"{case.name}: the workers were not ready within {DEADLINE} s")
        time.sleep(0.01)  # tidy: allow sleep, because a folder sends no events; the deadline is above


def launchers(peer, side, case, root):
    """The requests to start the case: one for each agent of the job. They share folders and output."""
    port = free_port() if case.agents else 0
    for more in case.agents or [""]:
        how, argv = start_of(side, dataclasses.replace(case, args=f"{more} {case.args}"), peer.python)
        yield {"how": how, "argv": [word.replace("<root>", str(root)).replace("<port>", str(port)) for word in argv],
               "cwd": str(root / "cwd"), "env": environment(case, str(root), peer.python),
               "network": peer.network and not case.agents,
               "stdin": str(root / "stdin"), "stdout": str(root / "stdout"), "stderr": str(root / "stderr")}


def end_left(found):
    """How many of the workers the launcher has left behind; they are ended."""
    left = 0
    for worker in found.values():
        try:
            watch = os.pidfd_open(worker["pid"])
        except ProcessLookupError:
            continue
        with open(watch, "rb", closefd=True):
            if select.select([watch], [], [], 0)[0]:
                continue  # ended, but not yet waited for
            left += 1
            signal.pidfd_send_signal(watch, signal.SIGKILL)
            select.select([watch], [], [], DEADLINE)
    return left


def run(peer, side, case):
    """Run the case on one side: "peer" (a forked torchrun), "real" (torchrun), "torchrun" (dtrain by that name), "run".
    """
    root = peer.folder / case.name / side
    prepare(root, case)
    started = [peer.start(request) for request in launchers(peer, side, case, root)]
    codes = []
    with contextlib.ExitStack() as stack:
        for _, connection, answers in started:
            stack.enter_context(connection)
            stack.enter_context(answers)
        try:
            if case.send:
                wait_ready(root, case)
                os.kill(started[0][0], getattr(signal, "SIG" + case.send))
            for _, _, answers in started:
                code = os.waitstatus_to_exitcode(int(answers.readline()))
                codes.append(code if code >= 0 else 128 - code)
        except (TimeoutError, ValueError, AssertionError) as error:
            said = (root / "stderr").read_text(errors="replace")[-2000:]
            for pid, _, _ in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{case.name} as {side} did not end: {error}; it said {said}") from None
    seen = observe(root, case, codes, peer.python)
    shutil.rmtree(root, ignore_errors=True)
    return seen


class Mask:
    """Replaces what is different in every run by a word."""

    def __init__(self, root, args, python):
        self.root = str(root)
        self.given = args  # a port in it was asked for
        self.python = re.compile(re.escape(os.path.dirname(python)) + r"/python[\d.]*(?!\S)")

    def __call__(self, text):
        text = self.python.sub("<python>", text)
        text = text.replace(self.root, "<root>")
        text = re.sub(r"(?<=tmp/)(torchelastic|dtrain)_\w{8}", "<fresh>", text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{21}|\bjob-[0-9a-f]{8}(?![0-9a-f])", "<id>", text)
        text = re.sub(r"(<id>|\b[\w.-]+?)_\w{8}(?=/attempt_|/report\.json|/?$)", r"\1_<random>", text)
        return text.replace("none_<random>", "<id>_<random>")  # the id itself is compared in the environment

    def port(self, text):
        return text if text in self.given or not text.isdigit() or int(text) < 1024 else "<port>"


def observe(root, case, codes, python):
    """Everything seen, as a flat {field: text}; plus what was said, which is compared by what it means."""
    mask = Mask(root, case.args + repr(case.env), python)
    errors = (root / "stderr").read_bytes().decode(errors="replace")
    found = sorted((root / "probe").glob("found.*"), key=lambda p: [int(n) for n in p.name.split(".")[1:]])
    seen = {"code": " ".join(map(str, codes)), "started": str(len(found))}
    workers = {}
    for path in found:
        workers[path.name.removeprefix("found.")] = ast.literal_eval(path.read_text())
    seen["left behind"] = str(end_left(workers))
    for key, worker in workers.items():
        env = worker.pop("env")
        del worker["pid"]
        for name, value in env.items():
            value = mask.port(value) if name == "MASTER_PORT" else mask(value)
            seen[f"env.{name} {key}"] = value
        for name, value in worker.items():
            seen[f"{name} {key}"] = mask(" ".join(value) if name == "command" else str(value))
    marked = re.compile(r"(?!  ).*probe-(out|err).*")  # not the lines that a report repeats
    output = (root / "stdout").read_text(errors="replace")
    seen["stdout"] = "\n".join(sorted(mask(line) for line in output.splitlines()))
    seen["stderr"] = "\n".join(sorted(mask(line) for line in errors.splitlines() if marked.fullmatch(line)))
    seen.update(tree(root, mask))
    seen.update(report(errors, mask))
    seen.update(notices.events(errors))
    if not case.says and not case.agents:  # torchrun's agents complain, by chance, of each other's end
        seen.update(notices.meanings(errors))
    return collapse(seen), errors


def tree(root, mask):
    """The files that the launcher made below TMPDIR, the working directory and the home, with what is in them."""
    made = {}
    for base in ("cwd", "tmp", "home"):
        for folder, folders, files in os.walk(root / base):
            for name in files + [name for name in folders if not os.listdir(os.path.join(folder, name))]:
                path = pathlib.Path(folder, name)
                relative = mask(str(path.relative_to(root)))
                if relative in ("cwd/probe.py", "cwd/probe", "cwd/folder/__main__.py", "cwd/file", "cwd/plain"):
                    continue
                content = "a folder"
                if path.is_file():
                    lines = path.read_text(errors="replace").splitlines()
                    content = "\n".join(sorted(line for line in lines if name == "error.json" or "probe-" in line))
                    content = re.sub(r'"timestamp": *"?\d+"?', '"timestamp": <time>', content)
                made[f"file {relative}"] = content if name != "report.json" else "a report"
    return made


def report(errors, mask):
    """Who failed first, how, and which others, read from either launcher's report; of several agents from each one's.
    What dtrain has below torchrun's fields is a field of its own, so that the rest must be the same to the letter.
    """
    blocks = [match for match in re.finditer(r"(?ms)^=+\n([^\n]*) FAILED\n(.*?)\n=+$", errors)]
    more = re.compile(r"(?m)^  (last lines of stderr:(\n    .*)*|hint: .*)\n")
    roots, texts, added = [], [], []
    for block in blocks:
        root = re.search(r"(?s)Root Cause.*?rank      : (\d+).*?exitcode  : (-?\d+)", block[2])
        roots.append(f"rank {root[1]}: {root[2]}")
        text = mask(block[0])
        text = re.sub(r"(time      : )\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d$", r"\1<time>", text, flags=re.M)
        text = re.sub(r"(host      : )\S+$", r"\1<host>", text, flags=re.M)
        text = re.sub(r"(?i)(pid:? )\d+", r"\1<pid>", text)
        text = re.sub(r"(?m)^[=-]+$", lambda m: m[0][0] * 3, text)
        texts.append(more.sub("", text))
        added += [found[1] for found in more.finditer(text)]
    if not blocks:
        # An exception is the headline itself; the code is then in the line `when`.
        first = re.search(r"(?ms)^first failure: rank (\d+): .*?(?:exit code (\d+)|signal (\d+))", errors)
        return {"first failure": f"rank {first[1]}: {first[2] or '-' + first[3]}"} if first else {}
    seen = {"first failure": "\n".join(sorted(roots)), "report": "\n".join(sorted(texts))}
    return {**seen, "more in report": "\n".join(added)} if added else seen


def collapse(seen):
    """Fields of several workers with one value become one field; RANK 0.1, 0.2 stay as they are."""
    groups = {}
    for field, value in seen.items():
        name, _, key = field.rpartition(" ")
        if re.fullmatch(r"\d+\.\d+", key):
            groups.setdefault(name, {})[key] = value
    for name, values in groups.items():
        if len(set(values.values())) == 1 and len(values) == int(seen["started"]):
            for key in values:
                del seen[f"{name} {key}"]
            seen[name] = next(iter(values.values()))
    return seen
