"""The tutorial's convnet, Keras ``fit`` from a dataset, batch 64, one device."""

from __future__ import annotations

from benchmarks.harness.floors import Floor
from benchmarks.harness.training import check_training, one_device_contenders
from benchmarks.harness.workload import Scale, Workload
from benchmarks.workloads.convnet import CONVNET, FALLS_TO, TOLERANCE

WORKLOAD = Workload(
    name="convnet_fit",
    title="tutorial convnet, Keras fit from a Dataset, batch 64, 1 device",
    unit="images",
    baseline="Keras on TensorFlow",
    full=Scale(elements=16_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=1_280, batch_size=64, later_epochs=1),
    contenders=one_device_contenders(CONVNET),
    floors=(Floor("later", at_least=1.5, aim=2.0, against="Keras on TensorFlow"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
