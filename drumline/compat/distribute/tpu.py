"""TPUs as ``tf.tpu.experimental`` and ``tf.distribute`` have them.

A script that tries a TPU first falls back as it does with TensorFlow on a machine without one: the
errors are of the classes that it expects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from drumline import config
from drumline.compat.values.errors import NotFoundError
from drumline.distribute.cluster_resolver import TPUClusterResolver, TPUNotFoundError
from drumline.tpu.experimental import Topology
from drumline.tpu.experimental import initialize_tpu_system as _initialize
from drumline.tpu.experimental import shutdown_tpu_system as _shut_down


class ResolverOfTPUs(TPUClusterResolver):
    """As ``tf.distribute.cluster_resolver.TPUClusterResolver``."""

    @staticmethod
    def connect(tpu: Any = None, zone: Any = None, project: Any = None) -> TPUClusterResolver:
        """Make a resolver, and initialize its TPU.

        Raises:
            NotFoundError: if JAX finds no TPU.
            ValueError: if no TPU is named.
        """
        resolver = ResolverOfTPUs(tpu, zone, project)
        initialize_tpu_system(resolver)
        return resolver


ResolverOfTPUs.__name__ = ResolverOfTPUs.__qualname__ = "TPUClusterResolver"


def initialize_tpu_system(cluster_resolver: Any = None) -> Topology:
    """Join the machines of a TPU, start JAX on its devices, and return where they lie.

    Raises:
        NotFoundError: if JAX finds no TPU.
        ValueError: without a resolver, if no TPU is named.
    """
    with tpu_or_not_found():
        return _initialize(cluster_resolver)


def shutdown_tpu_system(cluster_resolver: Any = None) -> None:
    """Let JAX forget the programs that it has compiled.

    Raises:
        NotFoundError: if JAX finds no TPU.
        ValueError: without a resolver, if no TPU is named.
    """
    with tpu_or_not_found():
        _shut_down(cluster_resolver)


def connect_to_tpu(resolver: TPUClusterResolver) -> None:
    """Join the machines of a TPU.

    Raises:
        NotFoundError: if JAX has no TPU support.
    """
    with tpu_or_not_found():
        config.experimental_connect_to_cluster(resolver)


@contextlib.contextmanager
def tpu_or_not_found() -> Iterator[None]:
    """Raise TensorFlow's `NotFoundError` in the block where JAX finds no TPU."""
    try:
        yield
    except TPUNotFoundError as error:
        raise NotFoundError(None, None, f"TPUs not found in the cluster. {error}") from error
