"""Models of parallel branches: GoogLeNet, Inception-v3 and Inception-v4, as of tf_cnn_benchmarks.

Each function takes a network and images, and returns what the last layer, the one with the
classes, is put on.
"""

from __future__ import annotations

from typing import Any

from drumline.cnn.models.network import Network, Tensor


def googlenet(net: Network, x: Tensor) -> Tensor:
    """GoogLeNet, without local response normalization, dropout and auxiliary classifiers.

    Source: Szegedy et al., https://arxiv.org/abs/1409.4842, table 1.
    """
    x = net.max_pool(net.conv(x, 64, 7, 2), 3, padding="same")
    x = net.conv(net.conv(x, 64, 1), 192, 3)
    x = net.max_pool(x, 3, padding="same")
    x = _inception1(net, x, 64, (96, 128), (16, 32), 32)
    x = _inception1(net, x, 128, (128, 192), (32, 96), 64)
    x = net.max_pool(x, 3, padding="same")
    x = _inception1(net, x, 192, (96, 208), (16, 48), 64)
    x = _inception1(net, x, 160, (112, 224), (24, 64), 64)
    x = _inception1(net, x, 128, (128, 256), (24, 64), 64)
    x = _inception1(net, x, 112, (144, 288), (32, 64), 64)
    x = _inception1(net, x, 256, (160, 320), (32, 128), 128)
    x = net.max_pool(x, 3, padding="same")
    x = _inception1(net, x, 256, (160, 320), (32, 128), 128)
    x = _inception1(net, x, 384, (192, 384), (48, 128), 128)
    return net.flatten(net.mean_pool(x, 7, 1))


def _inception1(
    net: Network, x: Tensor, single: int, three: tuple[int, int], five: tuple[int, int], pool: int
) -> Tensor:
    return net.concatenate(
        [
            net.conv(x, single, 1),
            _chain(net, x, (three[0], 1), (three[1], 3)),
            _chain(net, x, (five[0], 1), (five[1], 5)),
            net.conv(net.max_pool(x, 3, 1, "same"), pool, 1),
        ]
    )


def _chain(net: Network, x: Tensor, *convolutions: tuple[Any, ...]) -> Tensor:
    """Convolve again and again, by the arguments of `Network.conv`."""
    for convolution in convolutions:
        x = net.conv(x, *convolution)
    return x


def inception3(net: Network, x: Tensor) -> Tensor:
    """Inception-v3, without its auxiliary classifier, for images of 299 x 299.

    Source: Szegedy et al., https://arxiv.org/abs/1512.00567.

    Args:
        net: The network.
        x: The images.

    Returns:
        The features.
    """
    x = _chain(net, x, (32, 3, 2, "valid"), (32, 3, 1, "valid"), (64, 3))
    x = net.max_pool(x, 3)
    x = _chain(net, x, (80, 1), (192, 3, 1, "valid"))
    x = net.max_pool(x, 3)
    for pool in (32, 64, 64):
        x = _inception3_a(net, x, pool)
    x = _inception3_b(net, x)
    for width in (128, 160, 160, 192):
        x = _inception3_c(net, x, width)
    x = _inception3_d(net, x)
    x = _inception3_e(net, x, net.mean_pool)
    x = _inception3_e(net, x, net.max_pool)
    return net.flatten(net.mean_pool(x, 8, 1))


def _inception3_a(net: Network, x: Tensor, pool: int) -> Tensor:
    return net.concatenate(
        [
            net.conv(x, 64, 1),
            _chain(net, x, (48, 1), (64, 5)),
            _chain(net, x, (64, 1), (96, 3), (96, 3)),
            net.conv(net.mean_pool(x, 3, 1, "same"), pool, 1),
        ]
    )


def _inception3_b(net: Network, x: Tensor) -> Tensor:
    return net.concatenate(
        [
            net.conv(x, 384, 3, 2, "valid"),
            _chain(net, x, (64, 1), (96, 3), (96, 3, 2, "valid")),
            net.max_pool(x, 3),
        ]
    )


