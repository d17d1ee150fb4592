"""Callbacks for `fit`: step profiles, trackers, and event files without TensorFlow."""

from drumline.keras.callbacks.step_profiler import StepProfiler
from drumline.keras.callbacks.tensorboard import Checkpointing, KerasTensorBoard, TensorBoard
from drumline.keras.callbacks.track import Track

__all__ = ["Checkpointing", "KerasTensorBoard", "StepProfiler", "TensorBoard", "Track"]
