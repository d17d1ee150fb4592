"""MobileNet v2 and the NASNets: models of separable convolutions, as of tf_cnn_benchmarks.

Each function takes a network and images, and returns what the last layer, the one with the
classes, is put on. The original made these with TensorFlow's slim, and took slim's defaults: in
the NASNets, which were published with no bias and a gamma, convolutions have a bias and are
rectified before they are normalized without a gamma. So they are here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras

from drumline.cnn.models.layers import DropPath, TrainingProgress
from drumline.cnn.models.network import BatchNormSettings, Network, Tensor

MOBILENET_NORM = BatchNormSettings(momentum=0.997, epsilon=1e-3, scale=True)

MOBILENET_BLOCKS = (
    # Channels of the output, blocks, and the first one's stride.
    (24, 2, 2),
    (32, 3, 2),
    (64, 4, 2),
    (96, 3, 1),
    (160, 3, 2),
    (320, 1, 1),
)

MOBILENET_LOGITS = 1001
"""The units of its own last layer, which the benchmark puts another one on."""


def mobilenet(net: Network, x: Tensor) -> Tensor:
    """MobileNet v2 of width 1, with its own 1001 logits, below those of the benchmark.

    Source: Sandler et al., https://arxiv.org/abs/1801.04381, table 2.
    """
    x = net.conv(x, 32, 3, 2, activation="relu6", stddev=0.09)
    x = _expanded(net, x, 16, 1, 1)
    for filters, count, stride in MOBILENET_BLOCKS:
        for block in range(count):
            x = _expanded(net, x, filters, stride if block == 0 else 1, 6)
    x = net.conv(x, 1280, 1, activation="relu6", stddev=0.09)
    x = net.dropout(net.spatial_mean(x), 0.2)
    return net.dense(x, MOBILENET_LOGITS, activation=None, stddev=0.09)


def _expanded(net: Network, x: Tensor, filters: int, stride: int, factor: int) -> Tensor:
    shortcut, channels = x, net.channels(x)
    if factor > 1:
        x = net.conv(x, factor * channels, 1, activation="relu6", stddev=0.09)
    x = net.depthwise_conv(x, 3, stride, keras.initializers.TruncatedNormal(stddev=0.09))
    x = net.activation(net.batch_norm(x, net.norm), "relu6")
    x = net.conv(x, filters, 1, activation=None, stddev=0.09)
    return net.add(x, shortcut) if stride == 1 and filters == channels else x


@dataclasses.dataclass(frozen=True)
class NasNet:
    """The measures of a NASNet.

    Attributes:
        cells: Normal cells; a reduction cell follows a third and two thirds of them.
        filters: Of a convolution in the first cells.
        stem_filters: Of the first convolution.
        imagenet: Whether the stem reduces the image, by two reduction cells.
        skip_reduction: Whether the cell after a reduction takes what was two cells before it,
            and not what was before the reduction.
        keep_path: The probability to keep an operation's result in the last cell at the end.
        total_steps: Of a training, over which that probability falls from 1.
    """

    cells: int
    filters: int
    stem_filters: int
    imagenet: bool
    skip_reduction: bool = False
    keep_path: float = 1.0
    total_steps: int = 250_000


NASNET_MOBILE = NasNet(cells=12, filters=44, stem_filters=32, imagenet=True)
NASNET_LARGE = NasNet(
    cells=18, filters=168, stem_filters=96, imagenet=True, skip_reduction=True, keep_path=0.7
)
NASNET_CIFAR10 = NasNet(
    cells=18, filters=32, stem_filters=96, imagenet=False, keep_path=0.6, total_steps=937_500
)

Operation = Callable[["_Cell", Tensor, int], Tensor]


def nasnet(net: Network, x: Tensor, *, measures: NasNet) -> Tensor:
    """A NASNet-A, without its auxiliary classifier.

    Source: Zoph et al., https://arxiv.org/abs/1707.07012, figure 4 and appendix A.

    Args:
        net: The network.
        x: The images.
        measures: Which of them.

    Returns:
        The features.
    """
    dropped = measures.keep_path < 1.0
    progress = (
        TrainingProgress(measures.total_steps, dtype=net.dtype, name=net.name("progress"))(x)
        if dropped
        else None
    )
    cells = measures.cells + (4 if measures.imagenet else 2)
    number = 0

    def cell(
        kind: tuple[Any, ...], x: Tensor, before: Tensor | None, filters: int, stride: int
    ) -> Tensor:
        nonlocal number
        number += 1
        keep = 1.0 - number / cells * (1.0 - measures.keep_path)
        return _Cell(net, filters, keep, progress)(kind, x, before, stride)

    strides, padding = (2, "valid") if measures.imagenet else (1, "same")
    x = _conv(net, x, measures.stem_filters, 3, strides, padding)
    outputs: list[Tensor | None] = [None, x]
    for reduction in (4, 2) if measures.imagenet else ():
        x = cell(REDUCTION, x, outputs[-2], measures.filters // reduction, 2)
        outputs.append(x)
    thirds = [measures.cells // 3, 2 * measures.cells // 3]
    filters = measures.filters
    for index in range(measures.cells):
        before = outputs[-2]
        if index in thirds:
            filters *= 2
            x = cell(REDUCTION, x, outputs[-2], filters, 2)
            outputs.append(x)
            if not measures.skip_reduction:
                before = outputs[-2]
        x = cell(NORMAL, x, before, filters, 1)
        outputs.append(x)
    return net.spatial_mean(net.activation(x))


def _conv(
    net: Network, x: Tensor, filters: int, kernel: Any = 1, strides: int = 1, padding: Any = "same"
) -> Tensor:
    """Convolve, rectify and normalize, in this order, as slim's defaults have it."""
    return net.batch_norm(
        net.conv(x, filters, kernel, strides, padding, initializer="glorot_uniform")
    )