def _inception3_c(net: Network, x: Tensor, width: int) -> Tensor:
    wide, high = (1, 7), (7, 1)
    return net.concatenate(
        [
            net.conv(x, 192, 1),
            _chain(net, x, (width, 1), (width, wide), (192, high)),
            _chain(net, x, (width, 1), (width, high), (width, wide), (width, high), (192, wide)),
            net.conv(net.mean_pool(x, 3, 1, "same"), 192, 1),
        ]
    )


def _inception3_d(net: Network, x: Tensor) -> Tensor:
    return net.concatenate(
        [
            _chain(net, x, (192, 1), (320, 3, 2, "valid")),
            _chain(net, x, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, "valid")),
            net.max_pool(x, 3),
        ]
    )


def _inception3_e(net: Network, x: Tensor, pool: Any) -> Tensor:
    single = net.conv(x, 320, 1)
    three = _fork(net, net.conv(x, 384, 1), 384)
    five = _fork(net, _chain(net, x, (448, 1), (384, 3)), 384)
    return net.concatenate([single, *three, *five, net.conv(pool(x, 3, 1, "same"), 192, 1)])


def _fork(net: Network, x: Tensor, filters: int, *, high_first: bool = False) -> list[Tensor]:
    """Convolve the same tensor by a row and by a column."""
    kernels = ((3, 1), (1, 3)) if high_first else ((1, 3), (3, 1))
    return [net.conv(x, filters, kernel) for kernel in kernels]


def inception4(net: Network, x: Tensor) -> Tensor:
    """Inception-v4, for images of 299 x 299.

    Source: Szegedy et al., https://arxiv.org/abs/1602.07261, figures 3 to 9.
    """
    x = _inception4_stem(net, x)
    for _ in range(4):
        x = _inception4_a(net, x)
    x = net.concatenate(
        [
            net.max_pool(x, 3),
            net.conv(x, 384, 3, 2, "valid"),
            _chain(net, x, (192, 1), (224, 3), (256, 3, 2, "valid")),
        ]
    )
    for _ in range(7):
        x = _inception4_b(net, x)
    x = net.concatenate(
        [
            net.max_pool(x, 3),
            _chain(net, x, (192, 1), (192, 3, 2, "valid")),
            _chain(net, x, (256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2, "valid")),
        ]
    )
    for _ in range(3):
        x = _inception4_c(net, x)
    return net.dropout(net.spatial_mean(x), 0.2)


def _inception4_stem(net: Network, x: Tensor) -> Tensor:
    x = _chain(net, x, (32, 3, 2, "valid"), (32, 3, 1, "valid"), (64, 3))
    x = net.concatenate([net.max_pool(x, 3), net.conv(x, 96, 3, 2, "valid")])
    x = net.concatenate(
        [
            _chain(net, x, (64, 1), (96, 3, 1, "valid")),
            _chain(net, x, (64, 1), (64, (7, 1)), (64, (1, 7)), (96, 3, 1, "valid")),
        ]
    )
    return net.concatenate([net.conv(x, 192, 3, 2, "valid"), net.max_pool(x, 3)])


def _inception4_a(net: Network, x: Tensor) -> Tensor:
    return net.concatenate(
        [
            net.conv(net.mean_pool(x, 3, 1, "same"), 96, 1),
            net.conv(x, 96, 1),
            _chain(net, x, (64, 1), (96, 3)),
            _chain(net, x, (64, 1), (96, 3), (96, 3)),
        ]
    )


def _inception4_b(net: Network, x: Tensor) -> Tensor:
    wide, high = (1, 7), (7, 1)
    return net.concatenate(
        [
            net.conv(net.mean_pool(x, 3, 1, "same"), 128, 1),
            net.conv(x, 384, 1),
            _chain(net, x, (192, 1), (224, wide), (256, high)),
            _chain(net, x, (192, 1), (192, wide), (224, high), (224, wide), (256, high)),
        ]
    )


def _inception4_c(net: Network, x: Tensor) -> Tensor:
    pooled = net.conv(net.mean_pool(x, 3, 1, "same"), 256, 1)
    single = net.conv(x, 256, 1)
    three = _fork(net, net.conv(x, 384, 1), 256)
    five = _chain(net, x, (384, 1), (448, (1, 3)), (512, (3, 1)))
    return net.concatenate([pooled, single, *three, *_fork(net, five, 256, high_first=True)])
