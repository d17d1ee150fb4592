"""The benchmark's models by name: what each is trained on and with, and how it is built."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import layers

from drumline.cnn.models import applications, cells, chains, inception, learning_rates, resnet
from drumline.cnn.models.network import CHANNELS, BatchNormSettings, Network
from drumline.data.elements.errors import did_you_mean


@dataclasses.dataclass(frozen=True)
class CnnModel:
    """A model of the benchmark.

    Attributes:
        name: What ``--model`` takes.
        dataset: "imagenet" or "cifar10". The same name may be another model on the other one.
        layers: From a `Network` and images to what the logits are computed from.
        image_size: Height and width of the images.
        batch_size: Examples per device, where a flag says nothing else.
        learning_rate: What `schedule` begins with.
        schedule: From a learning rate and the examples of a step to a number or a schedule.
        norm: How its convolutions are normalized, or None.
    """

    name: str
    dataset: str
    layers: Callable[..., Any]
    image_size: int
    batch_size: int = 32
    learning_rate: float = 0.005
    schedule: learning_rates.Schedule = learning_rates.constant
    norm: BatchNormSettings | None = None

    def learning_rate_for(self, batch_size: int, learning_rate: float | None = None) -> Any:
        """Return what the original trains the model with.

        Args:
            batch_size: The examples of a step, over all devices and hosts.
            learning_rate: In the place of the model's own.

        Returns:
            A number, or a ``keras.optimizers.schedules.LearningRateSchedule``.

        Raises:
            ValueError: The batch has no example.
        """
        if batch_size < 1:
            raise ValueError(
                f"the model {self.name!r} has no learning rate for steps of {batch_size} "
                "examples; a step has at least one"
            )
        rate = self.learning_rate if learning_rate is None else learning_rate
        return self.schedule(rate, batch_size)


NUM_CLASSES = {"imagenet": 1001, "cifar10": 11}
"""What models tell apart by default: a dataset's classes, and one for what is none of them."""


def _imagenet() -> Iterable[CnnModel]:
    model = functools.partial(CnnModel, dataset="imagenet")
    yield model(name="trivial", layers=chains.trivial, image_size=227)
    yield model(name="lenet", layers=chains.lenet, image_size=28)
    yield model(name="alexnet", layers=chains.alexnet, image_size=227, batch_size=512)
    yield model(name="overfeat", layers=chains.overfeat, image_size=231)
    for depth, convolutions in (
        (11, (1, 1, 2, 2, 2)),
        (16, (2, 2, 3, 3, 3)),
        (19, (2, 2, 4, 4, 4)),
    ):
        built = functools.partial(chains.vgg, convolutions=convolutions)
        yield model(name=f"vgg{depth}", layers=built, image_size=224, batch_size=64)
    yield model(name="googlenet", layers=inception.googlenet, image_size=224)
    yield model(
        name="inception3",
        layers=inception.inception3,
        image_size=299,
        norm=BatchNormSettings(),
    )
    yield model(
        name="inception4", layers=inception.inception4, image_size=299, norm=BatchNormSettings()
    )
    for depth, blocks in ((50, (3, 4, 6, 3)), (101, (3, 4, 23, 3)), (152, (3, 8, 36, 3))):
        for version in ("v1", "v1.5", "v2"):
            yield model(
                name=f"resnet{depth}" + ("" if version == "v1" else f"_{version}"),
                layers=functools.partial(resnet.resnet, blocks=blocks, version=version),
                image_size=224,
                batch_size=64 if depth == 50 else 32,
                learning_rate=0.128,
                schedule=learning_rates.resnet_imagenet,
                norm=resnet.RESIDUAL_NORM,
            )
    yield model(name="mobilenet", layers=cells.mobilenet, image_size=224, norm=cells.MOBILENET_NORM)
    for name, measures, size, batch in (
        ("nasnet", cells.NASNET_MOBILE, 224, 32),
        ("nasnetlarge", cells.NASNET_LARGE, 331, 16),
    ):
        built = functools.partial(cells.nasnet, measures=measures)
        yield model(name=name, layers=built, image_size=size, batch_size=batch)


def _cifar10() -> Iterable[CnnModel]:
    model = functools.partial(CnnModel, dataset="cifar10", image_size=32)
    yield model(name="trivial", layers=chains.trivial)
    yield model(
        name="alexnet",
        layers=chains.alexnet_cifar10,
        batch_size=128,
        learning_rate=0.1,
        schedule=learning_rates.alexnet_cifar10,
    )
    for depth in (20, 32, 44, 56, 110):
        for version in ("v1", "v2"):
            blocks = (depth - 2) // 6
            yield model(
                name=f"resnet{depth}" + ("" if version == "v1" else "_v2"),
                layers=functools.partial(resnet.resnet_cifar10, blocks=blocks, version=version),
                batch_size=128,
                learning_rate=0.1,
                schedule=learning_rates.resnet_cifar10,
                norm=resnet.RESIDUAL_NORM,
            )
    for depth, growth_rate in ((40, 12), (100, 12), (100, 24)):
        yield model(
            name=f"densenet{depth}_k{growth_rate}",
            layers=functools.partial(
                resnet.densenet, layers=(depth - 4) // 3, growth_rate=growth_rate
            ),
            batch_size=64,
            learning_rate=0.1,
            schedule=learning_rates.densenet_cifar10,
        )
    yield model(
        name="nasnet",
        layers=functools.partial(cells.nasnet, measures=cells.NASNET_CIFAR10),
        learning_rate=0.025,
    )


