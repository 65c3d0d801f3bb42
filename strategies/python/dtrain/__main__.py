"""python -m dtrain: compile what this package has sources of where that has not been done, as an image or a login node
does before a job, and print where it is: the extension; with pyarrow, what prepares and reads data."""
import importlib.util
import sys

import torch

from . import _extension

try:
    module = _extension.load()
    print(f"dtrain's backend for Python {sys.version_info[0]}.{sys.version_info[1]} and torch {torch.__version__}: "
          f"{module.__file__}")
    if importlib.util.find_spec("dtrain_data") and importlib.util.find_spec("pyarrow"):
        from dtrain_data import native
        for name in (native.LIBRARY, native.PROGRAM) if native.SOURCES.exists() else ():
            print(f"{name}: {native.built(name)}")
except ImportError as error:
    sys.exit(str(error))
