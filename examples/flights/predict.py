"""For dtrain predict: the delay of each flight at its arrival, in minutes, as it was and as train_flights says it.

    dtrain predict --config job.yaml --recipe config --filter --keep day,flight predict.py FLIGHTS.csv OUTPUT RUNS

RUNS has the checkpoints. FLIGHTS.csv has raw rows: dtrain does with them what it did with those of training. The
network is small, so numpy is enough."""
import json
import os
import pathlib
import struct
import sys

import numpy

checkpoints, recipe = pathlib.Path(sys.argv[1]), pathlib.Path(os.environ["DTRAIN_RECIPE"])


def read_safetensors(path):
    """The tensors by name; all are float32."""
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[8 + size:][slice(*about["data_offsets"])], "<f4").reshape(about["shape"])
            for name, about in header.items()}


weights = read_safetensors(max(checkpoints.glob("step-*")) / "model.safetensors")
# Preprocessing has brought the delays to mean 0 and deviation 1.
scale = next(found for found in json.loads(recipe.read_text())["statistics"] if found["column"] == "arr_delay")


def layer(name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def predict(table):
    columns = {name: table[name].to_numpy() for name in table.column_names}
    x = numpy.concatenate([numpy.stack([columns[name] for name in ("month", "hour", "distance", "dep_delay")], axis=1),
                           weights["carrier.weight"][columns["carrier"]],
                           weights["origin.weight"][columns["origin"]],
                           weights["destination.weight"][columns["dest"]]], axis=1)
    x = numpy.maximum(layer("first", x), 0)
    y = layer("last", numpy.maximum(layer("second", x), 0))[:, 0]
    return {"day": table["day"], "flight": table["flight"],
            "minutes": columns["arr_delay"] * scale["deviation"] + scale["mean"],
            "predicted": y * scale["deviation"] + scale["mean"]}
