"""Models that are one chain of layers: trivial, LeNet, AlexNet, OverFeat and VGG.

As of tf_cnn_benchmarks. Each function takes a network and images, and returns what the last layer,
the one with the classes, is put on.
"""

from __future__ import annotations

import functools

from drumline.cnn.models.layers import LocalResponseNormalization
from drumline.cnn.models.network import Network, Tensor


def trivial(net: Network, x: Tensor) -> Tensor:
    """One unit, then 4096: next to nothing to compute, so that everything else shows."""
    return net.dense(net.dense(net.flatten(x), 1), 4096)


def lenet(net: Network, x: Tensor) -> Tensor:
    """LeNet-5 with the widths of TensorFlow's MNIST tutorial, for images of 28 x 28.

    It is rectified, and pools the greatest values, which the paper's does not.

    Source: LeCun et al., Gradient-based learning applied to document recognition, 1998.
    """
    x = net.max_pool(net.conv(x, 32, 5), 2)
    x = net.max_pool(net.conv(x, 64, 5), 2)
    return net.dense(net.flatten(x), 512)


def alexnet(net: Network, x: Tensor) -> Tensor:
    """AlexNet on one device, without local response normalization, for images of 227 x 227.

    Its third and fourth convolutions have 384 channels each; some later ones have 384 and 256.
    The first convolution has no padding, so that 224 x 224 would not give the last one 6 x 6.

    Source: Krizhevsky, One weird trick for parallelizing convolutional neural networks,
    https://arxiv.org/abs/1404.5997.
    """
    x = net.max_pool(net.conv(x, 64, 11, 4, "valid"), 3)
    x = net.max_pool(net.conv(x, 192, 5), 3)
    for filters in (384, 384, 256):
        x = net.conv(x, filters, 3)
    return _two_wide(net, net.max_pool(x, 3), 4096, 4096)


def alexnet_cifar10(net: Network, x: Tensor) -> Tensor:
    """Two convolutions with local response normalization, as of TensorFlow's CIFAR-10 tutorial.

    Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """
    normalize = functools.partial(
        LocalResponseNormalization,
        depth_radius=4,
        bias=1.0,
        alpha=0.001 / 9.0,
        beta=0.75,
        axis=net.axis,
        dtype=net.dtype,
    )
    x = net.max_pool(net.conv(x, 64, 5, stddev=0.05), 3, padding="same")
    x = normalize(name=net.name("lrn"))(x)
    x = net.conv(x, 64, 5, bias=0.1, stddev=0.05)
    x = normalize(name=net.name("lrn"))(x)
    x = net.flatten(net.max_pool(x, 3, padding="same"))
    x = net.dense(x, 384, bias=0.1, stddev=0.04)
    return net.dense(x, 192, bias=0.1, stddev=0.04)


def overfeat(net: Network, x: Tensor) -> Tensor:
    """OverFeat's fast model, for images of 231 x 231.

    Without padding in the first two convolutions, the last pooling gives 6 x 6.

    Source: Sermanet et al., https://arxiv.org/abs/1312.6229, table 1.
    """
    x = net.max_pool(net.conv(x, 96, 11, 4, "valid"), 2)
    x = net.max_pool(net.conv(x, 256, 5, 1, "valid"), 2)
    for filters in (512, 1024, 1024):
        x = net.conv(x, filters, 3)
    return _two_wide(net, net.max_pool(x, 2), 3072, 4096)


def vgg(net: Network, x: Tensor, *, convolutions: tuple[int, ...]) -> Tensor:
    """VGG with so many convolutions before each of five poolings.

    Source: Simonyan and Zisserman, https://arxiv.org/abs/1409.1556, table 1: columns A (1, 1, 2,
    2, 2), D (2, 2, 3, 3, 3) and E (2, 2, 4, 4, 4).
    """
    for filters, count in zip((64, 128, 256, 512, 512), convolutions, strict=True):
        for _ in range(count):
            x = net.conv(x, filters, 3)
        x = net.max_pool(x, 2)
    return _two_wide(net, x, 4096, 4096)


def _two_wide(net: Network, x: Tensor, first: int, second: int) -> Tensor:
    x = net.dropout(net.dense(net.flatten(x), first))
    return net.dropout(net.dense(x, second))
