"""Strategies and resolvers that there is nothing for here: scripts ask for them first.

They exist so that ``isinstance`` works, and that a script which tries a TPU first falls back as it
does with TensorFlow on a machine without one. Making one raises, with what to use.
"""

from __future__ import annotations

from typing import Any, NoReturn

from drumline.compat.values.errors import NotFoundError
from drumline.distribute.cluster_resolver import ClusterResolver
from drumline.distribute.strategy import Strategy

_NO_TPU = "Please provide a TPU Name to connect to."


class TPUClusterResolver(ClusterResolver):
    """As ``tf.distribute.cluster_resolver.TPUClusterResolver`` where no TPU is.

    Raises:
        ValueError: always, as TensorFlow does where there is none.
    """

    def __init__(self, tpu: Any = None, *args: Any, **kwargs: Any):
        raise ValueError(
            f"{_NO_TPU} TPUs of this machine are used without a resolver: "
            "tf.distribute.MirroredStrategy() takes all of JAX's devices."
        )

    @staticmethod
    def connect(tpu: Any = None, zone: Any = None, project: Any = None) -> NoReturn:
        """Refuse, as making one does."""
        TPUClusterResolver(tpu)
        raise AssertionError

    def cluster_spec(self) -> NoReturn:
        """There is none: it cannot be made."""
        raise ValueError(_NO_TPU)


class GCEClusterResolver(ClusterResolver):
    """As ``tf.distribute.cluster_resolver.GCEClusterResolver``.

    Raises:
        NotImplementedError: always: nothing here asks Google's interface for instances.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            "tf.distribute.cluster_resolver.GCEClusterResolver asks Google's Compute Engine for "
            "instances, which is not done here: set TF_CONFIG, or list the addresses in a "
            "SimpleClusterResolver."
        )

    def cluster_spec(self) -> NoReturn:
        """There is none: it cannot be made."""
        raise NotImplementedError


class TPUStrategy(Strategy):
    """As ``tf.distribute.TPUStrategy``: there for ``isinstance``.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            "tf.distribute.TPUStrategy is not in the look-alike: tf.distribute.MirroredStrategy() "
            "takes all of JAX's devices, TPUs too."
        )


def initialize_tpu_system(cluster_resolver: Any = None) -> NoReturn:
    """Refuse, as TensorFlow does where there is no TPU.

    Raises:
        ValueError: without a resolver.
        NotFoundError: with one.
    """
    if cluster_resolver is None:
        TPUClusterResolver()
    raise NotFoundError(
        None,
        None,
        "TPUs not found in the cluster. JAX's own TPUs need no initialization: use "
        "tf.distribute.MirroredStrategy().",
    )


def shutdown_tpu_system(cluster_resolver: Any = None) -> NoReturn:
    """Refuse, as `initialize_tpu_system` does."""
    initialize_tpu_system(cluster_resolver)
