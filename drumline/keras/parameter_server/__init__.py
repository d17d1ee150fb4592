"""Keras's ``fit``, ``evaluate`` and ``predict`` with variables on parameter servers."""

from drumline.keras.parameter_server.sources import DatasetCreator

__all__ = ["DatasetCreator"]
