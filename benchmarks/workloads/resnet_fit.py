"""ResNet-50 on images of 224x224x3, batch 16, SGD, Keras ``fit``, one device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.floors import Floor
from benchmarks.harness.training import Task, check_training, one_device_contenders, seed_weights
from benchmarks.harness.workload import Scale, Workload

SHAPE = (224, 224, 3)
CLASSES = 1000
USED_CLASSES = 2


def make_examples(elements: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Noise images (n, 224, 224, 3), float32, lighter or darker by class, and labels, int64."""
    random = np.random.RandomState(11)
    labels = random.randint(USED_CLASSES, size=elements)
    images = random.standard_normal((elements, *SHAPE)).astype(np.float32)
    return images + labels.astype(np.float32)[:, None, None, None], labels.astype(np.int64)


def compiled_resnet(keras: Any) -> Any:
    """ResNet-50 with seeded weights, compiled with plain SGD."""
    model = keras.applications.ResNet50(
        weights=None, input_shape=SHAPE, classes=CLASSES, classifier_activation=None
    )
    seed_weights(model)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=1e-4),
    )
    return model


WORKLOAD = Workload(
    name="resnet_fit",
    title="ResNet-50, 224x224x3, Keras fit, batch 16, 1 device",
    unit="images",
    baseline="Keras on TensorFlow",
    full=Scale(elements=48, batch_size=16, later_epochs=2),
    quick=Scale(elements=16, batch_size=16, later_epochs=1),
    contenders=one_device_contenders(Task(make_examples, compiled_resnet)),
    floors=(Floor("later", at_least=0.85, aim=1.0, against="Keras on TensorFlow"),),
    check=check_training(tolerance=0.01, falls_to=0.97),
    timeout_s=600.0,
)
