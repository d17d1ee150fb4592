"""Callbacks for `fit`: step profiles, and event files for TensorBoard without TensorFlow."""

from drumline.keras.callbacks.step_profiler import StepProfiler
from drumline.keras.callbacks.tensorboard import Checkpointing, KerasTensorBoard, TensorBoard

__all__ = ["Checkpointing", "KerasTensorBoard", "StepProfiler", "TensorBoard"]
