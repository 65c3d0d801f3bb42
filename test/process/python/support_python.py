"""A Python that has torch, dtrain's package and PySpark."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "launcher"))

PYTHON = str(TOP / ".venv/bin/python")
JOB = str(HERE / "job.py")


def environment(cloudpickle=True, **more):
    """cloudpickle: PySpark's."""
    build = pathlib.Path(os.environ.get("DTRAIN_BIN_DIR", TOP / "build/bin")).resolve().parent
    paths = [str(build / "python")]
    if cloudpickle:
        paths += [str(path) for path in TOP.glob(".venv-spark/lib/python*/site-packages")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", **more}


def start_job(case, words, variables, folder, program=JOB):
    """job.py or another program, in a folder."""
    job = subprocess.Popen([PYTHON, program, *words], env=variables, cwd=folder, text=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    case.addCleanup(job.stdout.close)
    return job
