"""Callbacks for ``fit`` that Keras offers only together with TensorFlow."""

from drumline.keras.callbacks.stand_in import KerasTensorBoard, stand_in_for_keras
from drumline.keras.callbacks_ import TensorBoard

__all__ = ["KerasTensorBoard", "TensorBoard", "stand_in_for_keras"]
