"""``keras.callbacks.TensorBoard`` where TensorFlow, which Keras's own needs, is not installed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any, Literal

import keras

from drumline.keras.callbacks_ import TensorBoard
from drumline.keras.patching import replace_method

KERAS_OWN = keras.callbacks.TensorBoard


class KerasTensorBoard(TensorBoard):
    """drumline's `TensorBoard` with the arguments of Keras's, for scripts left as they are.

    Args:
        log_dir, histogram_freq, write_graph, write_steps_per_second, update_freq: see
            `TensorBoard`.
        write_images, profile_batch, embeddings_freq, embeddings_metadata: must keep the values
            that ask for nothing.

    Raises:
        NotImplementedError: an argument asks for what only TensorFlow can write.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: int | Literal["epoch", "batch"] = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
    ) -> None:
        for name, value in {
            "write_images": write_images,
            "profile_batch": profile_batch,
            "embeddings_freq": embeddings_freq,
            "embeddings_metadata": embeddings_metadata,
        }.items():
            if value:
                raise NotImplementedError(
                    f"TensorBoard({name}={value!r}) needs TensorFlow, which is not installed. "
                    f"Leave {name} out, or install tensorflow."
                )
        super().__init__(log_dir, histogram_freq, write_graph, write_steps_per_second, update_freq)


def stand_in_for_keras() -> None:
    """Let ``keras.callbacks.TensorBoard`` mean `KerasTensorBoard` if TensorFlow is not installed.

    Keras's own class, in scripts that imported its name before drumline, then says what to do.
    Where TensorFlow is installed, Keras's class works and is left alone.
    """
    if importlib.util.find_spec("tensorflow") is None:
        keras.callbacks.TensorBoard = KerasTensorBoard
        replace_method(KERAS_OWN, "set_model", _explained)


def _explained(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_model(self: keras.callbacks.Callback, model: keras.Model) -> None:
        try:
            original(self, model)
        except ImportError as error:
            raise ImportError(
                "keras.callbacks.TensorBoard writes its files with TensorFlow, which is not "
                "installed. Use drumline.keras.callbacks.TensorBoard, or import drumline before "
                "taking the name from keras.callbacks."
            ) from error

    return set_model
