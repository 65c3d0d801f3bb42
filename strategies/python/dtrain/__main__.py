"""python -m dtrain: compile the extension if that has not been done, as an image or a login node does before a job, and
print what it is for and where it is."""
import sys

import torch

from . import _extension

try:
    module = _extension.load()
except ImportError as error:
    sys.exit(str(error))
print(f"dtrain's backend for Python {sys.version_info[0]}.{sys.version_info[1]} and torch {torch.__version__}: "
      f"{module.__file__}")
