"""What `dtrain shim` puts before each Python that its command starts: there, torchrun is dtrain. docs/shim.md."""
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TORCHRUN = os.path.join(os.path.dirname(HERE), "bin", "torchrun")
# What Python may be told to run, and the name by which dtrain does the same.
MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "launch"}
FILES = {"torch/distributed/run.py": "torchrun", "torch/distributed/launch.py": "launch"}
# Launchers that start ranks themselves, and which file of this folder has their command lines in dtrain's words.
LAUNCHERS = {"deepspeed.launcher.launch": "_dtrain_deepspeed", "composer.cli.launcher": "_dtrain_composer"}


def _part(name):
    """Another file of this folder, whatever sys.path has become."""
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _program(words):
    """What follows Python's own options: -m, -c or neither; the module, the command or the file; its arguments."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        for end, letter in enumerate(word[1:], start=2):  # short options may share a word
            if letter in "cm":
                rest = [word[end:]] if word[end:] else []
                return ("-" + letter, *_first_of(rest + words[at:]))
            if letter in "WX":
                at += not word[end:]
                break
    return ("", *_first_of(words[at + (words[at:at + 1] == ["--"]):]))


def _first_of(words):
    return (words[0], words[1:]) if words else ("", [])


def _command_line():
    if hasattr(sys, "orig_argv"):
        return sys.orig_argv
    with open("/proc/self/cmdline", "rb") as file:  # before Python 3.10
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def _is_script_of(module, path, name):
    """What pip has put beside Python, under whatever name the folder has."""
    if os.path.basename(path) != name:
        return False
    try:
        with open(path, "rb") as file:
            return module.encode() in file.read(4096)
    except OSError:
        return False


def _is_torchruns_script(path):
    """pip's, or dtrain's link, as `which` gives it."""
    ours = os.path.basename(path) == "torchrun" and os.path.realpath(path) == os.path.realpath(TORCHRUN)
    return ours or _is_script_of("torch.distributed.run", path, "torchrun")


def _called():
    """The name by which dtrain is to go on in place of this Python, or none; and the arguments."""
    kind, name, arguments = _program(_command_line()[1:])
    if kind == "" and _is_script_of("composer.cli.launcher", name, "composer"):
        kind, name = "-m", "composer.cli.launcher"
    if kind == "-m" and name in LAUNCHERS:
        words = _part(LAUNCHERS[name]).words_of(arguments)
        return (None, arguments) if words is None else ("dtrain", words)
    if kind == "-m":
        return MODULES.get(name), arguments
    if kind == "" and _is_torchruns_script(name):
        return "torchrun", arguments
    if kind == "":
        for end, called in FILES.items():
            if name.endswith("/" + end):
                return called, arguments
    return None, arguments


def _end(message, code):
    """Python would go on with what should be dtrain."""
    os.write(2, f"dtrain: {message}\n".encode(errors="replace"))
    os._exit(code)


def _become_dtrain():
    try:
        called, arguments = _called()
    except BaseException as error:
        _end(f"dtrain shim: {' '.join(_command_line()[1:4])}: {error or type(error).__name__}", 2)
    if called is None:
        return
    # Workers run this Python, unless the user has named another; the name that a shim above has set is not the user's.
    if os.environ.get("PYTHON_EXEC", "") in ("", os.environ.get("DTRAIN_SHIM_PYTHON")):
        os.environ["PYTHON_EXEC"] = os.environ["DTRAIN_SHIM_PYTHON"] = sys.executable
    try:
        os.execv(TORCHRUN, [called, *arguments])
    except OSError as error:
        _end(f"{TORCHRUN}: {error.strerror}; start the command with `dtrain shim` again", 127)


def _of_torch(module):
    module.launch_agent = _part("_dtrain_shim").launch_agent


def _of_composer(module):
    module.main = _part("_dtrain_composer").main_before(module.main, _part("_dtrain_shim").run)


def _of_deepspeed(module):
    _part("_dtrain_deepspeed").change_runners(module)


# The modules in which the work of launchers begins, and what gives them another function: all that starts workers calls
# that.
CHANGED = {"torch.distributed.launcher.api": _of_torch, "composer.cli.launcher": _of_composer,
           "deepspeed.launcher.multinode_runner": _of_deepspeed}


class _Finder:
    """Changes these modules when a program imports them."""

    is_dtrains = True

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in CHANGED:
            return None
        for finder in sys.meta_path:
            spec = None if finder is _Finder else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            CHANGED[name](module)

        spec.loader.exec_module = exec_module
        return spec


def _next_sitecustomize():
    """The one that Python would have found without this. Only behind this one: it may itself look for the next."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    places = [os.path.realpath(path) for path in sys.path]
    behind = sys.path[places.index(HERE) + 1:] if HERE in places else []
    spec = PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])


_become_dtrain()
if not any(getattr(finder, "is_dtrains", False) for finder in sys.meta_path):  # of another dtrain's shim
    sys.meta_path.insert(0, _Finder)
_next_sitecustomize()
