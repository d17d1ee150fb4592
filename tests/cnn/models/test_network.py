"""What the models compute: the original's numbers, both data formats, types, a step of training."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from drumline.cnn import models
from tests.cnn.models.building import forward, images, of_shapes


@pytest.mark.parametrize(
    ("name", "dataset", "size"),
    [
        ("alexnet", "cifar10", 32),
        ("resnet20", "cifar10", 16),
        ("mobilenet", "imagenet", 32),
        pytest.param("densenet40_k12", "cifar10", 16, marks=pytest.mark.thorough),
        pytest.param("resnet50_v2", "imagenet", 64, marks=pytest.mark.thorough),
        pytest.param("googlenet", "imagenet", 224, marks=pytest.mark.thorough),
        pytest.param("inception3", "imagenet", 299, marks=pytest.mark.thorough),
        pytest.param("nasnet", "imagenet", 64, marks=pytest.mark.thorough),
    ],
)
def test_formats_compute_the_same(name: str, dataset: str, size: int) -> None:
    found, expected = (
        forward(
            of_shapes(
                lambda of=data_format: models.build(
                    name, dataset=dataset, image_size=size, data_format=of
                )
            ),
            images(size),
        )
        for data_format in ("NCHW", "channels_last")
    )
    # Of NASNet's 200 layers float32 leaves less.
    np.testing.assert_allclose(found, expected, atol=4e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("dataset", "name", "logits"),
    [
        ("cifar10", "resnet20", (-0.00471, -0.25466, 0.07033, -0.00452, -0.25601, 0.07049)),
        ("cifar10", "resnet20_v2", (-0.02675, -0.18561, 0.07458, -0.02628, -0.18677, 0.07441)),
        ("cifar10", "alexnet", (-0.15054, 0.07499, 0.13121, -0.15056, 0.07497, 0.13124)),
        pytest.param(
            "cifar10",
            "densenet40_k12",
            (0.04504, -0.0401, -0.0347, 0.05786, -0.03755, -0.04819),
            marks=pytest.mark.thorough,
        ),
        ("imagenet", "lenet", (-0.07671, -0.04899, 0.08933, -0.08161, -0.0402, 0.09197)),
        pytest.param(
            "imagenet",
            "nasnet",
            (-0.0028, -0.10521, 0.02991, -0.00319, -0.10497, 0.03024),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_logits_are_those_of_the_original(
    dataset: str, name: str, logits: tuple[float, ...]
) -> None:
    """Those of tf_cnn_benchmarks in evaluation, run with TensorFlow 2.12 on the same values."""
    model = of_shapes(lambda: models.build(name, dataset=dataset))
    found = forward(model, images(models.find(name, dataset).image_size))
    np.testing.assert_allclose(found[:, :3].ravel(), logits, atol=3e-5)


@pytest.mark.parametrize("name", ["lenet", "resnet50_v1.5", "inception3"])
def test_formats_have_the_same_weights(name: str) -> None:
    last, first = (
        of_shapes(lambda data_format=of: models.build(name, data_format=data_format))
        for of in ("NHWC", "channels_first")
    )
    shapes = [[(v.path, tuple(v.shape)) for v in model.variables] for model in (last, first)]
    assert shapes[0] == shapes[1]
    assert models.multiply_adds(last) == models.multiply_adds(first)


@pytest.mark.parametrize(
    ("dtype", "computes", "holds"),
    [
        ("mixed_bfloat16", "bfloat16", "float32"),
        ("mixed_float16", "float16", "float32"),
        ("float16", "float16", "float16"),
    ],
)
def test_types(dtype: str, computes: str, holds: str) -> None:
    model = of_shapes(lambda: models.build("resnet20", dataset="cifar10", dtype=dtype))
    convolution, norm = model.get_layer("conv3"), model.get_layer("batchnorm3")
    assert (convolution.compute_dtype, convolution.kernel.dtype) == (computes, holds)
    assert (norm.compute_dtype, norm.gamma.dtype, norm.moving_mean.dtype) == (
        computes,
        "float32",
        "float32",
    )
    assert model.output.dtype == "float32"


@pytest.mark.parametrize("version", ["", "_v1.5", "_v2"])
def test_resnets_windows_with_strides_have_zeros_on_both_sides(version: str) -> None:
    """As the original's SAME_RESNET: TensorFlow's "SAME" has one more behind than before.

    The sizes, and so the counts, are the same by either.
    """
    model = of_shapes(lambda: models.build(f"resnet50{version}", image_size=64))
    found = {}
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D) and layer.strides > (1, 1):
            (node,) = layer._inbound_nodes
            before = node.parent_nodes[0].operation
            padded = isinstance(before, keras.layers.ZeroPadding2D)
            edges = before.padding if padded else ((0, 0), (0, 0))
            found.setdefault(layer.kernel_size[0], set()).add((layer.padding, edges))
    assert found.pop(7) == {("valid", ((3, 3), (3, 3)))}
    wide = {("valid", ((1, 1), (1, 1)))}
    assert found.pop(3, wide) == wide
    assert set(found) == {1}  # of which padding is none


def test_initial_weights() -> None:
    alexnet = of_shapes(lambda: models.build("alexnet", dataset="cifar10"))
    resnet = of_shapes(lambda: models.build("resnet20", dataset="cifar10"))

    def deviation(layer: Any) -> float:
        return float(np.std(layer.kernel_initializer(layer.kernel.shape)))

    # A truncated normal distribution has 0.8796 of the deviation of the one that was cut.
    found = {name: deviation(alexnet.get_layer(name)) for name in ("conv1", "affine0", "affine2")}
    assert found["conv1"] == pytest.approx(0.8796 * 0.05, rel=0.03)
    assert found["affine0"] == pytest.approx(0.8796 * 0.04, rel=0.03)
    assert found["affine2"] == pytest.approx(0.8796 * 192**-0.5, rel=0.05)
    assert deviation(resnet.get_layer("conv12")) == pytest.approx((9 * 32) ** -0.5, rel=0.05)
    layers = [alexnet.get_layer(name) for name in ("conv0", "conv1", "affine0", "affine2")]
    assert [layer.bias_initializer.value for layer in layers] == [0.0, 0.1, 0.1, 0.0]


def test_norms_and_dropout_are_the_originals() -> None:
    def settings(name: str, *norms: str, **options: Any) -> list[Any]:
        model = of_shapes(lambda: models.build(name, **options))
        layers = [model.get_layer(norm) for norm in norms]
        return [(layer.momentum, layer.epsilon, layer.scale) for layer in layers]

    plain, residual = (0.999, 1e-3, False), (0.9, 1e-5, True)
    assert settings("inception3", "batchnorm0") == [plain]
    assert settings("resnet50", "batchnorm0", "batchnorm52") == [residual] * 2
    assert settings("resnet50_v2", "batchnorm0", "batchnorm1", "batchnorm49") == [
        residual,
        plain,
        plain,
    ]
    assert settings("mobilenet", "batchnorm7") == [(0.997, 1e-3, True)]
    dense = ("batchnorm0", "batchnorm38")
    assert settings("densenet40_k12", *dense, dataset="cifar10") == [residual] * 2
    vgg = of_shapes(lambda: models.build("vgg11"))
    assert [vgg.get_layer(f"dropout{number}").rate for number in (0, 1)] == [0.5, 0.5]


@pytest.mark.parametrize(
    "name",
    [
        "alexnet",
        *(pytest.param(of, marks=pytest.mark.thorough) for of in ("resnet20_v2", "nasnet")),
    ],
)
def test_a_model_learns(name: str) -> None:
    keras.utils.set_random_seed(1)
    model = models.build(name, dataset="cifar10", image_size=16 if name != "nasnet" else 32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss=loss, jit_compile=True)
    batch = images(model.inputs[0].shape[1]), np.array([3, 7])
    losses = [model.train_on_batch(*batch) for _ in range(12)]
    # Dropout makes single losses differ.
    assert np.isfinite(losses).all() and np.mean(losses[-3:]) < np.mean(losses[:3])
