"""A bare Debian 12 in a folder, to try packages in: what debootstrap makes, with this machine's network.

    with BareSystem() as bare:
        bare.apt_install("python3")
        print(bare.says("python3 --version"))

Each command runs in namespaces of its own. So its mounts and processes end with it, even if the test is killed. close()
removes the folder; if the test is killed, the next BareSystem removes it. The bare system, the packages that apt
downloads and what ccache compiles there are kept in .cache/bare, so the second run is fast. Needs root.
"""
import hashlib
import os
import pathlib
import re
import select
import shlex
import shutil
import stat
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache/bare"
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
DEADLINE = 900
# If the test is killed, setpriv lets unshare be killed, and unshare kills the first process of the namespace.
IN_NAMESPACES = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Failed(AssertionError):
    """A command ended with another code than 0. The text is the command and what it said."""


def said_by(command, deadline=DEADLINE, **more):
    """What a command printed. It failed if its code is not 0, or if the deadline passed: then it was killed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=deadline, **more)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{command[-1]}: not done in {deadline} s:\n{(error.output or b'').decode()}") from None
    if done.returncode != 0:
        raise Failed(f"{command[-1]}: ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class BareSystem:
    def __init__(self):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.lock = open(CACHE / "lock", "w")
        # One at a time: apt has a lock on its packages, and what others left is removed.
        said_by(["flock", "--timeout", "7200", str(self.lock.fileno())], deadline=7300, pass_fds=[self.lock.fileno()])
        for left in CACHE.glob("run-*"):
            shutil.rmtree(left)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
        self.root = self.folder / "root"
        self.binds = []  # (here, there, read only)
        try:
            self._unpack()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        # Mounts are in the namespaces of commands that have ended, so this reaches nothing but the folder.
        shutil.rmtree(self.folder)
        self.lock.close()

    def bind(self, here, there=None, read_only=True):
        """Show a file or folder of this machine to the commands; by default at the place that it has here."""
        place = self.root / str(there or here).lstrip("/")
        if pathlib.Path(here).is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        self.binds.append((here, place, read_only))

    def command(self, script, **env):
        """What runs a bash script in the system."""
        root = shlex.quote(str(self.root))
        lines = [f"mount -t proc proc {root}/proc", f"mount -t sysfs -o ro sysfs {root}/sys",
                 f"mount -t tmpfs -o mode=1777 tmpfs {root}/dev/shm"]
        for here, place, read_only in self.binds:
            lines.append(f"mount --bind {shlex.quote(str(here))} {shlex.quote(str(place))}")
            if read_only:
                lines.append(f"mount -o remount,bind,ro {shlex.quote(str(place))}")
        own = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", "DEBIAN_FRONTEND": "noninteractive",
               **self.pip, **env}
        inside = ["chroot", str(self.root), "env", "-i", *(f"{name}={value}" for name, value in own.items()),
                  "bash", "-euo", "pipefail", "-c", script]
        return [*IN_NAMESPACES, "bash", "-euc", "\n".join(lines) + "\nexec \"$@\"", "bash", *inside]

    def says(self, script, deadline=DEADLINE, **env):
        return said_by(self.command(script, **env), deadline)

    def says_until(self, script, pattern, deadline=DEADLINE, **env):
        """What a script printed until it matched. Then it is killed, with all its processes."""
        said, until = "", time.monotonic() + deadline
        with subprocess.Popen(self.command(script, **env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            try:
                while not re.search(pattern, said):
                    if not select.select([process.stdout], [], [], max(0, until - time.monotonic()))[0]:
                        raise Failed(f"{script}: not in {deadline} s: {pattern}\n{said}")
                    data = os.read(process.stdout.fileno(), 1 << 16)
                    if not data:
                        raise Failed(f"{script}: ended without {pattern}\n{said}")
                    said += data.decode(errors="replace")
            finally:
                process.kill()
        return said

    def apt_install(self, *packages):
        return self.says(f"apt-get update && apt-get install --yes --no-install-recommends {' '.join(packages)}")

    def files(self):
        """{path: what it is and holds} of all files and folders. What is mounted for a command is not among them."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            for path in (pathlib.Path(folder, name) for name in folders + names):
                about = path.lstat()
                holds = ""
                if stat.S_ISLNK(about.st_mode):
                    holds = os.readlink(path)
                elif stat.S_ISREG(about.st_mode):
                    holds = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(self.root))] = (oct(about.st_mode), about.st_uid, about.st_gid, holds)
        return found

    def _unpack(self):
        base = CACHE / f"{SUITE}-minbase.tar.gz"
        if not base.exists():
            made, whole = self.folder / "made", self.folder / "base.tar.gz"
            sources = sources_of_this_machine()
            said_by([*IN_NAMESPACES, "debootstrap", "--variant=minbase", SUITE, made, sources[0].split()[1]])
            said_by(["tar", "-C", made, "--use-compress-program=gzip -1", "--exclude=./var/cache/apt/archives/*.deb",
                     "-cf", whole, "."])
            shutil.rmtree(made)
            whole.rename(base)
        self.root.mkdir()
        said_by(["tar", "-C", self.root, "--numeric-owner", "-xpf", base])
        (self.root / "etc/apt/sources.list").write_text("".join(line + "\n" for line in sources_of_this_machine()))
        (self.root / "etc/apt/apt.conf.d/99host").write_text(apt_settings_of_this_machine())
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        # As in a container: packages that bring a service do not start it.
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        # How this machine reaches PyPI.
        self.pip = {name: value for name, value in os.environ.items()
                    if re.fullmatch(r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT)|https?_proxy", name)}
        if certificates := os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE"):
            shutil.copy(certificates, self.root / "opt/certificates.crt")
            self.pip["PIP_CERT"] = "/opt/certificates.crt"
        for there in ("var/cache/apt/archives", "root/.cache/pip", "root/.cache/ccache"):
            here = CACHE / there.rsplit("/", 1)[1]
            here.mkdir(exist_ok=True)
            self.bind(here, there, read_only=False)


def sources_of_this_machine():
    """Debian 12's lines of sources.list, with the mirrors that this machine has. The main one is the first."""
    said = said_by(["apt-get", "indextargets", "--format", "$(ORIGIN) $(RELEASE) $(SITE) $(COMPONENT)",
                    "Created-By: Packages"])
    found = set(re.findall(rf"(?m)^Debian ({SUITE}(?:-updates|-security)?) (\S+) (main)$", said))
    lines = [f"deb {site} {suite} {component}" for suite, site, component in sorted(found)]
    return lines if any(f" {SUITE} " in line for line in lines) else [f"deb {MIRROR} {SUITE} main"]


def apt_settings_of_this_machine():
    said = said_by(["apt-config", "dump"])
    lines = re.findall(r'(?m)^Acquire::(?:Check-Valid-Until|Check-Date|https?::Proxy\S*) ".*";$', said)
    return "\n".join([*lines, 'Acquire::Retries "3";', 'APT::Sandbox::User "root";', ""])
