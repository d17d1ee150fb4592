"""Keras models under a strategy: the only part of drumline that touches Keras's trainer."""

from drumline.keras import callbacks, layers, utils
from drumline.keras.hooks import install
from drumline.keras.sidecar_evaluator import SidecarEvaluator
from drumline.keras.step.train_step import ReplicaDivergenceError

__all__ = ["ReplicaDivergenceError", "SidecarEvaluator", "callbacks", "install", "layers", "utils"]
