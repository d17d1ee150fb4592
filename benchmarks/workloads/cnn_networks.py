"""Standard networks on synthetic images, one device: `drumline cnn` beside TensorFlow and PyTorch.

The model of Keras on TensorFlow is the same, layer for layer: it is made from the configuration of
the program's. torchvision's ResNet-50, Inception v3 and VGG16 are the same networks, too (ResNet-50
with the stride in the 3x3 convolution, hence ``resnet50_v1.5``); its AlexNet has 256 filters in the
fourth convolution where the original has 384, and less to compute.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

WARMUP = 2
"""Steps of the program before those that are timed: the first compiles, and memory is there after
two."""
PEERS_WARMUP = 1
"""Steps of its peers: their second takes as long as all later ones."""
LEARNING_RATE = 1e-5
"""At which no network's loss overflows, whatever its images."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A network by the names that it has, the width of its images, and the steps that are timed."""

    model: str
    torchvision: str
    size: int
    steps: int = 3


NETWORKS = {
    "alexnet": Network("alexnet", "alexnet", 224),
    "resnet50": Network("resnet50_v1.5", "resnet50", 224),
    "inception3": Network("inception3", "inception_v3", 299, steps=2),
    "vgg16": Network("vgg16", "vgg16", 224, steps=1),
}


def program(flags: Sequence[str], scale: Scale) -> Measurement:
    """Run `drumline cnn` in this process; a step is timed by its line.

    Args:
        flags: but for those of how many steps and images there are.
        scale: how many.
    """
    began = time.perf_counter()
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import jax

    from drumline.cnn.flags import parse
    from drumline.cnn.program import BenchmarkRun

    ready = time.perf_counter()
    lines: list[tuple[float, str]] = []
    given = [
        *flags,
        f"--batch_size={scale.batch_size}",
        f"--num_batches={scale.later_epochs}",
        f"--num_warmup_batches={WARMUP}",
        "--display_every=1",
    ]
    found = BenchmarkRun(
        parse(given), say=lambda line: lines.append((time.perf_counter(), line))
    ).run()
    assert found is not None
    texts = [line for _, line in lines]
    header = next(at for at, line in enumerate(texts) if line.startswith("Step\t"))
    steps = [lines[header][0], *(at for at, line in lines if "images/sec: " in line)]
    times = [after - before for before, after in itertools.pairwise(steps)]
    return Measurement(
        elements=scale.elements,
        import_s=ready - began,
        first_batch_s=lines[header][0] - ready,
        first_epoch_s=lines[header][0] - ready,
        later_epochs_s=tuple(times[: scale.later_epochs]),
        evidence={
            "steps": found.num_steps,
            "losses": [float(line.split("\t")[2]) for line in texts if "(jitter = " in line],
            "devices": len(jax.devices()),
        },
        versions=versions(("drumline", "jax", "keras", "numpy")),
    )