class _Cell:
    """One cell: five sums of two operations, each on what came in or on an earlier sum."""

    def __init__(self, net: Network, filters: int, keep: float, progress: Tensor | None) -> None:
        self.net, self.filters, self.keep, self.progress = net, filters, keep, progress

    def __call__(
        self, kind: tuple[Any, ...], x: Tensor, before: Tensor | None, stride: int
    ) -> Tensor:
        sums, unused = kind
        before = self._like(before, x)
        states = [_conv(self.net, self.net.activation(x), self.filters), before]
        for (left, of_left), (right, of_right) in sums:
            terms = [
                operation(self, states[of], stride if of < 2 else 1)
                for operation, of in ((left, of_left), (right, of_right))
            ]
            states.append(self.net.add(*terms))
        return self.net.concatenate([self._as_wide(states[of], states[-1]) for of in unused])

    def _like(self, before: Tensor | None, x: Tensor) -> Tensor:
        """Give the output of the cell before the last the shape that this cell takes."""
        if before is None:
            return x
        if before.shape[2] != x.shape[2]:
            return self._reduced(self.net.activation(before))
        if self.net.channels(before) != self.filters:
            return _conv(self.net, self.net.activation(before), self.filters)
        return before

    def _as_wide(self, state: Tensor, last: Tensor) -> Tensor:
        if state.shape[2] != last.shape[2]:
            return self._reduced(state)
        if self.net.channels(state) != self.filters:
            return _conv(self.net, state, self.filters)
        return state

    def _reduced(self, x: Tensor) -> Tensor:
        """Halve the image: half of the channels are made of even points, half of odd ones."""
        net = self.net
        paths = [net.mean_pool(x, 1, 2)]
        edges = [(0, 0) if axis in (0, net.axis) else (0, 1) for axis in range(4)]
        inner = [slice(low + high, None) for low, high in edges]
        paths.append(net.mean_pool(keras.ops.pad(x, edges)[tuple(inner)], 1, 2))
        halves = [
            net.conv(path, self.filters // 2, 1, initializer="glorot_uniform") for path in paths
        ]
        return net.batch_norm(net.concatenate(halves))

    def separable(self, x: Tensor, stride: int, kernel: int) -> Tensor:
        """Rectify and convolve separably, twice."""
        for strides in (stride, 1):
            x = self.net.activation(x)
            x = self.net.separable_conv(x, self.filters, kernel, strides, "glorot_uniform")
            x = self.net.batch_norm(x)
        return self._dropped(x)

    def pooled(self, x: Tensor, stride: int, pool: Any) -> Tensor:
        """Pool, and give it the cell's channels where it has others."""
        x = pool(x, 3, stride, "same")
        if self.net.channels(x) != self.filters:
            x = _conv(self.net, x, self.filters)
        return self._dropped(x)

    def identity(self, x: Tensor, stride: int) -> Tensor:
        """Leave what has the cell's shape alone."""
        if stride > 1 or self.net.channels(x) != self.filters:
            x = _conv(self.net, self.net.activation(x), self.filters, 1, stride)
        return x

    def _dropped(self, x: Tensor) -> Tensor:
        if self.progress is None:
            return x
        layer = DropPath(self.keep, dtype=self.net.dtype, name=self.net.name("droppath"))
        return layer([x, self.progress])


def _separable(kernel: int) -> Operation:
    return lambda cell, x, stride: cell.separable(x, stride, kernel)


def _mean(cell: _Cell, x: Tensor, stride: int) -> Tensor:
    return cell.pooled(x, stride, cell.net.mean_pool)


def _max(cell: _Cell, x: Tensor, stride: int) -> Tensor:
    return cell.pooled(x, stride, cell.net.max_pool)


def _same(cell: _Cell, x: Tensor, stride: int) -> Tensor:
    return cell.identity(x, stride)


_THREE, _FIVE, _SEVEN = _separable(3), _separable(5), _separable(7)

# Sums of (operation, state) and (operation, state): state 0 is the last cell's output, 1 the one
# before it, 2 to 6 the sums. Then the states that the output consists of.
NORMAL = (
    (
        ((_FIVE, 0), (_THREE, 1)),
        ((_FIVE, 1), (_THREE, 1)),
        ((_mean, 0), (_same, 1)),
        ((_mean, 1), (_mean, 1)),
        ((_THREE, 0), (_same, 0)),
    ),
    (1, 2, 3, 4, 5, 6),
)
REDUCTION = (
    (
        ((_FIVE, 0), (_SEVEN, 1)),
        ((_max, 0), (_SEVEN, 1)),
        ((_mean, 0), (_FIVE, 1)),
        ((_same, 3), (_mean, 2)),
        ((_THREE, 2), (_max, 0)),
    ),
    (3, 4, 5, 6),
)
