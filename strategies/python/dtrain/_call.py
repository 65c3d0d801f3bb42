"""What each rank of a function runs, for dtrain.run(): python _call.py FOLDER. The caller copies this file into FOLDER,
and finds there what has become of the call."""
import contextlib
import importlib
import os
import pickle
import sys
import time
import traceback


def cloudpickle():
    """By which functions and classes of a notebook reach other processes. PySpark and Ray have it in them."""
    for name in "cloudpickle", "pyspark.cloudpickle", "ray.cloudpickle":
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def dumps(value):
    return (cloudpickle() or pickle).dumps(value)


def save(path, value):
    """The whole of it or nothing."""
    text = dumps(value)
    with open(f"{path}.{os.getpid()}", "wb") as file:
        file.write(text)
    os.replace(file.name, path)


def without_surprise(error):
    """The pickled exception, or nothing if it cannot be made again from that."""
    try:
        text = dumps(error)
        return text if isinstance(pickle.loads(text), BaseException) else None
    except Exception:
        return None


def choose_partition():
    """Of a DataFrame's rows (dtrain.spark): a node with several ranks has a file for each."""
    name = "SPARK_PARTITION_ARROW_DATA_FILE"
    paths = os.environ.get(name, "").split(":")
    if len(paths) > 1:
        os.environ[name] = paths[int(os.environ["LOCAL_RANK"])]


def main(folder):
    """Leaves what the rank has come to, in the job's round: the caller looks at the last round alone."""
    choose_partition()
    rank = os.environ["RANK"]
    round_folder = os.path.join(folder, "round-" + os.environ["DTRAIN_ROUND"])
    with contextlib.suppress(FileExistsError):
        os.mkdir(round_folder)  # and not the job's, which is gone with a caller that was killed
    with open(os.path.join(folder, "call"), "rb") as file:
        paths = pickle.load(file)
        sys.path[:] = paths + [path for path in sys.path[1:] if path not in paths]
        try:
            function, args, kwargs = pickle.load(file)
            value = function(*args, **kwargs)
            if rank == "0":
                save(os.path.join(round_folder, "value"), value)
        except Exception as error:
            save(os.path.join(round_folder, f"error-{rank}"),
                 {"rank": int(rank), "when": time.time(), "error": without_surprise(error),
                  "text": "".join(traceback.format_exception(type(error), error, error.__traceback__))})
            raise


if __name__ == "__main__":
    place = sys.argv.pop(1)  # what follows is the function's
    main(place)
