"""What tasks of Spark run, for `dtrain run --engine spark`, after shim.py."""
import os

# What Spark sets for its executors, the cluster's secret and passwords among it, and for its own Python workers.
OF_SPARK = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "OMP_NUM_THREADS")
OF_SPARK_BEGIN = ("SPARK_", "_SPARK_", "PYSPARK_", "PYTHON_WORKER_", "PYTHON_DAEMON_", "PYTHON_UDF_")


def run_agent(program, order, more):
    """In a task: its agent, with `more` in the environment. Returns the agent's exit code, and why there was none."""
    from pyspark import TaskContext
    context = TaskContext.get()
    env = {name: value for name, value in os.environ.items()
           if name not in OF_SPARK and not name.startswith(OF_SPARK_BEGIN)}
    gpus = context.resources().get("gpu")
    if gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus.addresses)
    return run_relay(program, {**order, "agent": context.partitionId()}, {**env, **more})


def must_run_agent(program, order, more):
    """The same of a barrier stage, which fails with any of its tasks."""
    code, why = run_agent(program, order, more)
    if why:
        raise RuntimeError(f"dtrain: {why}")
    return code


def barrier_task(program, order):
    def run(_):
        yield must_run_agent(program, order, {})

    return run


def new_ends(context):
    """{agent: why it has ended}, which tasks add to. The driver gets what a task adds when the task is over."""
    from pyspark import AccumulatorParam

    class Ends(AccumulatorParam):
        def zero(self, _):
            return {}

        def addInPlace(self, ends, more):
            return {**ends, **more}

    return context.accumulator({}, Ends())


def plain_task(program, order, ends):
    """Of a job that goes on without nodes: its stage goes on without executors. Spark starts the tasks of a lost one
    anew, which does not bring their nodes back."""
    def run(_):
        from pyspark import TaskContext
        context = TaskContext.get()
        if context.attemptNumber() == 0:
            code, why = run_agent(program, order, {})
            ends.add({context.partitionId(): why or f"its relay has ended with {code}"})
        return iter(())

    return run


def deal(batches, files):
    """Writes Arrow's batches into files, row by row in turn. Returns how many rows there are."""
    import pyarrow
    rows, writers = 0, []
    for batch in batches:
        writers = writers or [pyarrow.ipc.new_stream(file, batch.schema) for file in files]
        for i, writer in enumerate(writers):
            mine = range((i - rows) % len(files), batch.num_rows, len(files))
            writer.write_batch(batch if len(files) == 1 else batch.take(pyarrow.array(mine, pyarrow.int64())))
        rows += batch.num_rows
    for writer in writers:
        writer.close()
    for file in files:
        file.flush()
    return rows


def data_task(program, order, schema, readers):
    """A barrier task whose ranks read its partition. The files have no names in a folder: whatever ends, the kernel
    frees them with the last process that has them open. As long as this process has, others find them in /proc."""
    def run(batches):
        import contextlib
        import tempfile

        import pyarrow
        from pyspark import BarrierTaskContext
        context = BarrierTaskContext.get()
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None

        with contextlib.ExitStack() as stack:
            def new_file():
                file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
                return file, f"/proc/{os.getpid()}/fd/{file.fileno()}"

            files, paths = zip(*[new_file() for _ in range(readers)])
            rows = [int(told) for told in context.allGather(str(deal(batches, files)))]
            short = [i for i, count in enumerate(rows) if count < readers]
            if short:
                # Longer texts come cut to the caller.
                raise RuntimeError(f"dtrain: partition {short[0]} of {len(rows)} has {rows[short[0]]} rows for "
                                   f"{readers} ranks, all have {sum(rows)}: see python.md")
            described, place = new_file()
            described.write(schema.encode())
            described.flush()
            code = must_run_agent(program, order, {"SPARK_PARTITION_ARROW_DATA_FILE": ":".join(paths),
                                              "SPARK_DATAFRAME_SCHEMA_FILE": place})
        yield pyarrow.RecordBatch.from_pydict({"code": pyarrow.array([code], pyarrow.int32())})

    return run
