"""What `drumline cnn` itself costs: beside a bare loop, in its modes, and with records as input."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads import jpeg_files
from benchmarks.workloads.cnn_networks import LEARNING_RATE, WARMUP, check, program

LIBRARIES = ("drumline", "jax", "keras")
RATE = f"--init_learning_rate={LEARNING_RATE}"
SMALL = ("--model=resnet20", "--data_name=cifar10", "--weight_decay=0", RATE)
MODES = ("--model=alexnet", "--num_gpus=2", RATE)
RECORDS = ("--model=resnet50", RATE)
FILES, IMAGES = 4, 256


def bare_loop(scale: Scale) -> Measurement:
    """The compiled step of the same model and loss, by JAX and Keras alone, one step under way."""
    began = time.perf_counter()
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import jax.numpy as jnp
    import keras

    from drumline.cnn import inputs, models

    ready = time.perf_counter()
    model = models.build(
        "resnet20", dataset="cifar10", data_format="channels_last", dtype="float32"
    )
    optimizer = keras.optimizers.SGD(LEARNING_RATE)
    optimizer.build(model.trainable_variables)
    options = inputs.ImageInputOptions(
        batch_size=scale.batch_size, image_size=(32, 32), num_classes=models.NUM_CLASSES["cifar10"]
    )
    made = inputs.synthetic(options)
    images, labels = made.images, made.labels

    def loss_of(trained: Any, others: Any, images: Any, labels: Any) -> Any:
        logits, others = model.stateless_call(trained, others, images, training=True)
        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return jnp.mean(losses), others

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(trained: Any, others: Any, slots: Any, images: Any, labels: Any) -> Any:
        differentiated = jax.value_and_grad(loss_of, has_aux=True)
        (loss, others), gradients = differentiated(trained, others, images, labels)
        trained, slots = optimizer.stateless_apply(slots, gradients, trained)
        return (trained, others, slots), loss

    state = tuple(
        [jnp.array(variable.value) for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            optimizer.variables,
        )
    )
    for _ in range(WARMUP):
        state, loss = step(*state, images, labels)
        loss.block_until_ready()
    times, losses = [], []
    before = start = time.perf_counter()
    state, ahead = step(*state, images, labels)
    for number in range(scale.later_epochs):
        due = ahead
        if number + 1 < scale.later_epochs:
            state, ahead = step(*state, images, labels)
        losses.append(float(due))
        now = time.perf_counter()
        times.append(now - before)
        before = now
    return Measurement(
        elements=scale.elements,
        import_s=ready - began,
        first_batch_s=start - ready,
        first_epoch_s=start - ready,
        later_epochs_s=tuple(times),
        evidence={"steps": len(times), "losses": losses},
        versions=versions(LIBRARIES),
    )


def from_records(scale: Scale) -> Measurement:
    """The program on photographs in TFRecord files, as the Inception scripts write them."""
    with tempfile.TemporaryDirectory(prefix="drumline-imagenet-") as directory:
        write_records(Path(directory))
        return program([*RECORDS, f"--data_dir={directory}", "--data_name=imagenet"], scale)


def write_records(directory: Path) -> None:
    """Write files ``train-0000i-of-00004`` of photographs, each with a label and no box."""
    from drumline.io import TFRecordWriter
    from drumline.train import BytesList, Example, Feature, Features, FloatList, Int64List

    corners = {
        f"image/object/bbox/{name}": Feature(float_list=FloatList(value=[]))
        for name in ("ymin", "xmin", "ymax", "xmax")
    }
    contents = jpeg_files.contents(IMAGES)
    for number in range(FILES):
        path = directory / f"train-{number:05d}-of-{FILES:05d}"
        with TFRecordWriter(str(path)) as file:
            for at in range(number, IMAGES, FILES):
                found = {
                    "image/encoded": Feature(bytes_list=BytesList(value=[contents[at]])),
                    "image/class/label": Feature(int64_list=Int64List(value=[at % 1000 + 1])),
                    **corners,
                }
                example = Example(features=Features(feature=found))
                file.write(example.SerializeToString())


def _of_mode(mode: str, name: str) -> Contender:
    flags = [*MODES, f"--variable_update={mode}"]
    return Contender(
        name, f"--variable_update={mode}", LIBRARIES, functools.partial(program, flags)
    )


def _workload(
    name: str,
    title: str,
    full: Scale,
    contenders: tuple[Contender, Contender],
    at_least: float,
    turns: int = 0,
) -> Workload:
    peer = contenders[1].name
    return Workload(
        name=name,
        title=title,
        unit="images",
        baseline=peer,
        full=full,
        quick=Scale(elements=2, batch_size=2, later_epochs=2),
        contenders=contenders,
        floors=(Floor("later", at_least=at_least, aim=1.0, against=peer),),
        check=check,
        timeout_s=600.0,
        turns=turns,
    )


def _contender(name: str, about: str, run: Callable[[Scale], Measurement]) -> Contender:
    return Contender(name, about, LIBRARIES, run)


WORKLOADS = (
    _workload(
        "cnn_program",
        "drumline cnn --model=resnet20, CIFAR-10, batch 32, beside its step in a bare loop",
        Scale(elements=32, batch_size=32, later_epochs=60),
        (
            _contender("drumline", "drumline cnn", functools.partial(program, SMALL)),
            _contender("bare loop", "the jitted step in a loop", bare_loop),
        ),
        0.99,
        turns=4,
    ),
    _workload(
        "cnn_replicated",
        "drumline cnn --model=alexnet, batch 16 on each of 2 logical devices: copies, and a home",
        Scale(elements=32, batch_size=16, later_epochs=8),
        (_of_mode("replicated", "drumline"), _of_mode("parameter_server", "parameter_server")),
        0.97,
    ),
    _workload(
        "cnn_independent",
        "the same without any exchange, and with copies",
        Scale(elements=32, batch_size=16, later_epochs=8),
        (_of_mode("independent", "drumline"), _of_mode("replicated", "replicated")),
        0.97,
    ),
    _workload(
        "cnn_records",
        "drumline cnn --model=resnet50, batch 16, 1 device: photographs in TFRecord files",
        Scale(elements=16, batch_size=16, later_epochs=6),
        (
            _contender("drumline", "decoded, cropped, distorted, from 4 files", from_records),
            _contender("synthetic", "one batch", functools.partial(program, RECORDS)),
        ),
        0.95,
    ),
)