MODELS: dict[str, dict[str, CnnModel]] = {
    dataset: {model.name: model for model in models}
    for dataset, models in (("imagenet", _imagenet()), ("cifar10", _cifar10()))
}
"""The models of tf_cnn_benchmarks, of each dataset by name. `find` knows Keras's as well."""

_NOT_HERE = {
    "ssd300": "detects objects, which this benchmark does not",
    "deepspeech2": "recognizes speech, which this benchmark does not",
    "ncf": "recommends items, which this benchmark does not",
}


def find(name: str, dataset: str = "imagenet") -> CnnModel:
    """Find a model: one of tf_cnn_benchmarks, or of ``keras.applications`` (on ImageNet).

    Args:
        name: As in ``--model``: "resnet50_v1.5", or "EfficientNetB0" for Keras's own.
        dataset: "imagenet" or "cifar10".

    Returns:
        The model's entry.

    Raises:
        ValueError: There is no such dataset, or no such model of it; the nearest are named.

    Example:
        >>> from drumline.cnn import models
        >>> models.find("resnet50").batch_size
        64
    """
    if dataset not in MODELS:
        raise ValueError(
            f"unknown dataset {dataset!r}. {did_you_mean(dataset, MODELS)}"
            f"Datasets are {', '.join(map(repr, MODELS))}"
        )
    if name in MODELS[dataset]:
        return MODELS[dataset][name]
    if dataset == "imagenet" and name in applications.names():
        return _application(name)
    raise ValueError(_why_not(name, dataset))


def _application(name: str) -> CnnModel:
    return CnnModel(name, "imagenet", _no_layers, applications.image_size(name))


def _no_layers(*_: Any, **__: Any) -> Any:
    raise TypeError("Keras makes this model as a whole; call build")


def _why_not(name: str, dataset: str) -> str:
    found = f"no model {name!r} for {dataset}"
    if name in _NOT_HERE:
        return f"{found}: it {_NOT_HERE[name]}"
    if name.startswith("official_resnet"):
        version = "_v2" if name.endswith("_v2") else "_v1.5"
        near = f"resnet{name.removeprefix('official_resnet').removesuffix('_v2')}{version}"
        if near in MODELS["imagenet"]:
            return (
                f"{found}: it is another repository's. The model here that is like it is {near!r}"
            )
    others = [other for other in MODELS if other != dataset and name in MODELS[other]]
    if others:
        return f"{found}, but for {others[0]}: say --data_name={others[0]}, dataset={others[0]!r}"
    known = [*MODELS[dataset], *(applications.names() if dataset == "imagenet" else ())]
    alike = {known_name.lower(): known_name for known_name in reversed(known)}
    near = did_you_mean(name, known) or did_you_mean(name.lower(), alike)
    listed = ", ".join(MODELS[dataset])
    keras_too = ", or a name in keras.applications" if dataset == "imagenet" else ""
    return f"{found}. {near}Models are {listed}{keras_too}"


def build(
    name: str,
    *,
    dataset: str = "imagenet",
    num_classes: int | None = None,
    image_size: int | None = None,
    data_format: str = "channels_last",
    dtype: Any = "float32",
) -> keras.Model:
    """Build a model with new weights, parameter for parameter as tf_cnn_benchmarks does.

    Weight decay is not in the model: the program adds it to the loss.

    Args:
        name: One that `find` knows.
        dataset: "imagenet" or "cifar10".
        num_classes: How many logits, by default `NUM_CLASSES` of the dataset.
        image_size: Height and width of the images, by default those of the model's entry.
        data_format: In which the model computes, "channels_last" or "channels_first"; "NHWC" and
            "NCHW" mean the same. Its weights are the same in both.
        dtype: A dtype policy or its name, such as "mixed_bfloat16".

    Returns:
        A functional model from images, float of shape (batch, size, size, 3) whatever the
        `data_format`, to float32 logits of shape (batch, `num_classes`).

    Raises:
        ValueError: The name, dataset or format is unknown, or a size does not fit it.

    Example:
        >>> from drumline.cnn import models
        >>> models.build("resnet20", dataset="cifar10").count_params()
        271163

    Source: https://github.com/tensorflow/benchmarks, scripts/tf_cnn_benchmarks/models.
    """
    entry = find(name, dataset)
    data_format = {"NHWC": "channels_last", "NCHW": "channels_first"}.get(data_format, data_format)
    classes = NUM_CLASSES[dataset] if num_classes is None else num_classes
    size = entry.image_size if image_size is None else image_size
    _check(entry, data_format, classes, size)
    images = keras.Input((size, size, 3), name="images")
    channels_last = data_format == "channels_last"
    x = images if channels_last else layers.Permute((3, 1, 2), dtype=dtype)(images)
    if entry.layers is _no_layers:
        output = applications.application(name, classes, size, data_format, dtype)(x)
    else:
        net = Network(classes, data_format, dtype, entry.norm)
        output = net.dense(entry.layers(net, x), classes, activation=None)
    logits = layers.Activation("linear", dtype="float32", name="logits")(output)
    return keras.Model(images, logits, name=name)


def _check(entry: CnnModel, data_format: str, classes: int, size: int) -> None:
    if data_format not in CHANNELS:
        raise ValueError(
            f"unknown data format {data_format!r}. {did_you_mean(data_format, CHANNELS)}"
            "Formats are 'channels_last' (NHWC) and 'channels_first' (NCHW)"
        )
    for value, what in ((classes, "num_classes"), (size, "image_size")):
        if value < 1:
            raise ValueError(f"the model {entry.name!r} with {what}={value}: it is at least 1")
