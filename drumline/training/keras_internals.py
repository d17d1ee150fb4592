"""What this room uses of Keras that is not public API (Keras 3.12 to 3.15)."""

from __future__ import annotations

import contextlib
import importlib
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from drumline.training.cut_values import SLOT, CutValue


def load(names: dict[str, list[str]]) -> dict[str, Any]:
    """The named attributes of Keras's private modules.

    Args:
        names: for each module, what to take of it.

    Raises:
        ImportError: if Keras runs on another backend than JAX, or lacks one of them.
    """
    if keras.backend.backend() != "jax":
        raise ImportError(
            f"drumline needs Keras on its JAX backend, but Keras runs on "
            f"{keras.backend.backend()!r}. Set KERAS_BACKEND=jax, or import drumline before keras."
        )
    found: dict[str, Any] = {}
    missing: list[str] = []
    for module_name, wanted in names.items():
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            missing.append(module_name)
            continue
        for name in wanted:
            if hasattr(module, name):
                found[name] = getattr(module, name)
            else:
                missing.append(f"{module_name}.{name}")
    refuse(missing)
    return found


def refuse(missing: list[str]) -> None:
    """Raise ``ImportError`` if anything is missing from this Keras."""
    if missing:
        raise ImportError(
            f"This Keras ({keras.__version__}) lacks what drumline builds on: "
            f"{', '.join(sorted(missing))}. Install keras>=3.12,<3.16."
        )


_found = load(
    {
        "keras.src.backend.common.stateless_scope": ["StatelessScope", "get_stateless_scope"],
        "keras.src.backend.common.global_state": ["GLOBAL_STATE_TRACKER"],
        "keras.src.backend.common.variables": ["initialize_all_variables"],
        "keras.src.backend.jax.core": ["Variable"],
    }
)

StatelessScope = _found["StatelessScope"]
get_stateless_scope = _found["get_stateless_scope"]
initialize_all_variables = _found["initialize_all_variables"]
Variable = _found["Variable"]


_global_state = importlib.import_module("keras.src.backend.common.global_state")


def thread_state() -> dict[str, Any]:
    """What Keras keeps for this thread, to be read and written: its open scopes and the like."""
    # Looked up every time: keras.utils.clear_session() puts another object in its place.
    return vars(_global_state.GLOBAL_STATE_TRACKER)


def uninitialized_variables() -> list[Any]:
    """The variables of this thread that were created in a stateless scope and have no value."""
    return list(thread_state().get("uninitialized_variables") or [])


_models_in_training: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def note_taken_values(model: Any) -> None:
    """Note that Keras has taken the arrays out of a model's variables, to train or evaluate it."""
    _models_in_training[id(model)] = model


def return_taken_values(variables: Iterable[Any]) -> None:
    """Let variables whose arrays Keras has taken out for its steps have them again.

    Within `fit` the arrays are the trainer's, and callbacks see variables without a value. Keras
    takes them again in its next step, changed or not.
    """
    if any(map(_is_taken, variables)):
        for model in list(_models_in_training.values()):
            model.jax_state_sync()


def _is_taken(variable: Any) -> bool:
    state = vars(variable)
    if SLOT in state or type(state.get("_value")) is CutValue:  # which is whole only when read
        return False
    return getattr(variable, "_value", variable) is None


def own_variables(value: Any) -> list[Any]:
    """The variables that a layer, an optimizer or a metric has made itself, in its order."""
    if isinstance(value, keras.Layer):
        return [*value._trainable_variables, *value._non_trainable_variables]
    return list(value._variables)


def trained_variables(optimizer: Any) -> list[Any]:
    """The variables that an optimizer was built for; none if it is not built."""
    return list(getattr(optimizer, "_trainable_variables", None) or [])


def sublayers(layer: Any) -> list[Any]:
    """The layers that a layer holds, in the order in which it got them, but for its inputs."""
    held = layer.layers if isinstance(layer, keras.Model) else layer._layers
    return [each for each in held if not isinstance(each, keras.layers.InputLayer)]


def submetrics(value: Any) -> list[Any]:
    """The metrics that a layer or a metric holds."""
    return list(value._metrics)


def seed_generators(layer: Any) -> list[Any]:
    """The seed generators that a layer holds."""
    return list(layer._seed_generators)


def with_gradients(optimizer: Any, gradients: Any, variables: Any) -> tuple[list[Any], list[Any]]:
    """The gradients that are not None, and their variables; Keras warns of the others.

    Raises:
        ValueError: if all are None.
    """
    kept, theirs = optimizer._filter_empty_gradients(list(gradients), list(variables))
    return list(kept), list(theirs)


def clipped_gradients(optimizer: Any, gradients: list[Any]) -> list[Any]:
    """Gradients clipped as the optimizer does: by value, norm or global norm."""
    return list(optimizer._clip_gradients(gradients))


def decays_weights(optimizer: Any, variable: Any) -> bool:
    """Whether the optimizer has weight decay, and does not exclude the variable from it."""
    return bool(optimizer.weight_decay) and bool(optimizer._use_weight_decay(variable))


def excludes_from_weight_decay(optimizer: Any) -> bool:
    """Whether the optimizer has weight decay, but not for all variables."""
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return bool(optimizer.weight_decay) and any(getattr(optimizer, name, None) for name in names)


def learning_rate_of(optimizer: Any) -> Any:
    """The optimizer's schedule or function for its learning rate, or the variable that holds it."""
    return optimizer._learning_rate


def resize(variable: Any, shape: tuple[int | None, ...]) -> None:
    """Let `variable` take values of another shape; a size of None is any."""
    variable._shape = shape


@contextlib.contextmanager
def outside_scopes() -> Iterator[None]:
    """Within the block no stateless scope is open: variables are made with their values."""
    state = thread_state()
    before = state.get("stateless_scope")
    state["stateless_scope"] = None
    try:
        yield
    finally:
        state["stateless_scope"] = before
