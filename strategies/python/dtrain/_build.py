"""Compile the extension for this Python and this torch, once for all programs of the user."""
import json
import pathlib
import sys
import sysconfig

import torch
from dtrain_data import compiling

WHAT = "the backend"
# Some classes in torch's headers change their layout with these: cmake/FindLibTorch.cmake has the same.
TORCH_DEFINITIONS = ["USE_DISTRIBUTED", "USE_C10D_GLOO", "USE_RPC", "USE_TENSORPIPE", "_GLIBCXX_USE_CXX11_ABI=1"]
# Only the module's entry is visible: what else it contains must not be taken for another library's.
VISIBLE = "{ global: PyInit__C; local: *; };\n"


def _torch_folder():
    return pathlib.Path(torch.__file__).parent


def _check_python():
    python = sysconfig.get_path("include")
    if not pathlib.Path(python, "Python.h").exists():
        raise ImportError(f"dtrain: there is no {python}/Python.h, which the backend is compiled with when it is first "
                          "used. Install it (Debian and Ubuntu: apt-get install python3-dev; Fedora and RHEL: dnf "
                          "install python3-devel)")


def _compile(sources, folder):
    """_C.so in `folder`."""
    compiler, torch_folder = compiling.compiler(WHAT), _torch_folder()
    include = torch_folder / "include"
    flags = compiling.COMPILE + [f"-D{name}" for name in TORCH_DEFINITIONS] + [f"-I{sources}"]
    torch_api = include / "torch/csrc/api/include"
    for system in (sources / "strategies/include", sources / "include", include, torch_api,
                   sysconfig.get_path("include")):
        flags += ["-isystem", str(system)]
    units = json.loads((sources / "units.json").read_text())
    objects = compiling.objects(units, folder, [*compiler, *flags], WHAT)
    (folder / "visible").write_text(VISIBLE)
    libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    compiling.run([*compiler, "-shared", "-pthread", "-o", str(folder / "_C.so"), *objects, *libraries,
                   f"-Wl,--version-script={folder / 'visible'}", compiling.LINK], what=WHAT)


def built(sources):
    """The extension's file. Compiles it where that has not been done. Raises ImportError."""
    # It fits one Python, one torch, one place of torch and these sources.
    folder = compiling.cache() / (f"{sys.implementation.cache_tag}-torch{torch.__version__}-"
                                  f"{compiling.digest(sources, str(_torch_folder()))}")
    return compiling.built(folder, "_C.so", WHAT, f"torch {torch.__version__}",
                           lambda scratch: _compile(sources, scratch), _check_python)
