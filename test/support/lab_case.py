"""What tests with hosts of a lab begin with: the lab itself, or a skip by name where a machine cannot have one; tokens
and certificates."""
import os
import subprocess
import unittest

import netlab  # for those who import this module, too

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def new_token(dtrain, folder, name="token"):
    """The path of a new token in this folder, made by the program `dtrain`."""
    path = os.path.join(folder, name)
    subprocess.run([dtrain, "token", "--new", "--file", path], check=True, capture_output=True, timeout=60)
    return path


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60, cwd=folder)


def make_authority(folder, name):
    """An authority for certificates, in NAME.pem and NAME.key."""
    openssl(folder, "req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out",
            f"{name}.pem")


def make_certificate(folder, name, authority, subject, extensions=""):
    """A certificate of this authority, in NAME.pem and NAME.key."""
    openssl(folder, "req", *NEW_KEY, "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    with open(os.path.join(folder, "extensions"), "w") as file:
        file.write(extensions)
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "2", *(["-extfile", "extensions"] if extensions else []), "-out", f"{name}.pem")


def certify(folder, name, authority):
    """The flags by which a node shows a certificate of this authority, in NAME.pem and NAME.key."""
    make_certificate(folder, name, authority, f"/CN={name}")
    files = {"ca": f"{authority}.pem", "cert": f"{name}.pem", "key": f"{name}.key"}
    return [word for flag, file in files.items() for word in (f"--tls-{flag}", os.path.join(folder, file))]


class LabCase(unittest.TestCase):
    def lab(self, hosts=2, **options):
        """As netlab.Lab's; it is gone when the test ends."""
        try:
            lab = netlab.Lab(hosts, **options)
        except netlab.Unavailable as error:
            self.skipTest(str(error))
        self.addCleanup(lab.close)
        return lab
