"""Ray Data, on the cluster that RAY_ADDRESS names or that runs on this host; else on one that begins and ends here."""
import contextlib
import logging
import os
import tempfile
import time

from . import stores
from .parts import GROUP_ROWS, Refused, setting

PATIENCE = 60  # seconds, until all nodes have said what they see
LONGEST = 24  # bytes of a folder in which Ray's can be: sockets are in it, whose paths Linux keeps short


def short_folder():
    return next((path for path in (os.environ.get("TMPDIR", "/tmp"), "/tmp") if len(path) <= LONGEST), None)


def has_joined(ray):
    """Whether there is a cluster. RAY_ADDRESS=local says, as it does to Ray, to look for none."""
    named = os.environ.get("RAY_ADDRESS", "")
    if named == "local":
        return False
    try:
        ray.init(address="auto", logging_level="warning")
    except ConnectionError as error:
        if named:
            raise Refused(f"RAY_ADDRESS={named}: {error}") from None
        return False
    return True


@contextlib.contextmanager
def cluster():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    with contextlib.ExitStack() as ends:
        ends.callback(ray.shutdown)
        if not has_joined(ray):
            folder = ends.enter_context(
                tempfile.TemporaryDirectory(prefix="ray-", dir=short_folder(), ignore_cleanup_errors=True))
            ends.callback(ray.shutdown)  # before its folder goes
            ray.init(address="local", include_dashboard=False, logging_level="warning", _temp_dir=folder)
        yield


def check_nodes(folder, known):
    """Those that are not `known` yet. All write into the folder, and what one wrote into its own would be missing."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    @ray.remote(num_cpus=0, max_retries=0)
    def cannot():
        if not os.path.isdir(folder):
            return "does not see"
        return "" if os.access(folder, os.W_OK | os.X_OK) else "may not write into"

    asked = []
    for node in ray.nodes():
        if node["Alive"] and node["NodeID"] not in known:
            known.add(node["NodeID"])
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked.append((node["NodeManagerAddress"], cannot.options(scheduling_strategy=there).remote()))
    wrong, until = [], time.monotonic() + PATIENCE
    for address, answer in asked:
        try:
            why = ray.get(answer, timeout=max(0, until - time.monotonic()))
        except ray.exceptions.RayError as error:
            why = str(error).partition("\n")[0]
            wrong.append(f"Ray's node {address} does not say whether it sees {folder}: {why}")
            continue
        if why:
            wrong.append(f"Ray's node {address} {why} {folder}, so its rows would be missing")
    if wrong:
        raise Refused("; ".join(wrong) + "; choose a folder that all nodes have")


def ray_result(load, files, folder):
    with cluster():
        import ray.data
        folder = os.path.abspath(folder)
        os.makedirs(folder)
        known = {ray.get_runtime_context().get_node_id()}
        check_nodes(folder, known)
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        paths, options = stores.together(files)
        dataset = ray.data.read_parquet(paths, override_num_blocks=setting("DTRAIN_PARALLELISM"), **options)
        if setting("DTRAIN_PERSIST"):
            dataset = dataset.materialize()
        result = load()(dataset)
        if not isinstance(result, ray.data.Dataset):
            raise Refused(f"process() returned a {type(result).__name__}; return a ray.data.Dataset")
        result.write_parquet(folder, row_group_size=GROUP_ROWS)
        check_nodes(folder, known)  # those that have come meanwhile
