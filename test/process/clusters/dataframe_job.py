"""A program that trains on DataFrames in its session of Spark, for spark_test.py. A task there has two GPUs."""
import json
import os
import signal
import sys
import tempfile

from pyspark.ml.linalg import SparseVector, Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, IntegerType, StringType, StructField, StructType

from dtrain.spark import RunError, TorchDistributor, get_spark_partition_data_loader

DATA, SCHEMA = "SPARK_PARTITION_ARROW_DATA_FILE", "SPARK_DATAFRAME_SCHEMA_FILE"
MIXED = StructType([StructField("text", StringType()), StructField("yes", BooleanType()),
                    StructField("number", DoubleType()), StructField("nested", ArrayType(ArrayType(IntegerType()))),
                    StructField("vector", VectorUDT())])
ROWS = [("a", True, None, [[1, 2], [3, 4]], SparseVector(3, [1], [5.0])),
        ("b", False, 0.5, [[5, 6], [7, 8]], Vectors.dense([1, 2, 3]))]


def show(what, *values):
    print(f"\n{what}:", json.dumps(values), flush=True)  # after what Spark may have written on the line


def epochs(count):
    """What Spark's loader and dtrain's give, without and with a worker."""
    from pyspark.ml.torch.distributor import _get_spark_partition_data_loader as of_spark
    loaders = [make(count, 2, num_workers=workers) for make in (of_spark, get_spark_partition_data_loader)
               for workers in (0, 1)]
    found = [[[(str(column.dtype), column.tolist()) for column in batch] for batch in loader] for loader in loaders]
    show("of rank", os.environ["RANK"], sorted({each for ids, *_ in found[0] for each in ids[1]}))
    return found


def ids():
    import pyarrow
    with open(os.environ[DATA], "rb") as file:
        show("of rank", os.environ["RANK"], pyarrow.ipc.open_stream(file).read_all().column("id").to_pylist())


def batch():
    return [getattr(column, "tolist", lambda: column)()
            for column in next(iter(get_spark_partition_data_loader(2, 2, 0)))]


def breaks():
    if os.environ["RANK"] == "1":
        raise KeyError("of rank 1")
    signal.pause()


def waits():
    show("holds", os.stat(os.environ[DATA]).st_size, os.readlink(os.environ[DATA]))
    signal.pause()


def date():
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump({"fields": [{"name": "day", "type": "date"}]}, file)
        file.flush()
        os.environ.update({DATA: "", SCHEMA: file.name})
        return get_spark_partition_data_loader(1, 1)


def failure(call, *words):
    try:
        call(*words)
    except Exception as error:
        show("failure", type(error).__name__, str(error), "in breaks" in str(error.__cause__))


def main():
    spark = SparkSession.builder.getOrCreate()
    one, two = TorchDistributor(1, False, False), TorchDistributor(2, False, False)
    numbers = spark.range(8).selectExpr("id", "cast(id as float) x", "array(id, 2 * id) pair").repartition(2, "id")
    show("partitions", [[row.id for row in part] for part in numbers.rdd.glom().collect()])
    spark_s, spark_s_worker, ours, ours_worker = two._train_on_dataframe(epochs, numbers, 11)
    show("epochs", spark_s == ours, spark_s_worker == ours_worker, [len(ids[1]) for ids, *_ in ours])
    TorchDistributor(4, False).train_on_dataframe(ids, numbers.repartition(3))
    show("mixed", one.train_on_dataframe(batch, spark.createDataFrame(ROWS, MIXED)))
    failure(two.train_on_dataframe, breaks, numbers)
    failure(two.train_on_dataframe, batch, spark.range(1))
    failure(one.train_on_dataframe, batch, spark.sql("select make_interval(1) gap"))
    failure(one.train_on_dataframe, "train.py", numbers)
    failure(one.train_on_dataframe, batch, ROWS)
    failure(TorchDistributor(2, use_gpu=False).train_on_dataframe, batch, numbers)
    failure(batch)
    failure(date)
    try:
        two.train_on_dataframe(waits, numbers)  # until an executor is killed
    except RunError as error:
        show("code", error.code)
    one.train_on_dataframe(waits, numbers)  # on the executor that is left, until this program is killed


if __name__ == "__main__":
    sys.exit(main())
