"""TFRecords one by one: 100,000 of 300 bytes from one file, plain and compressed."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import record_peers
from benchmarks.workloads.record_files import RECORD_BYTES, record_file, records

READ_AT_ONCE = 8 << 20
EXPERT_BATCH = 1024

Prepare = Callable[[Scale, str], Build]


def drumline(scale: Scale, compression: str) -> Build:
    """As a user writes it."""
    import drumline as dl

    path = record_file(scale.elements, compression)
    return lambda: dl.data.TFRecordDataset(path, compression_type=compression)


def tf_data(scale: Scale, compression: str) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)
    path = record_file(scale.elements, compression)
    return lambda: tf.data.TFRecordDataset(path, compression_type=compression)


def tf_data_expert(scale: Scale, compression: str) -> Build:
    """Large reads, batches made ahead, and these split as numpy arrays of bytes."""
    import tensorflow as tf

    tf.constant(0)
    path = record_file(scale.elements, compression)
    dataset = tf.data.TFRecordDataset(path, compression, READ_AT_ONCE)
    batches = dataset.batch(EXPERT_BATCH).prefetch(tf.data.AUTOTUNE)

    def epoch() -> Iterator[Batch]:
        for batch in batches.as_numpy_iterator():
            yield from batch

    return lambda: Epochs(epoch)


def python_by_hand(scale: Scale, compression: str) -> Build:
    """The file read whole and cut at the lengths it gives, nothing checked."""
    path = record_file(scale.elements, compression)

    def epoch() -> Iterator[Batch]:
        with gzip.open(path) if compression else open(path, "rb") as file:
            content = file.read()
        start = 12
        while start < len(content):
            length = int.from_bytes(content[start - 12 : start - 4], "little")
            yield content[start : start + length]
            start += length + 16

    return lambda: Epochs(epoch)


def list_of_bytes(scale: Scale, compression: str) -> Build:
    """A loop over a list of the records that were made before: nothing is read."""
    ready = [row.tobytes() for row in records(scale.elements)]
    return lambda: ready


def evidence(elements: Iterable[Any]) -> dict[str, Any]:
    """The digest of one epoch's records in order, and the lengths that occurred."""
    found = [element if isinstance(element, bytes) else element.numpy() for element in elements]
    digest = hashlib.sha256(b"".join(found)).hexdigest()
    return {"records": digest, "lengths": sorted({len(record) for record in found})}


measured = measured_by(evidence)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch must give the records, in order."""
    digest = hashlib.sha256(records(scale.elements).tobytes()).hexdigest()
    wanted = {"records": digest, "lengths": [RECORD_BYTES]}
    problems: Problems = {}
    for name, measurement in measurements.items():
        found = measurement.evidence
        if found["batches"] != [scale.elements]:
            counts = " or ".join(map(str, found["batches"]))
            problems[name] = f"gave {counts} records an epoch, not {scale.elements}"
        elif any(epoch != wanted for epoch in found["epochs"]):
            problems[name] = "did not give the records in order"
    return problems


def _contenders(compression: str) -> tuple[Contender, ...]:
    tensorflow = ("tensorflow-cpu", "tensorflow")
    return (
        Contender(
            "drumline",
            "TFRecordDataset",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax"), compression),
        ),
        Contender(
            "tf.data",
            "TFRecordDataset, iterated eagerly",
            ("tensorflow",),
            measured(tf_data, tensorflow, compression),
        ),
        Contender(
            "tf.data expert",
            "reads of 8 MB, batch(1024), prefetch(AUTOTUNE), as_numpy_iterator, split",
            ("tensorflow",),
            measured(tf_data_expert, tensorflow, compression),
        ),
        Contender(
            "Python",
            "the file read whole and cut by its lengths, no checksums",
            (),
            measured(python_by_hand, (), compression),
        ),
        Contender(
            "list",
            "a loop over a list of bytes that are in memory",
            (),
            measured(list_of_bytes, (), compression),
        ),
        *record_peers.contenders(measured, compression),
    )


def _workload(name: str, what: str, compression: str, floors: tuple[Floor, ...]) -> Workload:
    return Workload(
        name=name,
        title=f"{what} of 100,000 records of {RECORD_BYTES} bytes, one by one",
        unit="records",
        baseline="tf.data",
        full=Scale(elements=100_000, batch_size=1, later_epochs=3),
        quick=Scale(elements=2_000, batch_size=1, later_epochs=1),
        contenders=_contenders(compression),
        floors=floors,
        check=check,
    )


WORKLOADS = (
    _workload(
        "records",
        "TFRecord file",
        "",
        (
            Floor("later", at_least=10.0, against="tf.data"),
            Floor("later", aim=0.6, against="list"),
        ),
    ),
    _workload(
        "records_gzip",
        "GZIP TFRecord file",
        "GZIP",
        (Floor("later", at_least=1.5, against="tf.data"),),
    ),
)
