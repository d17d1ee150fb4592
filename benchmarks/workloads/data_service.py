"""A Python function of about a millisecond of numpy on the two workers of a local service."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.digest import order_digest
from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import tf_data_servers

WIDTH = 16_384
WORKERS = 2


def work(index: Any) -> np.ndarray:
    """About a millisecond on one core; an array of as many float32."""
    value = np.arange(WIDTH) + float(index)
    for _ in range(4):
        value = np.sin(value) + 0.5 * np.cos(value)
    # Other libraries may differ in the last bits.
    return np.round(value, 2).astype(np.float32)


def drumline_service(scale: Scale) -> Build:
    """On a Ray cluster on this machine."""
    import logging

    import jax
    import ray

    import drumline as dl

    jax.devices("cpu")
    ray.init(
        "local",
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )

    def build() -> Iterable[Batch]:
        mapped = dl.data.Dataset.range(scale.elements).map(work)
        return mapped.distribute(workers=WORKERS).batch(scale.batch_size)

    return build


def drumline_here(scale: Scale, calls: int | None) -> Build:
    """In this process; ``calls`` is ``num_parallel_calls``."""
    import jax

    import drumline as dl

    jax.devices("cpu")

    def build() -> Iterable[Batch]:
        mapped = dl.data.Dataset.range(scale.elements).map(work, num_parallel_calls=calls)
        return mapped.batch(scale.batch_size)

    return build


def tf_service(scale: Scale) -> Build:
    """As TensorFlow's guide writes it: Python functions need servers in their own process."""
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.partition("://")[2]
    servers = [
        service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
        for _ in range(WORKERS)
    ]

    def build() -> Iterable[Batch]:
        assert len(servers) == WORKERS
        return _served(
            tf.data.Dataset.range(scale.elements).map(
                lambda index: tf.numpy_function(work, [index], tf.float32)
            ),
            dispatcher.target,
            scale.batch_size,
        )

    return build


def tf_service_expert(scale: Scale) -> Build:
    """The function written in TensorFlow's operations, which run in processes of their own."""
    import tensorflow as tf

    def compute(index: Any) -> Any:
        value = tf.range(WIDTH, dtype=tf.float64) + tf.cast(index, tf.float64)
        for _ in range(4):
            value = tf.sin(value) + 0.5 * tf.cos(value)
        return tf.cast(tf.round(value * 100) / 100, tf.float32)

    def build() -> Iterable[Batch]:
        mapped = tf.data.Dataset.range(scale.elements).map(compute)
        return _served(mapped, f"grpc://{dispatcher}", scale.batch_size)

    dispatcher = tf_data_servers.start(build)
    for _ in range(WORKERS):
        tf_data_servers.start(build, dispatcher)
    return build


def _served(mapped: Any, target: str, batch_size: int) -> Any:
    import tensorflow as tf

    service = tf.data.experimental.service
    shared = mapped.apply(service.distribute(service.ShardingPolicy.DYNAMIC, target))
    return shared.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def numpy_by_hand(scale: Scale) -> Build:
    """A loop on one thread."""

    def epoch() -> Iterator[Batch]:
        for start in range(0, scale.elements, scale.batch_size):
            stop = min(start + scale.batch_size, scale.elements)
            yield np.stack([work(index) for index in range(start, stop)])

    return lambda: Epochs(epoch)


def batch_evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """Digests of one epoch's rows as hundredths, in order and sorted, and the dtypes."""
    arrays = [np.array(batch) for batch in batches]
    hundredths = [np.rint(array * 100.0).astype(np.int64) for array in arrays]
    rows = sorted(hashlib.sha256(row.tobytes()).digest() for part in hundredths for row in part)
    return {
        "order": order_digest(hundredths),
        "content": hashlib.sha256(b"".join(rows)).hexdigest(),
        "dtypes": sorted({str(array.dtype) for array in arrays}),
    }


measured = measured_by(batch_evidence)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch must give the loop's rows as float32; in order but for tf.data.service."""
    wanted = batch_evidence(numpy_by_hand(scale)())
    count = -(-scale.elements // scale.batch_size)
    problems: Problems = {}
    for name, measurement in measurements.items():
        evidence = measurement.evidence
        compared = [key for key in wanted if key != "order" or not name.startswith("tf.data")]
        if evidence["batches"] != [count]:
            found = " or ".join(map(str, evidence["batches"]))
            problems[name] = f"gave {found} batches an epoch, not {count}"
        elif any(epoch[key] != wanted[key] for epoch in evidence["epochs"] for key in compared):
            problems[name] = "did not give the expected rows"
    return problems


_OURS = ("drumline", "jax")
_TENSORFLOW = ("tensorflow-cpu", "tensorflow")

WORKLOAD = Workload(
    name="data_service",
    title="range(2,000): map(1 ms of numpy in Python) on two workers of a local service, batch(16)",
    unit="elements",
    baseline="one thread",
    full=Scale(elements=2_000, batch_size=16, later_epochs=2),
    quick=Scale(elements=200, batch_size=16, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "map, distribute(workers=2), batch; a Ray cluster on the machine",
            (*_OURS, "ray"),
            measured(drumline_service, (*_OURS, "ray")),
        ),
        Contender(
            "two threads",
            "drumline: map(num_parallel_calls=2), batch",
            _OURS,
            measured(drumline_here, _OURS, 2),
        ),
        Contender(
            "one thread", "drumline: map, batch", _OURS, measured(drumline_here, _OURS, None)
        ),
        Contender(
            "tf.data.service",
            "map(numpy_function), distribute(DYNAMIC), batch, prefetch; servers in the process",
            ("tensorflow",),
            measured(tf_service, _TENSORFLOW),
        ),
        Contender(
            "tf.data.service expert",
            "the function in TensorFlow's operations; a dispatcher and two workers as processes",
            ("tensorflow",),
            measured(tf_service_expert, _TENSORFLOW),
        ),
        Contender("numpy", "a loop on one thread", (), measured(numpy_by_hand, ())),
    ),
    floors=(Floor("later", at_least=1.0, against="tf.data.service"),),
    check=check,
)
