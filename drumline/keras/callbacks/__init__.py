"""Callbacks for `fit`, and event files for TensorBoard without TensorFlow."""

from drumline.keras.callbacks.tensorboard import Checkpointing, KerasTensorBoard, TensorBoard

__all__ = ["Checkpointing", "KerasTensorBoard", "TensorBoard"]
