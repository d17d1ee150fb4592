"""``tf.keras.layers.TFSMLayer``: a function of a saved model as a layer of Keras's.

Keras has the layer for TensorFlow alone. Here the function is a program of
``tf.saved_model.save`` or ``Model.export``, which JAX traces as any other layer's call.
"""

from __future__ import annotations

import os
from typing import Any

import keras

from drumline.compat.training.restored import RestoredFunction, RestoredTrace, load
from drumline.compat.values.boundary import unwrap, wrap
from drumline.keras.internals import in_safe_mode


@keras.saving.register_keras_serializable("drumline", "TFSMLayer")
class ProgramLayer(keras.layers.Layer):
    """Computes a function of a saved model, as ``tf.keras.layers.TFSMLayer``.

    Args:
        filepath: the directory that ``Model.export`` or ``tf.saved_model.save`` wrote.
        call_endpoint: an attribute of the saved object, or a signature's name.
        call_training_endpoint: the same, for calls with ``training=True``; None for the former.
        trainable: whether variables that were trained when they were saved are.
        name: of the layer.
        dtype: of the layer; programs have their own types.

    Raises:
        OSError: there is no such model.
        ValueError: it has no such function.
    """

    def __init__(
        self,
        filepath: Any,
        call_endpoint: str = "serve",
        call_training_endpoint: str | None = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(trainable=trainable, name=name, dtype=dtype)
        self.filepath = os.fspath(filepath)
        self.call_endpoint = call_endpoint
        self.call_training_endpoint = call_training_endpoint
        loaded = load(filepath)
        self._call_function = _endpoint(loaded, call_endpoint)
        self._training_function = self._call_function
        if call_training_endpoint is not None:
            self._training_function = _endpoint(loaded, call_training_endpoint)
        for each in loaded.variables:
            self._track_variable(each)
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Compute the function.

        Args:
            inputs: what it takes: a tensor, or a structure of them.
            training: whether the function for training is meant.
        """
        function = self._training_function if training else self._call_function
        return unwrap(function(wrap(inputs)))

    def get_config(self) -> dict[str, Any]:
        """The arguments of the layer; the saved model stays where it is."""
        return {
            **super().get_config(),
            "filepath": self.filepath,
            "call_endpoint": self.call_endpoint,
            "call_training_endpoint": self.call_training_endpoint,
        }

    @classmethod
    def from_config(
        cls, config: Any, custom_objects: Any = None, safe_mode: bool | None = None
    ) -> ProgramLayer:
        """Make the layer of `get_config`'s result.

        Raises:
            ValueError: in Keras's safe mode, since the file names another one, which is loaded.
        """
        safe = in_safe_mode() if safe_mode is None else safe_mode
        if safe is not False:
            raise ValueError(
                f"The model has a TFSMLayer, which loads {config['filepath']!r}: pass "
                "safe_mode=False to load_model if you trust that, or call "
                "keras.config.enable_unsafe_deserialization()."
            )
        return cls(**config)


def _endpoint(loaded: Any, name: str) -> Any:
    """A function of a loaded object: an attribute, or a signature."""
    found = getattr(loaded, name, None)
    if isinstance(found, (RestoredFunction, RestoredTrace)):
        return found
    if name in loaded.signatures:
        return loaded.signatures[name]
    raise ValueError(
        f"The endpoint {name!r} is neither a function among the attributes of the saved object nor "
        f"one of its signatures {list(loaded.signatures)}: choose by call_endpoint."
    )


ProgramLayer.__name__ = ProgramLayer.__qualname__ = "TFSMLayer"
