"""The workloads, one file each, with every contender beside ours."""

from benchmarks.harness.workload import Workload
from benchmarks.workloads import (
    convnet_fit,
    convnet_mirrored,
    map_batch,
    range_filter,
    resnet_fit,
    shuffle_batch,
)

WORKLOADS: dict[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD
    for module in (
        shuffle_batch,
        map_batch,
        range_filter,
        convnet_fit,
        convnet_mirrored,
        resnet_fit,
    )
}
