"""The models against the original's graphs, papers, torchvision and Keras's own."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from drumline.cnn import models
from drumline.cnn.models import applications
from tests.cnn.models.building import averages, of_shapes, size
from tests.cnn.models.published import ORIGINAL, PAPERS, TORCHVISION, Original


def marked(row: Original) -> Any:
    marks = () if row.quick else pytest.mark.thorough
    return pytest.param(row, id=f"{row.dataset}-{row.name}", marks=marks)


@pytest.mark.parametrize("row", [marked(row) for row in ORIGINAL])
def test_counts_are_those_of_the_original(row: Original) -> None:
    model = of_shapes(lambda: models.build(row.name, dataset=row.dataset))
    assert size(model.trainable_variables) == row.trainable
    assert size(averages(model)) == row.averages
    assert models.multiply_adds(model) == row.multiply_adds


def test_the_table_has_the_models_of_the_original() -> None:
    listed = {(model.dataset, model.name) for of in models.MODELS.values() for model in of.values()}
    assert listed == {(row.dataset, row.name) for row in ORIGINAL}


def rows_with(names: Any) -> list[Any]:
    return [marked(row) for row in ORIGINAL if row.dataset == "imagenet" and row.name in names]


@pytest.mark.parametrize("row", rows_with(TORCHVISION))
def test_counts_are_those_of_torchvision(row: Original) -> None:
    parameters, billions = TORCHVISION[row.name]
    model = of_shapes(lambda: models.build(row.name, num_classes=1000))
    assert size(model.trainable_variables) == parameters
    assert models.multiply_adds(model) / 1e9 == pytest.approx(billions, abs=0.001)


@pytest.mark.parametrize("name", PAPERS)
def test_counts_are_near_those_of_papers(name: str) -> None:
    row = next(row for row in ORIGINAL if (row.dataset, row.name) == ("imagenet", name))
    parameters, products, _ = PAPERS[name]
    if parameters is not None:
        assert row.trainable / 1e6 == pytest.approx(parameters, rel=0.01)
    if products is not None:
        assert row.multiply_adds / 1e6 == pytest.approx(products, rel=0.02)


def channels(model: keras.Model) -> int:
    """Of all outputs of batch normalization: what a gamma, or a bias beside it, would add."""
    return size(averages(model)) // 2


@pytest.mark.parametrize(
    ("name", "keras_name", "extra"),
    [
        ("vgg16", "VGG16", lambda model: 0),
        ("inception3", "InceptionV3", lambda model: 0),
        # Keras's convolutions have biases that the normalization takes away again.
        ("resnet50", "ResNet50", channels),
        # The original puts another layer of 1001 logits on MobileNet's own.
        ("mobilenet", "MobileNetV2", lambda model: -(1001 * 1000 + 1000) - 1281),
    ],
)
def test_counts_are_those_of_keras(name: str, keras_name: str, extra: Any) -> None:
    ours = of_shapes(lambda: models.build(name, num_classes=1000))
    keras_model = of_shapes(lambda: models.build(keras_name, num_classes=1000))
    keras_has = size(keras_model.trainable_variables)
    assert keras_has == size(ours.trainable_variables) + extra(ours)
    over = 1001 * 1000 + 1280 if name == "mobilenet" else 0
    assert models.multiply_adds(keras_model) == models.multiply_adds(ours) - over


def test_keras_models_are_keras_own() -> None:
    plain = of_shapes(lambda: keras.applications.EfficientNetV2B0(weights=None))
    ours = of_shapes(lambda: models.build("EfficientNetV2B0", num_classes=1000))
    assert size(ours.trainable_variables) == size(plain.trainable_variables)
    assert tuple(ours.outputs[0].shape) == (None, 1000)
    assert ours.inputs[0].shape[1:3] == plain.inputs[0].shape[1:3]


@pytest.mark.thorough
@pytest.mark.parametrize("name", applications.names())
def test_image_sizes_are_those_of_keras(name: str) -> None:
    make = getattr(keras.applications, name)
    if name.startswith("MobileNetV3"):
        pytest.skip("Keras makes these for images of any size")
    plain = of_shapes(lambda: make(weights=None))
    assert tuple(plain.inputs[0].shape[1:3]) == (applications.image_size(name),) * 2


def test_keras_settings_are_as_before() -> None:
    before = keras.config.image_data_format(), keras.config.dtype_policy().name
    model = of_shapes(lambda: models.build("MobileNet", data_format="NCHW", dtype="mixed_bfloat16"))
    assert (keras.config.image_data_format(), keras.config.dtype_policy().name) == before
    assert tuple(model.inputs[0].shape) == (None, 224, 224, 3)
    assert model.outputs[0].dtype == "float32"


@pytest.mark.parametrize(
    ("name", "dataset", "says"),
    [
        ("resnet51", "imagenet", "Did you mean 'resnet5"),
        ("resnet20", "imagenet", "for cifar10: say --data_name=cifar10"),
        ("efficientnetb0", "imagenet", "Did you mean 'EfficientNetB0'"),
        ("EfficientNetB0", "cifar10", "no model 'EfficientNetB0' for cifar10"),
        ("ssd300", "imagenet", "detects objects"),
        ("official_resnet50", "imagenet", "'resnet50_v1.5'"),
        ("vgg16", "imagnet", "Did you mean 'imagenet'"),
    ],
)
def test_unknown_names(name: str, dataset: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        models.find(name, dataset)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data_format": "chanels_last"}, "Did you mean 'channels_last'"),
        ({"num_classes": 0}, "num_classes=0"),
        ({"image_size": -1}, "image_size=-1"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        models.build("lenet", **options)


def test_names_are_the_same_each_time() -> None:
    first, second = (of_shapes(lambda: models.build("resnet20", dataset="cifar10")) for _ in "ab")
    paths = [variable.path for variable in first.variables]
    assert paths == [variable.path for variable in second.variables]
    assert "conv0/kernel" in paths and "batchnorm0/gamma" in paths


def test_a_count_needs_shapes() -> None:
    images = keras.Input((None, None, 3), name="images")
    model = keras.Model(images, keras.layers.Conv2D(4, 3)(images))
    with pytest.raises(ValueError, match="'images' has the shape"):
        models.multiply_adds(model)


def test_a_count_of_groups_products_and_loops() -> None:
    images = keras.Input((6, 5, 8))
    x = keras.layers.Conv2D(4, 3, groups=2)(images)
    x = keras.layers.LSTM(7, unroll=False)(keras.layers.Reshape((12, 4))(x))
    model = keras.Model(images, x)
    convolution, steps = 4 * 3 * 4 * 9 * 4, 12 * (4 + 7) * 4 * 7
    assert models.multiply_adds(model, 3) == 3 * (convolution + steps)
