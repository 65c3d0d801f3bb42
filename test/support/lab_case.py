"""What tests with hosts of a lab begin with: the lab itself, or a skip by name where a machine cannot have one; tokens.
"""
import os
import subprocess
import unittest

import netlab


def new_token(dtrain, folder, name="token"):
    """The path of a new token in this folder, made by the program `dtrain`."""
    path = os.path.join(folder, name)
    subprocess.run([dtrain, "token", "--new", "--file", path], check=True, capture_output=True, timeout=60)
    return path


class LabCase(unittest.TestCase):
    def lab(self, hosts=2, **options):
        """As netlab.Lab's; it is gone when the test ends."""
        try:
            lab = netlab.Lab(hosts, **options)
        except netlab.Unavailable as error:
            self.skipTest(str(error))
        self.addCleanup(lab.close)
        return lab
