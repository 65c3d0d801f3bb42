"""launch_agent() of torch.distributed.launcher.api, carried out by dtrain. `dtrain shim` puts it there.

Run as a program it is what each rank of a function runs: python _dtrain_shim.py FOLDER."""
import contextlib
import ctypes
import importlib
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import spawn

HERE = os.path.dirname(os.path.realpath(__file__))
TORCHRUN = os.path.join(os.path.dirname(HERE), "bin", "torchrun")
PR_SET_PDEATHSIG = 1
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


# ---- what torch's configuration is in torchrun's flags

def _streams(value):
    """A Std, or one for each local rank."""
    if isinstance(value, dict):
        return ",".join(f"{rank}:{int(each)}" for rank, each in value.items())
    return str(int(value))


def _is_torchs_own(folder):
    """torch makes one where the caller has named none. It is removed: dtrain has its own."""
    if not folder or not re.fullmatch(re.escape(tempfile.gettempdir()) + r"/torchelastic_\w{8}", folder):
        return False
    try:
        os.rmdir(folder)
    except FileNotFoundError:  # of a configuration that is used again
        pass
    except OSError:
        return False
    return True


def _log_flags(specs):
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    if type(specs) is not DefaultLogsSpecs:
        raise ValueError(f"dtrain shim: logs_specs is a {type(specs).__name__}, and only DefaultLogsSpecs can be "
                         "carried out; log_dir, redirects, tee and local_ranks_filter say what it can do")
    flags = {"redirects": _streams(specs._redirects), "tee": _streams(specs._tee)}
    flags["log-dir"] = None if _is_torchs_own(specs._root_log_dir) else specs._root_log_dir
    if specs._local_ranks_filter:
        flags["local-ranks-filter"] = ",".join(map(str, sorted(specs._local_ranks_filter)))
    return flags


def _flags(config):
    rendezvous = dict(config.rdzv_configs)
    alone = config.max_nodes == 1 and config.rdzv_backend != "static"  # such a node meets nobody
    flags = {"nnodes": f"{config.min_nodes}:{config.max_nodes}", "nproc-per-node": config.nproc_per_node,
             "rdzv-backend": config.rdzv_backend, "rdzv-endpoint": "" if alone else config.rdzv_endpoint,
             "rdzv-id": config.run_id, "node-rank": rendezvous.pop("rank", None),
             "rdzv-conf": ",".join(f"{name}={value}" for name, value in rendezvous.items()),
             "max-restarts": config.max_restarts, "role": config.role, "local-addr": config.local_addr,
             "log-line-prefix-template": config.log_line_prefix_template,
             "event-log-handler": config.event_log_handler, **_log_flags(config.logs_specs)}
    if config.min_nodes == config.max_nodes:
        flags["nnodes"] = config.min_nodes
    for name in "signals_to_handle", "shutdown_timeout":  # which older ones of torch have not
        flags[name.replace("_", "-")] = getattr(config, name, None)
    for name in "duplicate_stdout_filters", "duplicate_stderr_filters":
        flags[name.replace("_", "-")] = ",".join(getattr(config, name, None) or [])
    if getattr(config, "numa_options", None) is not None:
        flags["numa-binding"] = config.numa_options.affinity_mode.value
    words = [f"--{name}={value}" for name, value in flags.items() if value not in (None, "")]
    return words + (["--virtual-local-rank"] if getattr(config, "virtual_local_rank", False) else [])


# ---- a function on each rank

def _cloudpickle():
    for name in "cloudpickle", "pyspark.cloudpickle", "ray.cloudpickle":
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def _dumps(value):
    """Ranks import the caller's program as multiprocessing's spawn does, so a plain pickle reaches what is in it."""
    has_file = hasattr(sys.modules["__main__"], "__file__")
    try:
        if has_file:
            return pickle.dumps(value)
        problem = "it is in no file that ranks could import"
    except Exception as error:
        problem = str(error)
    if not _cloudpickle():
        raise TypeError(f"dtrain shim: the function cannot reach other processes: {problem}. "
                        f"{sys.executable} -m pip install cloudpickle")
    return _cloudpickle().dumps(value)


def _save_call(folder, function, args):
    place = spawn.get_preparation_data("worker")
    place.pop("authkey", None)
    with open(os.path.join(folder, "call"), "wb") as file:
        file.write(pickle.dumps(place))
        file.write(_dumps((function, args)))


def _run_call(folder):
    process = multiprocessing.current_process()
    process._inheriting = True  # by which a main program is found out that starts a job wherever it is imported
    try:
        with open(os.path.join(folder, "call"), "rb") as file:
            spawn.prepare(pickle.load(file))
            function, args = pickle.load(file)
    finally:
        del process._inheriting
    from torch.distributed.elastic.multiprocessing.errors import record
    # As torch does in words of a program and in texts for a function.
    args = [string.Template(each).safe_substitute(local_rank=os.environ["LOCAL_RANK"]) if isinstance(each, str) else
            each for each in args]
    value = record(function)(*args)
    round_folder = os.path.join(folder, "round-" + os.environ["DTRAIN_ROUND"])
    with contextlib.suppress(FileExistsError):
        os.mkdir(round_folder)
    whole = os.path.join(round_folder, os.environ["RANK"])
    with open(whole + ".part", "wb") as file:
        file.write(_dumps(value))
    os.replace(whole + ".part", whole)


