"""A real etcd on hosts of a lab, for tests whose jobs meet there."""
import os
import subprocess

from support import DEADLINE, until


class EtcdHosts:
    """A cluster with a member on each of these hosts, on its usual ports; its data are in `folder`. `tls`: files of
    clients, a dict of "cacert", "cert" and "key" of which `member.pem` and `member.key` are beside; none: http."""

    def __init__(self, hosts, folder, tls=None):
        self.tls, scheme = tls, "https" if tls else "http"
        cluster = ",".join(f"{host.name}=http://{host.ipv4}:2380" for host in hosts)
        secured = ["--cert-file", os.path.join(folder, "member.pem"), "--key-file", os.path.join(folder, "member.key"),
                   "--trusted-ca-file", tls["cacert"], "--client-cert-auth"] if tls else []
        self.members = {
            host.name: host.popen(
                ["etcd", "--name", host.name, "--data-dir", os.path.join(folder, host.name),
                 "--listen-client-urls", f"{scheme}://{host.ipv4}:2379", "--advertise-client-urls",
                 f"{scheme}://{host.ipv4}:2379", "--listen-peer-urls", f"http://{host.ipv4}:2380",
                 "--initial-advertise-peer-urls", f"http://{host.ipv4}:2380", "--initial-cluster", cluster,
                 "--bcrypt-cost", "4", *secured],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for host in hosts}
        self.hosts = {host.ipv4: host for host in hosts}
        self.endpoint = ",".join(f"{host.ipv4}:2379" for host in hosts)
        self.urls = ",".join(f"{scheme}://{host.ipv4}:2379" for host in hosts)
        until(lambda: self.ctl(hosts[0], "get", "none").returncode == 0, DEADLINE, "etcd")

    def ctl(self, host, *words):
        shown = [word for name, file in (self.tls or {}).items() for word in (f"--{name}", file)]
        return host.run(["etcdctl", "--endpoints", self.urls, "--command-timeout", "2s", *shown, *words],
                        env={**os.environ, "ETCDCTL_API": "3"})

    def leader(self):
        """The host whose member leads, once there is one and all members say what they are."""
        return until(self._leader, DEADLINE, "a leader of etcd")

    def _leader(self):
        status = self.ctl(next(iter(self.hosts.values())), "endpoint", "status")
        leaders = [line for line in status.stdout.splitlines() if line.split(", ")[4] == "true"]
        if status.returncode != 0 or len(leaders) != 1:
            return None
        return self.hosts[leaders[0].split(", ")[0].removeprefix("https://").removeprefix("http://").split(":")[0]]
