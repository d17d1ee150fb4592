"""The workloads, with every contender beside ours."""

from benchmarks.harness.workload import Workload
from benchmarks.workloads import (
    all_reduce,
    bucket_sequences,
    convnet_fit,
    convnet_mirrored,
    custom_loop,
    function_epoch,
    group_by_window,
    interleave_arrays,
    launch,
    map_batch,
    multi_worker_step,
    padded_batch,
    processes_against_devices,
    ps_empty_closures,
    ps_loss,
    ps_training,
    ps_wide_table,
    python_map,
    range_filter,
    record_reading,
    resnet_fit,
    run_overhead,
    sample_shuffled,
    shuffle_batch,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        shuffle_batch.WORKLOAD,
        map_batch.WORKLOAD,
        range_filter.WORKLOAD,
        padded_batch.WORKLOAD,
        sample_shuffled.WORKLOAD,
        interleave_arrays.WORKLOAD,
        group_by_window.WORKLOAD,
        bucket_sequences.WORKLOAD,
        python_map.WORKLOAD,
        *record_reading.WORKLOADS,
        convnet_fit.WORKLOAD,
        convnet_mirrored.WORKLOAD,
        resnet_fit.WORKLOAD,
        custom_loop.WORKLOAD,
        function_epoch.WORKLOAD,
        *run_overhead.WORKLOADS,
        multi_worker_step.WORKLOAD,
        *all_reduce.WORKLOADS,
        launch.WORKLOAD,
        processes_against_devices.WORKLOAD,
        *ps_training.WORKLOADS,
        ps_empty_closures.WORKLOAD,
        ps_wide_table.WORKLOAD,
        ps_loss.WORKLOAD,
    )
}
