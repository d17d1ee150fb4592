"""Every name of Keras that is not public API, checked at import, and how methods are replaced.

Supported: Keras 3.12 to 3.15 on its JAX backend. A method is replaced for good on a class
(`replace_method`), or for the length of a trace on one object (`shadowed`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import keras

from drumline._changes import full_name, note
from drumline.training.keras_internals import load, refuse, thread_state

_NAMES = {
    "keras.src.backend": [
        "StatelessScope",
        "compute_output_spec",
        "get_keras_mask",
        "set_keras_mask",
    ],
    "keras.src.backend.common.name_scope": ["current_path"],
    "keras.src.backend.jax.core": ["Variable"],
    "keras.src.backend.jax.nn": ["moments"],
    "keras.src.backend.jax.random": ["normal", "truncated_normal", "uniform"],
    "keras.src.backend.jax.trainer": ["JAXEpochIterator", "JAXTrainer", "_distribute_data"],
    "keras.src.distribution.distribution_lib": ["distribution"],
    "keras.src.optimizers.base_optimizer": ["BaseOptimizer"],
    "keras.src.losses.losses": ["LossFunctionWrapper"],
    "keras.src.models.functional": ["Functional"],
    "keras.src.saving.serialization_lib": ["in_safe_mode"],
    "keras.src.trainers.data_adapters": [
        "ArrayDataAdapter",
        "GeneratorDataAdapter",
        "PyDatasetAdapter",
        "get_data_adapter",
        "raise_unsupported_arg",
    ],
    "keras.src.trainers.data_adapters.array_slicing": ["train_validation_split"],
    "keras.src.trainers.data_adapters.data_adapter": ["DataAdapter"],
    "keras.src.trainers.trainer": ["Trainer"],
    "keras.src.utils.python_utils": ["pythonify_logs"],
}
_METHODS = {
    "JAXTrainer": [
        "_get_jax_state",
        "_make_function",
        "_update_metrics_variables",
        "compute_loss_and_updates",
        "jax_state_sync",
        "make_predict_function",
        "make_test_function",
        "make_train_function",
        "predict_step",
        "test_step",
        "train_step",
    ],
    "Trainer": ["_compute_loss", "_symbolic_build", "compute_loss", "compute_metrics"],
    "JAXEpochIterator": ["_enumerate_iterator", "_get_iterator", "_interrupted_warning"],
    "Variable": ["_direct_assign", "_initialize", "_initialize_with_initializer"],
    "BaseOptimizer": ["apply", "apply_gradients", "stateless_apply"],
    "BatchNormalization": ["_moments"],
}


_found = {**load(_NAMES), "BatchNormalization": keras.layers.BatchNormalization}
refuse(
    [
        f"{owner}.{method}"
        for owner, methods in _METHODS.items()
        for method in methods
        if not hasattr(_found[owner], method)
    ]
)

StatelessScope = _found["StatelessScope"]
current_path = _found["current_path"]
get_keras_mask = _found["get_keras_mask"]
set_keras_mask = _found["set_keras_mask"]
in_safe_mode = _found["in_safe_mode"]
Variable = _found["Variable"]
BaseOptimizer = _found["BaseOptimizer"]
Functional = _found["Functional"]
JAXEpochIterator = _found["JAXEpochIterator"]
JAXTrainer = _found["JAXTrainer"]
distribute_data = _found["_distribute_data"]
Trainer = _found["Trainer"]
LossFunctionWrapper = _found["LossFunctionWrapper"]
DataAdapter = _found["DataAdapter"]
ArrayDataAdapter = _found["ArrayDataAdapter"]
GeneratorDataAdapter = _found["GeneratorDataAdapter"]
PyDatasetAdapter = _found["PyDatasetAdapter"]
get_data_adapter = _found["get_data_adapter"]
raise_unsupported_arg = _found["raise_unsupported_arg"]
train_validation_split = _found["train_validation_split"]
keras_distribution = _found["distribution"]
backend = importlib.import_module("keras.src.backend")
backend_random = importlib.import_module("keras.src.backend.jax.random")
backend_nn = importlib.import_module("keras.src.backend.jax.nn")
data_adapters = importlib.import_module("keras.src.trainers.data_adapters")
python_utils = importlib.import_module("keras.src.utils.python_utils")
jax_trainer = importlib.import_module("keras.src.backend.jax.trainer")

OPTIMIZERS: list[Any] = [BaseOptimizer, keras.optimizers.LossScaleOptimizer]
"""The classes of optimizers with an ``apply`` of their own."""
if hasattr(keras.optimizers, "MultiOptimizer"):  # since Keras 3.13 or so
    OPTIMIZERS.append(keras.optimizers.MultiOptimizer)


_MARK = "__drumline_original__"


NO_SETTING = (
    "no setting; it acts in a strategy's scope or on a drumline dataset alone, and a process that "
    "does not import drumline has Keras's own"
)


def replace_method(
    owner: Any, name: str, make: Callable[[Callable[..., Any]], Any], why: str
) -> None:
    """Replace ``owner.name`` by ``make(original)``, once however often this is called.

    Args:
        owner: a class or a module of Keras's.
        name: of a method or function.
        make: gives the replacement, which calls the original.
        why: for `drumline.config.report`.
    """
    original = getattr(owner, name)
    if hasattr(original, _MARK):
        return
    if not _is_own(owner):
        note("Keras", full_name(owner, name), why, NO_SETTING, above=1)
    replacement = functools.wraps(original)(make(original))
    setattr(replacement, _MARK, original)
    setattr(owner, name, replacement)


def _is_own(owner: Any) -> bool:
    module: str = owner.__module__ if isinstance(owner, type) else owner.__name__
    return module.startswith("drumline.")


@contextlib.contextmanager
def fresh_object_names() -> Iterator[None]:
    """Have layers without names get those of a new program, ``"dense"`` first, within a block."""
    state = thread_state()
    before = state.pop("object_name_uids", None)
    try:
        yield
    finally:
        state["object_name_uids"] = before


@contextlib.contextmanager
def shadowed(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Let `owner`'s own attribute `name` be `replacement` until the block ends."""
    own = vars(owner)
    had, before = name in own, own.get(name)
    own[name] = replacement
    try:
        yield
    finally:
        if had:
            own[name] = before
        else:
            del own[name]


def overrides(model: keras.Model, *names: str) -> bool:
    """Whether the model's class, or the model itself, brings its own version of a method."""
    return any(_brings_its_own(model, name) for name in names)


def _brings_its_own(model: keras.Model, name: str) -> bool:
    if name in vars(model):
        return True
    return getattr(type(model), name) is not getattr(JAXTrainer, name)


def has_own_method(value: Any, base: type, name: str) -> bool:
    """Whether a value or its class brings its own version of a method of `base`."""
    return name in vars(value) or getattr(type(value), name) is not getattr(base, name)