def keras_on_tensorflow(network: Network, compiled: bool, scale: Scale) -> Measurement:
    """Keras's `fit`, by XLA, which is Keras's default, or by TensorFlow's own kernels."""
    configuration = _configuration(network.model)
    began = time.perf_counter()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    tf.constant(0)
    ready = time.perf_counter()
    model = keras.models.model_from_json(configuration)
    images, labels = examples(scale, model.input_shape[1])
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(LEARNING_RATE),
        jit_compile="auto" if compiled else False,
    )
    dataset = tf.data.Dataset.from_tensors((images, labels)).repeat()
    ends, losses = [time.perf_counter()], []

    class Timeline(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            losses.append(float(logs["loss"]))
            ends.append(time.perf_counter())

    steps = PEERS_WARMUP + scale.later_epochs
    model.fit(dataset, steps_per_epoch=steps, verbose=0, callbacks=[Timeline()])
    libraries = ("tensorflow-cpu", "tensorflow", "keras")
    return _measurement(scale, ready - began, ready, ends, losses, libraries)


def torchvision(network: Network, compiled: bool, scale: Scale) -> Measurement:
    """A loop as PyTorch's tutorials have it; compiled, with channels last."""
    began = time.perf_counter()
    import torch
    from torchvision import models

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    ready = time.perf_counter()
    options = {"aux_logits": False} if network.torchvision == "inception_v3" else {}
    model = getattr(models, network.torchvision)(weights=None, **options).train()
    made, targets = examples(scale, network.size)
    images = torch.from_numpy(np.ascontiguousarray(made.transpose(0, 3, 1, 2)))
    labels = torch.from_numpy(targets.astype(np.int64))
    run: Callable[..., Any] = model
    if compiled:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
        run = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    loss_of = torch.nn.CrossEntropyLoss()
    ends, losses = [time.perf_counter()], []
    for _ in range(PEERS_WARMUP + scale.later_epochs):
        optimizer.zero_grad()
        loss = loss_of(run(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        ends.append(time.perf_counter())
    return _measurement(scale, ready - began, ready, ends, losses, ("torch", "torchvision"))


def examples(scale: Scale, size: int) -> tuple[Any, Any]:
    """One batch as the program makes it: noise around 127, labels (n,), int32."""
    random = np.random.default_rng(5)
    images = random.normal(127.0, 60.0, (scale.batch_size, size, size, 3)).astype(np.float32)
    return images, random.integers(0, 1000, scale.batch_size).astype(np.int32)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """All took their steps, and no loss was infinite."""
    problems = {}
    for name, measurement in measurements.items():
        losses = measurement.evidence["losses"]
        if measurement.evidence["steps"] != scale.later_epochs:
            problems[name] = f"took {measurement.evidence['steps']} steps"
        elif not all(map(math.isfinite, losses)):
            problems[name] = f"has losses {losses}"
    return problems


def _configuration(model: str) -> str:
    """The program's model as JSON, made in another process, whose Keras runs on JAX.

    It is kept for the rounds to come, of the same code: JAX takes longer to build a deep model than
    TensorFlow to compile it.
    """
    code = sorted(Path(__file__).parents[2].glob("drumline/cnn/models/*.py"))
    key = hashlib.sha256(b"".join(path.read_bytes() for path in code))
    key.update(f"{model} {versions(['keras'])}".encode())
    kept = Path(tempfile.gettempdir(), f"drumline-{os.getuid()}-{key.hexdigest()[:16]}.json")
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    found = _made_configuration(model)
    beside = kept.with_suffix(f".{os.getpid()}")
    beside.write_text(found, encoding="utf-8")
    os.replace(beside, kept)
    return found


def _made_configuration(model: str) -> str:
    script = (
        "import sys\nfrom drumline.cnn import models\n"
        f"made = models.build({model!r}, dataset='imagenet', data_format='channels_last',"
        " dtype='float32')\nsys.stdout.write(made.to_json())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.dumps(json.loads(done.stdout))


def _measurement(
    scale: Scale,
    import_s: float,
    ready: float,
    ends: Sequence[float],
    losses: Sequence[float],
    libraries: tuple[str, ...],
) -> Measurement:
    times = [after - before for before, after in itertools.pairwise(ends)]
    return Measurement(
        elements=scale.elements,
        import_s=import_s,
        first_batch_s=ends[1] - ready,
        first_epoch_s=ends[PEERS_WARMUP] - ready,
        later_epochs_s=tuple(times[PEERS_WARMUP:]),
        evidence={"steps": len(times) - PEERS_WARMUP, "losses": list(losses)},
        versions=versions(("numpy", *libraries)),
    )


def _workload(name: str, network: Network) -> Workload:
    flags = [f"--model={network.model}", f"--init_learning_rate={LEARNING_RATE}"]
    tensorflow, torch = ("tensorflow", "keras"), ("torch", "torchvision")
    goal = 1.2 if name == "resnet50" else 1.0
    return Workload(
        name=f"cnn_{name}",
        title=f"drumline cnn --model={network.model}: synthetic images, batch 16, 1 device",
        unit="images",
        baseline="Keras on TensorFlow",
        full=Scale(elements=16, batch_size=16, later_epochs=network.steps),
        quick=Scale(elements=2, batch_size=2, later_epochs=2),
        contenders=(
            Contender(
                "drumline",
                "drumline cnn",
                ("drumline", "jax", "keras"),
                functools.partial(program, flags),
            ),
            Contender(
                "Keras on TensorFlow",
                "the same Keras model, fit, XLA by Keras's default",
                tensorflow,
                functools.partial(keras_on_tensorflow, network, True),
            ),
            Contender(
                "TensorFlow's kernels",
                "the same without XLA (jit_compile=False): oneDNN",
                tensorflow,
                functools.partial(keras_on_tensorflow, network, False),
            ),
            Contender(
                "PyTorch",
                f"torchvision's {network.torchvision}, a loop, eager",
                torch,
                functools.partial(torchvision, network, False),
            ),
            Contender(
                "PyTorch compiled",
                "the same by torch.compile, channels last",
                torch,
                functools.partial(torchvision, network, True),
            ),
        ),
        floors=tuple(
            Floor("later", at_least=0.9, aim=aim, against=peer)
            for peer, aim in (
                ("Keras on TensorFlow", goal),
                ("TensorFlow's kernels", 1.0),
                ("PyTorch", 1.0),
            )
        ),
        check=check,
        timeout_s=900.0,
    )


WORKLOADS = tuple(_workload(name, network) for name, network in NETWORKS.items())
