"""Keras models under a strategy: the only part of drumline that touches Keras's trainer."""

from drumline.keras import callbacks, layers
from drumline.keras.agreement import ReplicaDivergenceError
from drumline.keras.install import install

__all__ = ["ReplicaDivergenceError", "callbacks", "install", "layers"]
