"""The training cells of TensorFlow's tutorials, beside the same ones written for drumline.

Each is written once as its tutorial has it, of ``tf``, and once of ``dl`` and ``keras``: the same
model, input and options, in processes of the same settings. The images are of
`benchmarks.workloads.convnet`, in the shapes and types of the tutorials' sets.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import (
    ModelAndFit,
    Prepared,
    check_training,
    fit,
    measured,
    seed_weights,
)
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import FALLS_TO, make_examples
from benchmarks.workloads.tutorial_loop import tutorial_loop

_OWN = "drumline's own names"
_TOLERANCE = 0.1  # `fit` draws another order of the examples from each module's seed
_LIBRARIES = ("drumline", "jax", "keras")


def look_alike() -> tuple[Any, Any]:
    """The modules of a tutorial with its import changed."""
    import drumline.compat.tf as tf

    tf.random.set_seed(0)
    return tf, tf.keras


def own() -> tuple[Any, Any]:
    """The modules of a program for drumline."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    import drumline as dl

    keras.utils.set_random_seed(0)
    return dl, keras


Modules = Callable[[], tuple[Any, Any]]


def _pixels(elements: int, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Images as the tutorials have them: bytes divided by 255, float64, and labels of bytes."""
    images, labels = make_examples(elements)
    if len(shape) == 3:
        images = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0))).repeat(3, axis=3)
    scaled = np.clip((images + 1) * 80, 0, 255).astype(np.uint8) / 255.0
    return scaled.reshape(elements, *shape), labels.astype(np.uint8)


def dense_model(keras: Any, dropout: bool) -> Any:
    """The model of quickstart/beginner, with its dropout, and of keras/classification."""
    layers = [keras.layers.Flatten(input_shape=(28, 28)), keras.layers.Dense(128, "relu")]
    if dropout:
        layers.append(keras.layers.Dropout(0.2))
    return keras.models.Sequential([*layers, keras.layers.Dense(10)])


def cnn_model(keras: Any) -> Any:
    """The model of images/cnn."""
    model = keras.models.Sequential()
    model.add(keras.layers.Conv2D(32, (3, 3), activation="relu", input_shape=(32, 32, 3)))
    model.add(keras.layers.MaxPooling2D((2, 2)))
    model.add(keras.layers.Conv2D(64, (3, 3), activation="relu"))
    model.add(keras.layers.MaxPooling2D((2, 2)))
    model.add(keras.layers.Conv2D(64, (3, 3), activation="relu"))
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(64, activation="relu"))
    model.add(keras.layers.Dense(10))
    return model


def _compiled(keras: Any, model: Any) -> Any:
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    seed_weights(model)
    return model


def fit_arrays(
    model: Callable[[Any], Any], shape: tuple[int, ...], modules: Modules, scale: Scale
) -> Prepared:
    """``model.fit(train_images, train_labels, epochs=...)``."""
    _, keras = modules()
    images, labels = _pixels(scale.elements, shape)

    def build() -> ModelAndFit:
        made = _compiled(keras, model(keras))
        return made, functools.partial(fit, made, images, y=labels)

    return keras, build


def fit_mirrored(modules: Modules, scale: Scale) -> Prepared:
    """That of distribute/keras: MirroredStrategy, and a dataset of bytes and int64 labels."""
    tf, keras = modules()
    images, labels = make_examples(scale.elements)
    rows = (np.clip((images + 1) * 80, 0, 255).astype(np.uint8), labels)

    def of_tensors(image: Any, label: Any) -> Any:
        image = tf.cast(image, tf.float32)
        image /= 255
        return image, label

    def of_arrays(image: Any, label: Any) -> Any:
        return image.astype(np.float32) / 255, label

    scaled = of_tensors if modules is look_alike else of_arrays

    def build() -> ModelAndFit:
        strategy = tf.distribute.MirroredStrategy()
        dataset = tf.data.Dataset.from_tensor_slices(rows)
        dataset = dataset.map(scaled).cache().shuffle(10_000, seed=1).batch(scale.batch_size)
        with strategy.scope():
            made = keras.Sequential(
                [
                    keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
                    keras.layers.MaxPooling2D(),
                    keras.layers.Flatten(),
                    keras.layers.Dense(64, activation="relu"),
                    keras.layers.Dense(10),
                ]
            )
            made = _compiled(keras, made)
        return made, functools.partial(fit, made, dataset)

    return keras, build


def custom_loop(modules: Modules, scale: Scale) -> Callable[[], Loop]:
    """That of distribute/custom_training."""
    tf, keras = modules()

    def build(keras: Any) -> Any:
        made = keras.Sequential(
            [
                keras.layers.Input((28, 28, 1)),
                keras.layers.Conv2D(32, 3, activation="relu"),
                keras.layers.MaxPooling2D(),
                keras.layers.Conv2D(64, 3, activation="relu"),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(10),
            ]
        )
        seed_weights(made)
        return made

    return tutorial_loop(tf, keras, tf.distribute.MirroredStrategy(), build, scale)


def advanced_loop(modules: Modules, scale: Scale) -> Callable[[], Loop]:
    """That of quickstart/advanced: a model of a class, and a step that is a ``tf.function``."""
    tf, keras = modules()
    images, labels = _pixels(scale.elements, (28, 28))
    images = images[..., None].astype("float32")

    class MyModel(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = keras.layers.Conv2D(32, 3, activation="relu")
            self.flatten = keras.layers.Flatten()
            self.d1 = keras.layers.Dense(128, activation="relu")
            self.d2 = keras.layers.Dense(10)

        def call(self, x: Any) -> Any:
            x = self.conv1(x)
            x = self.flatten(x)
            x = self.d1(x)
            return self.d2(x)

    def build() -> Loop:
        dataset = tf.data.Dataset.from_tensor_slices((images, labels))
        dataset = dataset.shuffle(10_000, seed=1).batch(scale.batch_size)
        model = MyModel()
        model(images[: scale.batch_size])
        seed_weights(model)
        loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
        train_loss = keras.metrics.Mean(name="train_loss")
        train_accuracy = keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")

        @tf.function
        def train_step(images: Any, labels: Any) -> None:
            with tf.GradientTape() as tape:
                predictions = model(images, training=True)
                loss = loss_object(labels, predictions)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            train_loss(loss)
            train_accuracy(labels, predictions)

        def epoch() -> tuple[float, int]:
            train_loss.reset_state()
            train_accuracy.reset_state()
            steps = 0
            for images, labels in dataset:
                train_step(images, labels)
                steps += 1
            return float(np.asarray(train_loss.result())), steps

        return Loop(model.get_weights, epoch)

    return build


def _workload(name: str, tutorial: str, scale: Scale, run: Any, *, loop: bool = False) -> Workload:
    measure: Any = measured_loop if loop else measured

    def contender(title: str, how: str, modules: Modules) -> Contender:
        prepare = functools.partial(run, modules)
        return Contender(title, how, _LIBRARIES, measure(prepare, *_LIBRARIES))

    return Workload(
        name=name,
        title=f"the training cell of {tutorial}: drumline.compat.tf and drumline's own names",
        unit="images",
        baseline=_OWN,
        full=scale,
        quick=Scale(elements=10 * scale.batch_size, batch_size=scale.batch_size, later_epochs=1),
        contenders=(
            contender("drumline", "import drumline.compat.tf as tf", look_alike),
            contender(_OWN, "import drumline as dl, keras", own),
        ),
        floors=(Floor("later", at_least=0.9, aim=1.0, against=_OWN),),
        check=check_training(_TOLERANCE, FALLS_TO),
    )


WORKLOADS = (
    _workload(
        "tutorial_keras",
        "tutorials/distribute/keras",
        Scale(elements=12_800, batch_size=64, later_epochs=3),
        fit_mirrored,
    ),
    _workload(
        "tutorial_custom_training",
        "tutorials/distribute/custom_training",
        Scale(elements=6_400, batch_size=64, later_epochs=3),
        custom_loop,
        loop=True,
    ),
    _workload(
        "tutorial_beginner",
        "tutorials/quickstart/beginner",
        Scale(elements=60_000, batch_size=32, later_epochs=3),
        functools.partial(fit_arrays, functools.partial(dense_model, dropout=True), (28, 28)),
    ),
    _workload(
        "tutorial_advanced",
        "tutorials/quickstart/advanced",
        Scale(elements=6_400, batch_size=32, later_epochs=3),
        advanced_loop,
        loop=True,
    ),
    _workload(
        "tutorial_cnn",
        "tutorials/images/cnn",
        Scale(elements=6_400, batch_size=32, later_epochs=3),
        functools.partial(fit_arrays, cnn_model, (32, 32, 3)),
    ),
    _workload(
        "tutorial_classification",
        "tutorials/keras/classification",
        Scale(elements=60_000, batch_size=32, later_epochs=3),
        functools.partial(fit_arrays, functools.partial(dense_model, dropout=False), (28, 28)),
    ),
)
