"""`python -m deepspeed.launcher.launch`, by which DeepSpeed starts the ranks of a node, as `dtrain run`."""
import argparse
import base64
import json
import os
import sys

USUAL_PORT = 29500


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


def _parsed(words):
    parser = _Parser(add_help=False)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--master_addr", default="127.0.0.1")
    parser.add_argument("--master_port", type=int, default=USUAL_PORT)
    parser.add_argument("--world_info", required=True)
    for name in "module", "no_python", "no_local_rank", "bind_cores_to_rank":
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--save_pid", type=int, default=0)
    parser.add_argument("--enable_each_rank_log", default="None")
    parser.add_argument("--bind_core_list")
    parser.add_argument("--log_level", default="info")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(words)


def _refuse(asked):
    for name in "save_pid", "bind_cores_to_rank", "bind_core_list":
        if getattr(asked, name):
            raise ValueError(f"--{name} cannot be carried out; leave it out")


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
    if asked.enable_each_rank_log != "None":
        words += ["--log-dir", asked.enable_each_rank_log, "--redirects", "3"]
    words += ["--quiet"] if asked.quiet else []
    python = [] if asked.no_python else [sys.executable, "-u", *(["-m"] if asked.module else [])]
    local_rank = [] if asked.no_local_rank else ["--local_rank=${local_rank}"]
    return [*words, "--no-python", "--", *python, asked.program, *local_rank, *asked.arguments]
