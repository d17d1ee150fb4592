"""Cluster resolvers: which processes there are, and which of them this one is.

The names follow ``tf.distribute.cluster_resolver``.
"""

from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec
from drumline.distribute.cluster_resolver.kubernetes import (
    KubernetesClusterResolver,
    KubernetesExecutableLocation,
)
from drumline.distribute.cluster_resolver.simple_cluster_resolver import SimpleClusterResolver
from drumline.distribute.cluster_resolver.slurm import SlurmClusterResolver
from drumline.distribute.cluster_resolver.tf_config import TFConfigError
from drumline.distribute.cluster_resolver.tf_config_cluster_resolver import (
    TFConfigClusterResolver,
)
from drumline.distribute.cluster_resolver.union_resolver import UnionResolver

__all__ = [
    "ClusterResolver",
    "ClusterSpec",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "TFConfigError",
    "UnionResolver",
]
