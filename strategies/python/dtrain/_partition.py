"""What a rank of TorchDistributor.train_on_dataframe() reads: its rows of the DataFrame, in a file of Arrow's."""
import itertools
import json
import os

import numpy
import pyarrow
import torch

NUMBERS = "byte", "short", "integer", "long", "float", "double"
VECTOR = "pyspark.ml.linalg.VectorUDT"


def _number(scalar):
    value = scalar.as_py()
    return float("nan") if value is None else value


def _array(scalar):
    values = scalar.values
    if pyarrow.types.is_list(values.type):
        return numpy.stack([_array(each) for each in values])
    return values.to_numpy(zero_copy_only=False)


def _vector(scalar):
    parts = scalar.as_py()
    values = numpy.asarray(parts["values"], numpy.float64)
    if parts["type"] == 1:  # dense
        return values
    whole = numpy.zeros(parts["size"], numpy.float64)
    whole[parts["indices"]] = values
    return whole


def _reader(name, kind):
    """What makes a value for a batch of a column's value. kind: the type, as in the JSON of a schema."""
    if kind in NUMBERS:
        return _number
    if kind in ("boolean", "string"):
        return lambda scalar: scalar.as_py()
    if isinstance(kind, dict) and kind.get("pyClass") == VECTOR:
        return _vector
    inner = kind
    while isinstance(inner, dict) and inner["type"] == "array":
        inner = inner["elementType"]
    if inner is not kind and inner in NUMBERS:
        return _array
    shown = kind if isinstance(kind, str) else kind["type"]
    raise ValueError(f"the column {name} has the type {shown}, of which no batch can be made: give it numbers, texts, "
                     "or arrays of numbers")


class Rows(torch.utils.data.IterableDataset):
    """The first num_samples rows, each a list of the columns' values; after the last row it begins again."""

    def __init__(self, path, schema, num_samples):
        self.path, self.num_samples = path, num_samples
        self.readers = [_reader(field["name"], field["type"]) for field in schema["fields"]]

    def _once(self):
        with open(self.path, "rb") as file, pyarrow.ipc.open_stream(file) as batches:
            for batch in batches:
                columns = [map(read, column) for read, column in zip(self.readers, batch.columns)]
                yield from map(list, zip(*columns))

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        # Not cycle(), which would keep all rows.
        rows = itertools.chain.from_iterable(self._once() for _ in itertools.count())
        return itertools.islice(rows, first, self.num_samples, step)


def get_spark_partition_data_loader(num_samples, batch_size, num_workers=1, prefetch_factor=2):
    """A DataLoader over this rank's rows of the DataFrame. num_samples: how many rows there are in an epoch; the loader
    begins again with the first row where there are fewer. Of several workers, each reads the file and makes batches of
    its share of the rows."""
    try:
        path, schema = os.environ["SPARK_PARTITION_ARROW_DATA_FILE"], os.environ["SPARK_DATAFRAME_SCHEMA_FILE"]
    except KeyError:
        raise RuntimeError("this rank has no rows of a DataFrame: call this in the function that "
                           "TorchDistributor.train_on_dataframe() runs") from None
    with open(schema, encoding="utf-8") as file:
        rows = Rows(path, json.load(file), num_samples)
    return torch.utils.data.DataLoader(rows, batch_size, num_workers=num_workers,
                                       prefetch_factor=prefetch_factor if num_workers else None)
