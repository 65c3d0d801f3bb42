"""A real sshd on each host of a lab, with keys of its own: `with SshServers(lab, folder) as ssh:`, and `ssh.command` is
what reaches them."""
import pathlib
import shutil
import subprocess

SERVER = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
"""
CLIENT = """
IdentityFile {folder}/user_key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
"""


class SshServers:
    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.servers = {}
        for key in "host_key", "user_key":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
        public = pathlib.Path(folder, "host_key.pub").read_text()
        names = ",".join(host.name for host in lab.hosts)
        pathlib.Path(folder, "known_hosts").write_text(f"{names} {public}")
        for name, text in ("sshd_config", SERVER), ("ssh_config", CLIENT):
            pathlib.Path(folder, name).write_text(text.format(folder=folder))
        self.command = f"ssh -F {folder}/ssh_config"

    def __enter__(self):
        for host in self.lab.hosts:
            self.start(host)
        return self

    def start(self, host):
        host.path("/run/sshd").mkdir(exist_ok=True)
        server = host.popen([shutil.which("sshd", path="/usr/sbin:/sbin"), "-D", "-e", "-f",
                             f"{self.folder}/sshd_config"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
        while "listening on" not in (line := server.stderr.readline()):
            if not line:
                raise RuntimeError(f"sshd on {host.name} has ended")
        self.servers[host.name] = server

    def pids(self):
        """The servers themselves, without those that they have started for connections."""
        return {server.pid for server in self.servers.values()}

    def stop(self, name):
        server = self.servers.pop(name)
        server.kill()
        server.wait()
        server.stderr.close()

    def __exit__(self, *_):
        for name in list(self.servers):
            self.stop(name)