def _values(folder):
    """Of the ranks on this node, in the last round."""
    rounds = sorted((name for name in os.listdir(folder) if name.startswith("round-")), key=lambda name: int(name[6:]))
    values = {}
    for name in os.listdir(os.path.join(folder, rounds[-1])) if rounds else []:
        if name.isdigit():
            with open(os.path.join(folder, rounds[-1], name), "rb") as file:
                values[int(name)] = pickle.load(file)
    return dict(sorted(values.items()))


# ---- the job

def _dies_with_us(parent, libc=ctypes.CDLL(None)):
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


def run(called, words, signals=SIGNALS, environment=None, caught=None):
    """dtrain's exit code; `called` is the name by which it does what is asked. The caller's signals go to it, and into
    the list `caught`."""
    parent = os.getpid()
    process = None
    caught = [] if caught is None else caught

    def forward(number, _frame=None):
        caught.append(number)
        if process is not None:
            process.send_signal(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in signals.split(","):
            number = getattr(signal, name.strip(), None)
            if number is not None:
                before[number] = signal.signal(number, forward)
    try:
        # A group of its own: of the two signals that Ctrl-C would be, dtrain would take the second for haste.
        process = subprocess.Popen([called, *words], executable=TORCHRUN, env=environment,
                                   preexec_fn=lambda: (os.setpgid(0, 0), _dies_with_us(parent)))
        for number in caught:
            process.send_signal(number)
        return process.wait()
    finally:
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _run_as_torch(words, config):
    """Its exit code. A signal becomes torch's exception after the job's end."""
    from torch.distributed.elastic.multiprocessing import SignalException
    caught = []
    code = run("torchrun", words, getattr(config, "signals_to_handle", SIGNALS), _environment(), caught)
    if caught:
        raise SignalException(f"Process {os.getpid()} got signal: {caught[0]}", sigval=signal.Signals(caught[0]))
    return code


def _environment():
    """Without what torchrun would take for flags, and launch_agent() does not. All others are given as flags."""
    flags = "PET_MODULE", "PET_NO_PYTHON", "PET_RUN_PATH", "PET_STANDALONE", "PET_LOG_DIR"
    return {name: value for name, value in os.environ.items() if name not in flags}


def _exit_code(worker):
    status = worker["status"]
    return -status["signal"] if status["kind"] == "signaled" else status.get("exit_code", 1)


def _error_file(folder, worker):
    """As @record has written it."""
    path = os.path.join(folder, f"error-{worker['rank']}.json")
    error = worker["error_file"]
    if error:
        message = error["message"] or error["note"] or "no message"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": {"message": message, "extraInfo": {
                "py_callstack": error["traceback"] or message,
                "timestamp": str(error["timestamp"] or int(time.time()))}}}, file)
    return path


def _failure(name, folder, code):
    """torch's exception, whose first failure is the one that dtrain blames."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
    try:
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
    except (OSError, ValueError):
        why = "has said why" if code > 0 else "was killed"
        return RuntimeError(f"{name}: dtrain has ended with exit code {code}, and {why}")
    workers = [*([report["first_failure"]] if report["first_failure"] else []), *report["other_failures"]]
    failures = {}
    first = None
    for worker in workers or report["stopped_by_dtrain"]:
        failure = ProcessFailure(worker["local_rank"], worker["pid"] or 0, _exit_code(worker),
                                 _error_file(folder, worker))
        first = first or failure
        failure.timestamp = max(failure.timestamp, first.timestamp)  # whom torch takes for the first
        failures[worker["rank"]] = failure
    if not failures:
        return RuntimeError(f"{name}: {report['reason']} (exit code {code})")
    return ChildFailedError(name, failures)


def _clear(folder):
    """A report and the files of errors stay: dtrain has named the first, and @record reads the others."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        elif not name.endswith(".json"):
            os.unlink(path)
    if not os.listdir(folder):
        os.rmdir(folder)


def launch_agent(config, entrypoint, args, health_check_server=None):
    """Runs `entrypoint` with `args` on the ranks of this node: a function, or a program. Returns the values of the
    function by rank; None for each rank of a program, if the job has one node."""
    spawn._check_not_importing_main()
    if not entrypoint:
        raise ValueError("dtrain shim: there is no entrypoint")
    if health_check_server is not None:
        raise ValueError("dtrain shim: a health_check_server cannot be carried out")
    flags = _flags(config)
    name = sys.modules["torch.distributed.launcher.api"]._get_entrypoint_name(entrypoint, args)
    folder = tempfile.mkdtemp(prefix="dtrain-shim-")
    report = os.path.join(folder, "report.json")
    try:
        if callable(entrypoint):
            _save_call(folder, entrypoint, args)
            program = [spawn.get_executable(), "-u", os.path.realpath(__file__), folder]
        else:
            program = [entrypoint, *map(str, args)]
        code = _run_as_torch([*flags, f"--report={report}", "--no-python", *program], config)
        if code:
            raise _failure(name, folder, code)
        if callable(entrypoint):
            return _values(folder)
        return dict.fromkeys(range(config.nproc_per_node)) if config.max_nodes == 1 else {}
    finally:
        _clear(folder)


if __name__ == "__main__":
    _run_call(sys.argv[1])
