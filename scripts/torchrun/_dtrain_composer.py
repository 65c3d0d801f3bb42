"""Composer's launcher, `composer` and `python -m composer.cli.launcher`, as `dtrain run`.

Run as a program it is what each rank begins as: python _dtrain_composer.py KIND STDOUT STDERR PROGRAM [its arguments].
KIND is script, module or command."""
import argparse
import os
import sys

# Where Databricks' platform wants the output, if all three are set.
PLATFORM = "MOSAICML_PLATFORM", "MOSAICML_LOG_DIR", "MOSAICML_GPU_LOG_FILE_PREFIX"
# What Composer's launcher sets and dtrain does not.
FOR_RANKS = "NODE_RANK", "PYTHONUNBUFFERED", "TORCH_NCCL_ASYNC_ERROR_HANDLING"
OF_A_RANK = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK"


class Composers(Exception):
    """Composer itself shows its help and its version."""


class _Left(argparse.Action):
    def __call__(self, *_):
        raise Composers


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


def _parsed(words):
    parser = _Parser(add_help=False)
    parser.add_argument("-h", "--help", nargs=0, action=_Left)
    parser.add_argument("--version", nargs=0, action=_Left)
    parser.add_argument("-n", "--nproc", type=int)
    for name in "world_size", "base_rank", "node_rank", "master_port":
        parser.add_argument("--" + name, type=int)
    for name in "master_addr", "stdout", "stderr":
        parser.add_argument("--" + name)
    for name in "verbose", "module_mode", "command_mode":
        parser.add_argument("-" + name[0], "--" + name, action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(words)


def _number(name):
    text = os.environ.get(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValueError(f"{name}={text} is not a number") from None


def _devices():
    import torch
    return torch.cuda.device_count()


def _complete(asked):
    """What is not typed has the environment's value."""
    if asked.nproc is None:
        local = _number("LOCAL_WORLD_SIZE")
        asked.nproc = (_devices() if local is None else local) or 1
    if asked.nproc < 1:
        raise ValueError(f"--nproc is {asked.nproc}, and a node has at least one process")
    # What a job of one node was once told is not this job's size.
    if asked.world_size is None and os.environ.get("LOCAL_WORLD_SIZE") != os.environ.get("WORLD_SIZE"):
        asked.world_size = _number("WORLD_SIZE")
    for name in "base_rank", "node_rank", "master_port":
        if getattr(asked, name) is None:
            setattr(asked, name, _number(name.upper()))
    asked.world_size = asked.nproc if asked.world_size is None else asked.world_size
    asked.master_addr = asked.master_addr or os.environ.get("MASTER_ADDR")


def _place(asked):
    """(nodes, this node's rank): dtrain counts nodes, and Composer processes."""
    size, each, base, node = asked.world_size, asked.nproc, asked.base_rank, asked.node_rank
    if size < each:
        raise ValueError(f"--world_size is {size}, less than --nproc {each}")
    if size % each:
        raise ValueError(f"--world_size {size} with --nproc {each} does not say how many nodes there are; type "
                         "dtrain run --nnodes NODES --node-rank RANK --nproc N --master-addr HOST on each")
    if base and size == each:
        raise ValueError(f"--base_rank {base}: this job has one node, so leave it out")
    if node is None and base is None and size > each:
        raise ValueError("a job of several nodes needs --node_rank")
    if base is not None and base != (base // each if node is None else node) * each:
        raise ValueError(f"--base_rank {base} is not --node_rank times --nproc, as dtrain numbers ranks; leave it out")
    node = (base or 0) // each if node is None else node
    if not 0 <= node < size // each:
        raise ValueError(f"--node_rank {node}: there are {size // each} nodes of {each} processes")
    if size > each and not (asked.master_addr and asked.master_port):
        raise ValueError("a job of several nodes needs --master_addr and --master_port")
    return size // each, node


def _files(asked):
    """Patterns of the names of files; "" for none."""
    platform, folder, prefix = (os.environ.get(name, "false") for name in PLATFORM)
    if platform.lower() == "true" and "false" not in (folder.lower(), prefix.lower()):
        both = f"{folder}/{prefix}{{local_rank}}.txt"
        return both, both
    patterns = asked.stdout or "", asked.stderr or ""
    for name, pattern in zip(("stdout", "stderr"), patterns):
        try:
            pattern.format(**{each.lower(): 0 for each in OF_A_RANK})
        except (LookupError, ValueError):
            raise ValueError(f"--{name}={pattern}: there are {', '.join('{%s}' % each.lower() for each in OF_A_RANK)}"
                             ) from None
    return patterns


def _sealed(word):
    """dtrain would replace $local_rank, and Composer does not."""
    return word.replace("%", "%25").replace("$", "%24")


def _opened(word):
    return word.replace("%24", "$").replace("%25", "%")


def words_of(arguments):
    """The words after `dtrain`, or none if Composer is to go on. Sets FOR_RANKS."""
    try:
        asked = _parsed(arguments)
    except Composers:
        return None
    _complete(asked)
    nodes, node = _place(asked)
    if asked.module_mode and asked.command_mode:
        raise ValueError("--module_mode and --command_mode exclude each other")
    kind = "module" if asked.module_mode else "command" if asked.command_mode else "script"
    os.environ.update(zip(FOR_RANKS, (str(node), "1", "1")))
    words = ["run", "--engine", "local", "--nnodes", str(nodes), "--nproc-per-node", str(asked.nproc),
             "--local-ranks-filter", "0", "--failure-grace", "30"]  # Composer's time between SIGTERM and SIGKILL
    if nodes > 1:
        words += ["--node-rank", str(node), "--master-addr", asked.master_addr]
    words += ["--master-port", str(asked.master_port)] if asked.master_port else []
    words += ["--verbose"] if asked.verbose else []
    begin = [sys.executable, "-S", os.path.realpath(__file__), kind]
    return [*words, "--no-python", "--", *begin, *map(_sealed, (*_files(asked), asked.program, *asked.arguments))]


def main_before(composers, run):
    """Another main() for the module, which programs may call."""
    def main():
        before = {name: os.environ.get(name) for name in FOR_RANKS}
        try:
            words = words_of(sys.argv[1:])
        except ValueError as error:
            print(f"dtrain: dtrain shim: composer: {error}", file=sys.stderr)
            return 2
        try:
            return composers() if words is None else run("dtrain", words)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
    return main


def _begin(kind, *words):
    """As a rank."""
    stdout, stderr, program, *arguments = map(_opened, words)
    place = {name.lower(): int(os.environ[name]) for name in OF_A_RANK}
    for stream, pattern in (1, stdout), (2, stderr):
        if pattern and place["local_rank"] > 0:
            file = os.open(pattern.format(**place), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(file, stream)
            os.close(file)
    python = {"script": [sys.executable], "module": [sys.executable, "-m"], "command": []}[kind]
    command = [*python, program, *(os.path.expandvars(os.path.expanduser(each)) for each in arguments)]
    os.execvp(command[0], command)


def _main(words):
    try:
        _begin(*words)
    except OSError as error:
        print(f"{error.filename or _opened(words[3])}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
