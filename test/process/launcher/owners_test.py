"""Whose a connection is, where the kernel does not say it: in a user namespace that does not know all users, and in a
sandbox without NETLINK_SOCK_DIAG, without /proc, or without both."""
import ctypes
import errno
import glob
import json
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import unittest

from support import *

USER, STRANGER = 1234, 2345

ASK = 'python3 -c "$STORE_CLIENT" "$MASTER_ADDR" "$MASTER_PORT"'

# Tells how many bytes a job says of itself on its status socket.
LISTENER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(20)
    s.connect(sys.argv[1])
    print(len(s.recv(99999)))
"""


def said_to(user, script, *args):
    done = subprocess.run(["python3", "-c", script, *args], capture_output=True, text=True, timeout=DEADLINE,
                          **as_user(user))
    return done.stdout + done.stderr


@needs_root
class UserNamespace(ProcessTest):
    """All users of the host, this one too, have the same uid there."""

    def setUp(self):
        if subprocess.run(["unshare", "-U", "true"], capture_output=True, **as_user(USER)).returncode != 0:
            self.skipTest("no user namespaces here")

    def job(self):
        worker = ASK + '; echo "port $MASTER_PORT."; echo ready; exec sleep 1000'
        return Job("--nproc", 1, "bash", "-c", worker, user=USER, prefix=("unshare", "-U"),
                   env={"STORE_CLIENT": STORE_CLIENT, "XDG_RUNTIME_DIR": ""})

    def test_the_store_serves_this_user_alone(self):
        with self.job() as job:
            job.ready(1)
            self.assertIn(b"served\n", job.output)
            self.assertIn("may stand for any user in this user namespace: dtrain lets connections in by the processes "
                          "that hold them\n", job.stderr())
            port = re.search(rb"port (\d+)\.", job.output)[1].decode()
            self.assertEqual(said_to(STRANGER, STORE_CLIENT, "127.0.0.1", port), "refused\n")
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.assert_gone(job)

    def test_the_status_socket_answers_this_user_alone(self):
        with self.job() as job:
            job.ready(1)
            shown = subprocess.run(["nsenter", "-U", "--preserve-credentials", "-t", str(job.agent), DTRAIN, "status",
                                    "--json", "--job", job.tag],
                                   capture_output=True, text=True, timeout=DEADLINE, **as_user(USER))
            self.assertEqual([one["agent"] for one in json.loads(shown.stdout)["jobs"]], [job.agent], shown.stderr)
            # Even where the folder lets him in.
            (path,) = glob.glob(f"/tmp/dtrain-*/{job.agent}-*")
            os.chmod(os.path.dirname(path), 0o711)
            os.chmod(path, 0o777)
            self.assertEqual(said_to(STRANGER, LISTENER, path), "0\n")
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)


def forbid_netlink():
    """From now on this process has no netlink sockets (seccomp)."""
    socket_call = {"x86_64": 41, "aarch64": 198}[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06  # BPF's LD|W|ABS, JMP|JEQ|K, RET|K
    number, first_argument = 0, 16  # where they are in seccomp_data
    refused, allowed = 0x50000 | errno.EPERM, 0x7fff0000
    code = [(load, 0, 0, number), (equal, 0, 3, socket_call), (load, 0, 0, first_argument),
            (equal, 0, 1, socket.AF_NETLINK), (answer, 0, 0, refused), (answer, 0, 0, allowed)]
    steps = b"".join(struct.pack("=HBBI", *step) for step in code)
    program = struct.pack("@HP", len(code), ctypes.cast(ctypes.c_char_p(steps), ctypes.c_void_p).value)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, set_seccomp, filtered = 38, 22, 2
    if prctl(no_new_privileges, 1, 0, 0, 0) != 0 or prctl(set_seccomp, filtered, program) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Sandbox(ProcessTest):
    # In a mount namespace whose /proc is an empty folder.
    HIDE_PROC = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    WITHOUT_BOTH = ("cannot find out who owns a connection: NETLINK_SOCK_DIAG: Operation not permitted; /proc/net/tcp "
                    "cannot be read; give the sandbox one of the two: sockets of NETLINK_SOCK_DIAG, or /proc")

    def doctor(self, *prefix, **popen):
        """What it says, in one line."""
        done = subprocess.run([*prefix, DTRAIN, "doctor"], capture_output=True, text=True, timeout=DEADLINE, **popen)
        return " ".join(done.stdout.split())

    def test_doctor_says_how_it_is_found_out(self):
        self.assertIn("ok owners of connections by NETLINK_SOCK_DIAG", self.doctor())
        self.assertIn("warn owners of connections from /proc/net/tcp: there is no NETLINK_SOCK_DIAG",
                      self.doctor(preexec_fn=forbid_netlink))

    def test_doctor_in_a_user_namespace(self):
        if subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        self.assertRegex(self.doctor("unshare", "-U"),
                         r"warn owners of connections user \d+ may stand for any user in this user namespace")

    @needs_root
    @unittest.skipUnless(SLOW == 1, "a sanitizer needs /proc itself")
    def test_without_both_doctor_and_a_job_name_both(self):
        self.assertIn("FAIL owners of connections " + self.WITHOUT_BOTH,
                      self.doctor(*self.HIDE_PROC, preexec_fn=forbid_netlink))
        job = run("true", prefix=self.HIDE_PROC, preexec_fn=forbid_netlink)
        self.assertEqual((job.code, job.left), (125, []), job.said)
        self.assertIn(f"dtrain: the worker store: {self.WITHOUT_BOTH}\n", job.said)

    def test_a_job_without_netlink(self):
        job = self.assert_run(0, "--nproc", 2, "sh", "-c", ASK, env={"STORE_CLIENT": STORE_CLIENT},
                              preexec_fn=forbid_netlink)
        self.assertEqual(job.output.count(b"served\n"), 2, job.output)


if __name__ == "__main__":
    unittest.main()
