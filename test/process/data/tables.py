"""The rows that the tests of the loader read."""
import random

import numpy
import pyarrow
import pyarrow.parquet as parquet

ROWS = (1500, 0, 2200, 1)  # of the files
GROUP = 400
ALL = sum(ROWS)


def table(first, rows):
    ids = numpy.arange(first, first + rows, dtype=numpy.int64)
    pairs = numpy.stack([ids, -ids], axis=1).astype(numpy.float32).reshape(-1)
    return pyarrow.table({
        "id": ids,
        "a": (ids * 0.5).astype(numpy.float32),
        "b": (ids + 0.25).astype(numpy.float32),
        "odd": ids % 2 == 1,
        "small": (ids % 100).astype(numpy.int8),
        "byte": (ids % 200).astype(numpy.uint8),
        "short": (ids % 3000).astype(numpy.int16),
        "int": ids.astype(numpy.int32),
        "half": (ids % 1000).astype(numpy.float16),
        "double": ids / 3.0,
        "pair": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(pairs), 2),
    })


def ragged_table(rows):
    """Columns whose rows differ in length; one of the rows is very long."""
    draw = random.Random(rows)
    lists = [list(range(draw.choice((0, 0, 1, 7)))) for _ in range(rows)]
    blobs = [draw.randbytes(draw.randrange(40)) for _ in range(rows)]
    blobs[rows // 2] = draw.randbytes(50_000)
    return pyarrow.table({
        "id": numpy.arange(rows),
        "word": pyarrow.array([draw.choice(("", "one", "dix-neuf \u00e9t\u00e9s")) for _ in range(rows)]),
        "blob": pyarrow.array(blobs, pyarrow.large_binary()),
        "list": pyarrow.array(lists, pyarrow.list_(pyarrow.int64())),
        "flags": pyarrow.array([[at % 3 == 1 for at in one] for one in lists], pyarrow.list_(pyarrow.bool_())),
        "large": pyarrow.array([one[1:] for one in lists], pyarrow.large_list(pyarrow.float32())),
        "small": pyarrow.array(numpy.arange(rows) % 100, pyarrow.int8())})


def texts_table(rows, first=0):
    """Columns of lists of strings; one of the rows is very long."""
    draw = random.Random(rows + first)
    words = [[draw.choice(("", "one", "dix-neuf \u00e9t\u00e9s")) for _ in range(draw.choice((0, 0, 1, 5)))]
             for _ in range(rows)]
    blobs = [[draw.randbytes(draw.randrange(9)) for _ in row[1:]] for row in words]
    blobs[rows // 2] = [draw.randbytes(at) for at in range(300)]
    pairs = [[f"{at}", "x" * (at % 3)] for at in range(rows)]
    coded = pyarrow.ListArray.from_arrays(numpy.cumsum([0, *map(len, words)]).astype(numpy.int32), pyarrow.array(
        [word for row in words for word in row], pyarrow.string()).dictionary_encode())
    return pyarrow.table({
        "id": numpy.arange(first, first + rows),
        "words": pyarrow.array(words, pyarrow.list_(pyarrow.string())),
        "small": pyarrow.array(numpy.arange(rows) % 100, pyarrow.int8()),
        "blobs": pyarrow.array(blobs, pyarrow.large_list(pyarrow.large_binary())),
        "pairs": pyarrow.array(pairs, pyarrow.list_(pyarrow.string(), 2)),
        "word": pyarrow.array([row[0] if row else "-" for row in words]),
        "coded": coded})


def texts_of_rows(batch, name):
    """Of a batch's tensors as lists: the strings of each row, as bytes."""
    values, offsets, rows = (list(map(int, batch[name + end])) for end in ("", ".offsets", ".rows"))
    assert offsets[0] == rows[0] == 0 and offsets[-1] == len(values) and rows[-1] == len(offsets) - 1
    texts = [bytes(values[begin:end]) for begin, end in zip(offsets, offsets[1:])]
    return [texts[begin:end] for begin, end in zip(rows, rows[1:])]


def as_bytes(rows):
    return [[text if isinstance(text, bytes) else text.encode() for text in row] for row in rows]


def write_tables(folder, *tables, **options):
    """A file for each table, with these options of pyarrow's writer."""
    folder.mkdir()
    for number, one in enumerate(tables):
        parquet.write_table(one, folder / f"{number}.parquet", **options)
    return folder


def write_set(folder):
    """ROWS in files of several kinds, with what is no data beside them."""
    folder.mkdir()
    first = 0
    for number, rows in enumerate(ROWS):
        parquet.write_table(table(first, rows), folder / f"{number}.parquet", row_group_size=GROUP,
                            compression=["none", "zstd", "snappy", "none"][number])
        first += rows
    (folder / "_SUCCESS").touch()
    (folder / "_note.parquet").touch()
    return folder
