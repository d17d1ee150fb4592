"""What there is nothing for here, but that scripts ask for.

It exists so that ``isinstance`` works. Making one raises, with what to use.
"""

from __future__ import annotations

from typing import Any, NoReturn

from drumline.distribute.cluster_resolver import ClusterResolver


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
