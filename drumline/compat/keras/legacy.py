"""What classes of Keras had in TensorFlow 2 and have no more: arguments, methods and spellings.

`boundaries.install` gives them to Keras's classes.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from drumline.compat.values.shape import TensorShape
from drumline.compat.values.specs import ArraySpec
from drumline.compat.values.tensor import Tensor, TensorReference

WEIGHTS = ".weights.h5"
MODEL = "model.keras"
"""The file of a model that is saved to a directory."""


def with_old_rates(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an optimizer's ``__init__``: it takes ``lr`` and ``decay``.

    With ``decay`` the rate at a step is ``learning_rate / (1 + decay * step)``.
    """
    default = inspect.signature(init).parameters.get("learning_rate")

    def made(self: Any, *args: Any, lr: Any = None, decay: Any = None, **kwargs: Any) -> None:
        if default is None or (lr is None and not decay):
            init(self, *args, **kwargs)
            return
        if lr is not None and (args or "learning_rate" in kwargs):
            raise TypeError(f"{type(self).__name__} takes one of `lr` and `learning_rate`.")
        first, *others = args or (None,)
        given = kwargs.pop("learning_rate", first)
        rate = next(each for each in (lr, given, default.default) if each is not None)
        if decay:
            rate = keras.optimizers.schedules.InverseTimeDecay(rate, 1, decay)
        init(self, rate, *others, **kwargs)

    return made


def _rate(optimizer: Any) -> Any:
    """The learning rate, by its name in Keras 2."""
    return optimizer.learning_rate


def _set_rate(optimizer: Any, rate: Any) -> None:
    optimizer.learning_rate = rate


def _get_weights(optimizer: Any) -> list[np.ndarray]:
    """The values of the optimizer's variables."""
    return [np.asarray(variable.value) for variable in optimizer.variables]


def _reset_states(metric: Any) -> None:
    """As `reset_state`."""
    metric.reset_state()


def _reset_model_states(model: Any) -> None:
    """Reset the states of all stateful layers."""
    for layer in model._flatten_layers(include_self=False):
        if isinstance(layer, keras.layers.RNN) and layer.stateful:
            layer.reset_states()


def _save_spec(model: Any, dynamic_batch: bool = True) -> Any:
    """Specs of what the model is called with, as a pair of positional and named; None unbuilt."""
    inputs = getattr(model, "_functional", model)
    inputs = getattr(inputs, "inputs", None)
    if not inputs:
        return None
    specs = [
        ArraySpec((None if dynamic_batch else each.shape[0], *each.shape[1:]), each.dtype)
        for each in inputs
    ]
    return (specs if len(specs) > 1 else specs[:1]), {}


def _submodules(layer: Any) -> tuple[Any, ...]:
    """The layers in it, at any depth."""
    return tuple(layer._flatten_layers(include_self=False))


def _answer(name: str, instead: str) -> property:
    def answer(model: Any) -> Any:
        raise AttributeError(f"Model.{name} was removed from TensorFlow; use {instead}")

    return property(answer)


