"""dtrain on GPUs: a line for each case. Classes (Launcher, Cpp, CppFaults, Python, PythonFaults) or cases may be named.

usage: gpu_test.py [-v] [CLASS[.CASE]...], with DTRAIN_BIN_DIR as in job.py. Ends with 77 where there is no GPU."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cpp_cases import Cpp, CppFaults  # noqa: E402, F401
from job import GPUS, KIND  # noqa: E402
from launcher_cases import Launcher  # noqa: E402, F401
from python_cases import Python, PythonFaults  # noqa: E402, F401

if __name__ == "__main__":
    if KIND == "cuda" and GPUS == 0:
        print("SKIP: no test ran, because this machine has no NVIDIA GPU that nvidia-smi lists")
        sys.exit(77)
    unittest.main(verbosity=2)
