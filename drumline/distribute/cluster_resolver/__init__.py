"""Cluster resolvers: which processes there are, and which of them this one is.

The names follow ``tf.distribute.cluster_resolver``.
"""

from drumline.distribute.cluster_resolver.cluster_resolver import (
    ClusterResolver,
    SimpleClusterResolver,
    UnionResolver,
)
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec
from drumline.distribute.cluster_resolver.kubernetes import (
    KubernetesClusterResolver,
    KubernetesExecutableLocation,
)
from drumline.distribute.cluster_resolver.slurm import SlurmClusterResolver
from drumline.distribute.cluster_resolver.tf_config import (
    TFConfigClusterResolver,
    TFConfigError,
)
from drumline.distribute.cluster_resolver.tpu import TPUClusterResolver, TPUNotFoundError

__all__ = [
    "ClusterResolver",
    "ClusterSpec",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "TFConfigError",
    "TPUClusterResolver",
    "TPUNotFoundError",
    "UnionResolver",
]
