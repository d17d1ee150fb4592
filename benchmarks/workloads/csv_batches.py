"""A CSV file of 20 columns: shuffled, batched by 256, as dicts of arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import csv_peers
from benchmarks.workloads.csv_files import NAMES, columns, csv_file

BUFFER = 10_000
DEFAULTS = [0.0] * 12 + [0] * 6 + [""] * 2


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    path = csv_file(scale.elements)
    return lambda: dl.data.experimental.make_csv_dataset(
        path, scale.batch_size, num_epochs=1, shuffle_buffer_size=BUFFER
    )


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)
    path = csv_file(scale.elements)
    return lambda: tf.data.experimental.make_csv_dataset(
        path, scale.batch_size, num_epochs=1, shuffle_buffer_size=BUFFER
    )


def tf_data_expert(scale: Scale) -> Build:
    """Lines shuffled and batched as strings, and whole batches parsed on every core."""
    import tensorflow as tf

    tf.constant(0)
    path = csv_file(scale.elements)

    def parse(lines: Any) -> dict[str, Any]:
        return dict(zip(NAMES, tf.io.decode_csv(lines, DEFAULTS), strict=True))

    def build() -> Iterable[Batch]:
        return (
            tf.data.TextLineDataset(path, buffer_size=8 << 20)
            .skip(1)
            .shuffle(BUFFER)
            .batch(scale.batch_size)
            .map(parse, num_parallel_calls=os.cpu_count())
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def pyarrow_by_hand(scale: Scale) -> Build:
    """The file read whole on every core, permuted, and cut into batches of numpy arrays."""
    import pyarrow as pa
    from pyarrow import csv

    path = csv_file(scale.elements)
    kinds = {"x": pa.float32(), "n": pa.int32(), "s": pa.binary()}
    options = csv.ConvertOptions(column_types={name: kinds[name[0]] for name in NAMES})

    def epoch() -> Iterator[Batch]:
        table = csv.read_csv(path, convert_options=options)
        order = np.random.permutation(table.num_rows)
        arrays = {name: table[name].to_numpy()[order] for name in NAMES}
        for start in range(0, table.num_rows, scale.batch_size):
            yield {name: a[start : start + scale.batch_size] for name, a in arrays.items()}

    return lambda: Epochs(epoch)


def evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """What one epoch's rows hold whatever their order, and whether that is the file's."""
    found = [{name: np.asarray(batch[name]) for name in NAMES} for batch in batches]
    rows = {name: np.concatenate([batch[name] for batch in found]) for name in NAMES}
    return {
        "content": content(rows),
        "rows": len(rows["n0"]),
        "dtypes": [_dtype(rows[name]) for name in ("x0", "n0", "s0")],
        "first": rows["n0"][:32].tolist(),
    }


def _dtype(column: np.ndarray) -> str:
    """Its name; strings are strings whether they are objects or packed, as numpy stacks them."""
    return "string" if column.dtype.kind in "OSU" else column.dtype.name


def content(rows: Mapping[str, np.ndarray]) -> str:
    """A digest of rows that does not depend on their order."""
    parts = []
    for name in NAMES:
        column = rows[name]
        if name[0] == "s":
            column = np.array([int(text[1:]) for text in column])
        parts.append(column.astype(np.float32).astype(np.float64))
    table = np.stack(parts, axis=1)
    return hashlib.sha256(table[np.lexsort(table.T)].tobytes()).hexdigest()


measured = measured_by(evidence)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch must give all rows of the file, in another order."""
    table = columns(scale.elements)
    texts = {name: [b"w%d" % n for n in table[name]] for name in NAMES if name[0] == "s"}
    wanted = content({**table, **{name: np.array(text, object) for name, text in texts.items()}})
    in_order = table["n0"][:32].tolist()
    problems: Problems = {}
    for name, measurement in measurements.items():
        for epoch in measurement.evidence["epochs"]:
            if epoch["rows"] != scale.elements or epoch["content"] != wanted:
                problems[name] = "did not give the file's rows"
            elif epoch["dtypes"] != ["float32", "int32", "string"]:
                problems[name] = f"gave dtypes {epoch['dtypes']}"
            elif epoch["first"] == in_order:
                problems[name] = "did not shuffle"
    return problems


WORKLOAD = Workload(
    name="csv_batches",
    title="A CSV file of 100,000 rows and 20 columns: shuffle(10000), batch(256)",
    unit="rows",
    baseline="tf.data",
    full=Scale(elements=100_000, batch_size=256, later_epochs=3),
    quick=Scale(elements=5_000, batch_size=256, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "make_csv_dataset",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "make_csv_dataset",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "lines shuffled, batched, and parsed by decode_csv on every core",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "pyarrow",
            "pyarrow.csv.read_csv of the whole file, permuted and cut",
            ("pyarrow",),
            measured(pyarrow_by_hand, ("pyarrow",)),
        ),
        *csv_peers.contenders(measured),
    ),
    floors=(Floor("later", at_least=5.0, against="tf.data"),),
    check=check,
    timeout_s=400.0,
)
