"""`python -m deepspeed.launcher.launch`, by which DeepSpeed starts the ranks of a node, as `dtrain run`; and dtrain's
agents in place of what its launchers start on several nodes."""
import argparse
import base64
import json
import os
import shlex
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
DTRAIN = os.path.realpath(os.path.join(os.path.dirname(HERE), "bin", "torchrun"))
USUAL_PORT = 29500
# What dtrain does not do. Where there is something like it, that is named.
REFUSED = {"save_pid": "leave it out", "bind_cores_to_rank": "leave it out", "bind_core_list": "leave it out",
           "venv_script": "activate the environment first: dtrain takes its variables to all hosts",
           "enable_elastic_training": "type dtrain run --nnodes MIN:MAX",
           "elastic_training": "type dtrain run --nnodes MIN:MAX"}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


def _parsed(words):
    parser = _Parser(add_help=False)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--master_addr", default="127.0.0.1")
    parser.add_argument("--master_port", type=int, default=USUAL_PORT)
    parser.add_argument("--world_info", required=True)
    for name in "module", "no_python", "no_local_rank", "bind_cores_to_rank", "enable_elastic_training":
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--save_pid", type=int, default=0)
    parser.add_argument("--enable_each_rank_log", default="None")
    for name in "bind_core_list", "min_elastic_nodes", "max_elastic_nodes":
        parser.add_argument("--" + name)
    parser.add_argument("--log_level", default="info")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(words)


def _refuse(asked):
    for name, instead in REFUSED.items():
        if getattr(asked, name, None):
            raise ValueError(f"--{name} cannot be carried out; {instead}")


def _python(asked):
    return [] if asked.no_python else [sys.executable, "-u", *(["-m"] if asked.module else [])]


def _local_rank(asked):
    return [] if asked.no_local_rank else ["--local_rank=${local_rank}"]


def _output(asked):
    folder = asked.enable_each_rank_log
    files = [] if folder == "None" else [f"--log-dir={folder}", "--redirects", "3"]
    return [*files, "--quiet"] if asked.quiet else files


def words_of(arguments):
    """The words after `dtrain`. Sets the variables that DeepSpeed's launcher sets, and dtrain does not."""
    asked = _parsed(arguments)
    _refuse(asked)
    nodes = json.loads(base64.urlsafe_b64decode(asked.world_info))
    devices = list(nodes.values())[asked.node_rank]
    from deepspeed.accelerator import get_accelerator
    get_accelerator().set_visible_devices_envs(os.environ, devices)
    os.environ.update(CROSS_RANK=str(asked.node_rank), CROSS_SIZE=str(len(nodes)), LOCAL_SIZE=str(len(devices)))
    words = ["run", "--engine", "local", "--nnodes", str(len(nodes)), "--nproc-per-node", str(len(devices))]
    if len(nodes) > 1:
        words += ["--node-rank", str(asked.node_rank), "--master-addr", asked.master_addr]
    if len(nodes) > 1 or asked.master_port != USUAL_PORT:
        words += ["--master-port", str(asked.master_port)]
    return [*words, *_output(asked), "--no-python", "--", *_python(asked), asked.program, *_local_rank(asked),
            *asked.arguments]


# ---- several nodes. DeepSpeed has a class for each of its launchers, which makes the command that starts ranks.

def _run(asked, *flags):
    _refuse(asked)
    port = [] if asked.master_port == USUAL_PORT else ["--master-port", str(asked.master_port)]
    return [DTRAIN, "run", *flags, *port, *_output(asked), "--no-python", "--"]


def _over_ssh(runner, environment, resources):
    """In place of pdsh: (the command, what ends it, its environment)."""
    asked = runner.args
    if asked.launcher_args:
        raise ValueError("--launcher_args are for pdsh, and dtrain takes ssh; DTRAIN_SSH='ssh OPTIONS' has its options")
    environment.update((name, value.strip('"')) for name, value in runner.exports.items())
    flags = ["--hosts", ",".join(f"{host}:{max(slots) + 1}" for host, slots in resources.items())]
    if any(slots != list(range(len(slots))) for slots in resources.values()):
        flags += ["--include", "@".join(f"{host}:{','.join(map(str, slots))}" for host, slots in resources.items())]
    if asked.ssh_port is not None:
        flags.append(f"--ssh=ssh -p {asked.ssh_port}")
    # What DeepSpeed's launcher of a node sets.
    node = 'CROSS_RANK=$GROUP_RANK CROSS_SIZE=$GROUP_WORLD_SIZE LOCAL_SIZE=$LOCAL_WORLD_SIZE exec "$0" "$@"'
    program = ["sh", "-c", node, *_python(asked), asked.user_script, *_local_rank(asked), *asked.user_args]
    return [*_run(asked, *flags), *program], ["true"], environment


def _by_slurm(runner, environment, resources):
    asked = runner.args
    options = shlex.split(asked.launcher_args)
    if asked.include or asked.exclude:
        options.append("--nodelist=" + ",".join(resources))
    if asked.num_gpus > 0:
        options.append(f"--gpus-per-node={asked.num_gpus}")
    if any(" " in option for option in options):
        raise ValueError("--launcher_args: an option of srun with a blank cannot be handed on; srun's own variables "
                         "(man srun, INPUT ENVIRONMENT VARIABLES) can say it")
    environment.update((name, value.strip('"')) for name, value in runner.exports.items())
    flags = ["--engine", "slurm", "--nnodes", str(len(resources)), "--nproc", str(len(next(iter(resources.values()))))]
    flags += ["--srun=" + " ".join(options)] if options else []
    return [*_run(asked, *flags), *_python(asked), asked.user_script, *asked.user_args]


def _by_mpi(own_command):
    """`own_command` is DeepSpeed's, of which all before the program is as it should be."""
    def get_cmd(runner, environment, resources):
        asked, program = runner.args, (runner.args.no_python, runner.user_script, runner.user_arguments)
        asked.no_python, runner.user_script, runner.user_arguments = True, "", []
        try:
            command = own_command(runner, environment, resources)
        finally:
            asked.no_python, runner.user_script, runner.user_arguments = program
        helper = [at for at, word in enumerate(command) if word.endswith("/launcher_helper.py")]  # MPICH's
        command = command[:helper[0] if helper else -1]
        return [*command, *_run(asked, "--engine", "mpi"), *_python(asked), asked.user_script, *asked.user_args]
    return get_cmd


def _not_carried_out(runner):
    raise ValueError(f"--launcher {runner.args.launcher} cannot be carried out; type mpirun -ppn 1 -hosts HOST,HOST "
                     "dtrain run --nproc N train.py")


def _told(function):
    def told(*arguments):
        try:
            return function(*arguments)
        except ValueError as error:
            print(f"dtrain: dtrain shim: deepspeed: {error}", file=sys.stderr)
            sys.exit(2)
    return told


def change_runners(module):
    module.PDSHRunner.backend_exists = lambda _: True
    module.PDSHRunner.get_cmd = _told(_over_ssh)
    module.SlurmRunner.get_cmd = _told(_by_slurm)
    for each in module.OpenMPIRunner, module.MPICHRunner:
        each.get_cmd = _told(_by_mpi(each.get_cmd))
    for each in module.MVAPICHRunner, module.IMPIRunner:
        each.backend_exists = _told(_not_carried_out)
