"""dtrain._C, the extension, for this Python and this torch.

A build of dtrain puts it beside this file, for the Python and the torch of that build. A package from pip has its
sources instead: they are compiled when a program first needs them, and the result is kept for all later programs of the
user.
"""
import atexit
import importlib
import importlib.util
import pathlib
import sys

import torch

OLDEST = (2, 11)  # what c10d looks like changes from version to version


def _refuse_older_torch():
    version = torch.__version__.partition("+")[0]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(f"dtrain: the backend needs torch {oldest} or newer, and this is torch {version}. "
                          f"Install one: {sys.executable} -m pip install 'torch>={oldest}'")


def _refuse_others(built):
    """The extension fits one Python and one torch. With another it would crash at some call."""
    here = {"Python": "%d.%d" % sys.version_info[:2], "torch": torch.__version__.partition("+")[0]}
    for name, version in here.items():
        of_build = getattr(built, name.upper())
        if version != of_build:
            raise ImportError(f"dtrain was built for {name} {of_build} and this is {name} {version}: build it again "
                              f"with -DDTRAIN_TORCH_PYTHON={sys.executable}, or run the Python that it was built for, "
                              f"{built.EXECUTABLE}")


def _from_file(path):
    spec = importlib.util.spec_from_file_location("dtrain._C", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load():
    """The extension. Raises ImportError, which says what to do, where there can be none."""
    loaded = sys.modules.get("dtrain._C")
    if loaded:
        return loaded
    _refuse_older_torch()
    if importlib.util.find_spec("dtrain._built"):
        _refuse_others(importlib.import_module("dtrain._built"))
        module = importlib.import_module("dtrain._C")
    else:
        from . import _build
        module = _from_file(_build.built(pathlib.Path(__file__).parent / "_sources"))
    atexit.register(module.leave_all)
    return module