def with_any_path(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.save``: a path without a suffix is a directory with the model in it.

    ``save_format``, ``"h5"``, ``"keras"`` or ``"tf"``, says what it is whatever the suffix.
    ``signatures`` are refused.
    """

    def saved(
        self: Any,
        filepath: Any,
        overwrite: bool = True,
        save_format: str | None = None,
        include_optimizer: bool = True,
        **options: Any,
    ) -> None:
        path = os.fspath(filepath)
        given = os.path.splitext(path)[1]
        directory = None
        if save_format not in (None, "tf", "h5", "keras"):
            raise ValueError(f"save_format must be 'tf', 'h5' or 'keras', not {save_format!r}")
        if save_format == "tf" or (given not in (".keras", ".h5", ".hdf5") and save_format is None):
            if os.path.exists(path) and not overwrite:
                raise FileExistsError(f"{path} exists, and overwrite=False was passed")
            if not path.startswith("gs://"):
                directory = Path(path)
                directory.mkdir(parents=True, exist_ok=True)
            path = os.path.join(path, MODEL)
        elif save_format is not None and given not in (".keras", ".h5", ".hdf5"):
            path = f"{path}.{save_format}"
        if options.pop("signatures", None) is not None:
            raise NotImplementedError(
                "Model.save writes no signatures; use Model.export for a program that is served"
            )
        # Hints on TensorFlow's own format, which is not written.
        for name in ("options", "save_traces"):
            options.pop(name, None)
        save(self, path, overwrite=overwrite, include_optimizer=include_optimizer, **options)
        if directory is not None:
            from drumline.compat.training.restored import FILE

            (directory / FILE).unlink(missing_ok=True)  # of a model that was there before

    return saved


def with_portable_program(export: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.export``: a program that ``tf.saved_model.load`` here reads is written, too.

    Where TensorFlow is installed, so is the SavedModel that TensorFlow reads, into the same
    directory.
    """

    def exported(
        self: Any,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        **options: Any,
    ) -> None:
        if format != "tf_saved_model":
            export(self, filepath, format=format, verbose=verbose, **options)
            return
        if importlib.util.find_spec("tensorflow") is not None:
            export(self, filepath, format=format, verbose=verbose, **options)
        elif options:
            raise TypeError(f"Model.export has no {', '.join(options)} without TensorFlow")
        from drumline.compat.training.saved_model import export_model

        export_model(self, filepath)
        if verbose is not False:
            print(
                f"Saved a program at {os.fspath(filepath)!r}, for tf.saved_model.load of this "
                "package. It has the function 'serve' and the signature 'serving_default'."
            )

    return exported


def with_weights_suffix(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``save_weights`` or ``load_weights``: ``.weights.h5`` is added to a path without."""

    def saved(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        path = os.fspath(filepath)
        chosen = kwargs.pop("save_format", None)
        if chosen not in (None, "tf", "h5", "keras"):
            raise ValueError(f"save_format must be 'tf', 'h5' or 'keras', not {chosen!r}")
        loads = save.__name__ == "load_weights"
        if not path.endswith((".h5", ".keras", ".json")) and not os.path.isfile(path):
            path += WEIGHTS
        elif path.endswith(".h5") and not (
            os.path.exists(path) if loads else path.endswith(WEIGHTS)
        ):
            path = path.removesuffix(".h5").removesuffix(".weights") + WEIGHTS
        return save(self, path, *args, **kwargs)

    return saved


def with_name_first(add_weight: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.add_weight``: its first argument may be the name."""

    def added(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str):
            kwargs["name"], args = args[0], args[1:]
        for hint in ("use_resource", "partitioner", "experimental_autocast", "getter"):
            kwargs.pop(hint, None)
        return add_weight(self, *args, **kwargs)

    return added


def with_auto_reduction(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Loss.__init__``: ``Reduction.AUTO`` is the mean over the batch."""
    parameters = list(inspect.signature(init).parameters)
    position = parameters.index("reduction") - 1

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("reduction") == "auto":
            kwargs["reduction"] = "sum_over_batch_size"
        elif len(args) > position and args[position] == "auto":
            args = (*args[:position], "sum_over_batch_size", *args[position + 1 :])
        init(self, *args, **kwargs)

    return made


ANSWERS = {
    "predict_classes": "np.argmax(model.predict(x), axis=-1), or model.predict(x) > 0.5",
    "predict_proba": "model.predict(x)",
    "fit_generator": "model.fit, which takes generators",
    "evaluate_generator": "model.evaluate, which takes generators",
    "predict_generator": "model.predict, which takes generators",
}
ADDED_TO_MODELS = {
    "reset_states": _reset_model_states,
    "save_spec": _save_spec,
    **{name: _answer(name, instead) for name, instead in ANSWERS.items()},
}
ADDED_TO_LAYERS = {"submodules": property(_submodules)}
ADDED_TO_VARIABLES = {
    "read_value": lambda self: Tensor(self.value),
    "get_shape": lambda self: TensorShape(tuple(self.shape)),
    "ref": TensorReference,
}
ADDED_TO_OPTIMIZERS = {
    "lr": property(_rate, _set_rate),
    "weights": property(lambda self: list(self.variables)),
    "get_weights": _get_weights,
}
ADDED_TO_METRICS = {"reset_states": _reset_states}
