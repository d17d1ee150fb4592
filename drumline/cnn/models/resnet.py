"""Residual networks of ImageNet (bottlenecks) and CIFAR-10, and CIFAR-10's DenseNets.

As of tf_cnn_benchmarks. Each function takes a network and images, and returns what the last layer,
the one with the classes, is put on.
"""

from __future__ import annotations

import math
from typing import Literal

import keras

from drumline.cnn.models.network import BatchNormSettings, Network, Tensor

Version = Literal["v1", "v1.5", "v2"]
"""Where a block has its stride and its activations.

In "v1" the first 1 x 1 convolution of a block has the stride, in "v1.5" the 3 x 3 one. In "v2" a
block normalizes and rectifies its input, not the sum that it gives.
"""

RESIDUAL_NORM = BatchNormSettings(momentum=0.9, epsilon=1e-5, scale=True)
"""Of convolutions. What "v2" normalizes before a block has the defaults, and so no gamma."""

DENSE_NORM = BatchNormSettings(momentum=0.9, epsilon=1e-5, scale=True)


def resnet(net: Network, x: Tensor, *, blocks: tuple[int, ...], version: Version) -> Tensor:
    """A ResNet of bottleneck blocks: (3, 4, 6, 3) of ResNet-50, (3, 4, 23, 3), (3, 8, 36, 3).

    Source: He et al., https://arxiv.org/abs/1512.03385, table 1, and for "v2"
    https://arxiv.org/abs/1603.05027; "v1.5" as in https://arxiv.org/abs/1706.02677.
    """
    x = net.max_pool(net.conv(x, 64, 7, 2, "centered"), 3, padding="same")
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _bottleneck(net, x, 64 << stage, stride, version)
    if version == "v2":
        x = net.activation(net.batch_norm(x))
    return net.spatial_mean(x)


def _bottleneck(net: Network, x: Tensor, width: int, stride: int, version: Version) -> Tensor:
    depth, shortcut = 4 * width, x
    before = net.activation(net.batch_norm(x)) if version == "v2" else x
    normalized = version != "v2"
    if net.channels(x) != depth:
        shortcut = net.conv(before, depth, 1, stride, bias=None, norm=normalized, activation=None)
    first, second = (1, stride) if version == "v1.5" else (stride, 1)
    x = net.conv(before, width, 1, first)
    x = net.conv(x, width, 3, second, "centered")
    x = net.conv(x, depth, 1, bias=None, norm=normalized, activation=None)
    x = net.add(shortcut, x)
    return x if version == "v2" else net.activation(x)


def resnet_cifar10(net: Network, x: Tensor, *, blocks: int, version: Version) -> Tensor:
    """A ResNet of three stages of so many blocks of two convolutions, 6 * `blocks` + 2 layers deep.

    Source: He et al., https://arxiv.org/abs/1512.03385, section 4.2.
    """
    x = net.conv(x, 16, 3, activation="relu" if version == "v2" else None)
    for stage in range(3):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _residual(net, x, 16 << stage, stride, version)
    if version == "v2":
        x = net.activation(net.batch_norm(x))
    return net.spatial_mean(x)


def _residual(net: Network, x: Tensor, depth: int, stride: int, version: Version) -> Tensor:
    shortcut = x
    if net.channels(x) != depth:
        shortcut = _with_channels(net, net.mean_pool(x, 1, stride), depth)
    before = net.activation(net.batch_norm(x)) if version == "v2" else x
    x = net.conv(before, depth, 3, stride)
    x = net.conv(x, depth, 3, bias=None, norm=version != "v2", activation=None)
    x = net.add(shortcut, x)
    return x if version == "v2" else net.activation(x)


def _with_channels(net: Network, x: Tensor, depth: int) -> Tensor:
    """Put channels of zeros around those of a tensor: shortcuts of CIFAR-10 have no weights."""
    edges = [(0, 0)] * 4
    edges[net.axis] = ((depth - net.channels(x)) // 2,) * 2
    return keras.ops.pad(x, edges)


def densenet(net: Network, x: Tensor, *, layers: int, growth_rate: int) -> Tensor:
    """A DenseNet of three blocks of so many layers, each of which adds `growth_rate` channels.

    The paper's transitions keep the number of channels. The original's keep 2 * `growth_rate`,
    whatever came in, and so do these: its networks have a third of the paper's weights.

    Source: Huang et al., https://arxiv.org/abs/1608.06993.
    """
    x = net.conv(x, 16, 3, activation=None)
    for block in range(3):
        for _ in range(layers):
            y = net.activation(net.batch_norm(x, DENSE_NORM))
            stddev = math.sqrt(2.0 / 9 / growth_rate)
            y = net.conv(y, growth_rate, 3, activation=None, stddev=stddev)
            x = net.concatenate([x, y])
        x = net.activation(net.batch_norm(x, DENSE_NORM))
        if block < 2:
            kept = 2 * growth_rate
            x = net.mean_pool(net.conv(x, kept, 1, stddev=math.sqrt(2.0 / 9 / kept)), 2)
    return net.spatial_mean(x)
