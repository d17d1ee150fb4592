"""Where users' tensors go into Keras and come out of it.

Keras computes with JAX's arrays. Tensors in give tensors out, arrays in give arrays out: layers,
losses and metrics are called with arrays and give tensors if they were given any. `fit` and the
like, `adapt`, `update_state` and `apply_gradients` take tensors and datasets. What a user's
subclass defines (`call`, `update_state`, `result`) sees tensors if its module uses the look-alike;
layers of other modules, written for arrays of JAX's, see these.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, ModuleType
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental.sparse import BCOO

from drumline._changes import full_name, note
from drumline.compat.composite.sparse import SparseTensor, to_bcoo
from drumline.compat.keras import legacy, steps
from drumline.compat.training.tape import TensorTape
from drumline.compat.values.boundary import (
    from_core,
    map_structure,
    unwrap,
    with_control_flow,
    wrap,
)
from drumline.compat.values.tensor import Tensor, install_on_arrays
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.keras import internals
from drumline.keras.layers import host_models
from drumline.training.jax_internals import UnknownSize

_MARK = "_takes_tensors"
_ROOM = "drumline.compat"
_WHY = "tensors of drumline.compat.tf are arrays inside of Keras"
_OFF = "do not import drumline.compat.tf"
_FITS = {
    "fit": "train_step",
    "train_on_batch": "train_step",
    "evaluate": "test_step",
    "test_on_batch": "test_step",
    "predict": "predict_step",
    "predict_on_batch": "predict_step",
}
_SIZES = (83, 89)
"""Primes, that no other size of a model is likely to be, or to be a multiple of."""
_OPTIMIZER_METHODS = ("apply", "assign", "assign_add", "assign_sub", "scale_loss")


@functools.cache
def install() -> None:
    """Teach Keras's classes and JAX's arrays, once."""
    install_on_arrays()
    trainer = internals.JAXTrainer
    for name, step in _FITS.items():
        uses = steps.using_step(step)
        _replace(trainer, name, _unwrapped_arguments, uses, _sparse_arrays)
    _install_steps()
    host_models.convert_inputs_by(unwrap)
    _replace(keras.Layer, "__call__", _tensors_in_tensors_out, _inputs_of_one_kind, _sparse_arrays)
    for base in (keras.losses.Loss, keras.Metric):
        _replace(base, "__call__", _tensors_in_tensors_out)
    for metric in (keras.Metric, *_subclasses(keras.Metric)):
        if "update_state" in vars(metric):
            _replace(metric, "update_state", _with_narrow_integers, _unwrapped_arguments)
    for layer in _subclasses(keras.Layer):
        if "adapt" in vars(layer) and not layer.__module__.startswith("drumline."):
            _replace(layer, "adapt", _unwrapped_arguments)
    _install_optimizers()
    _install_old_spellings()
    Tensor._keras_mask = property(_mask, _set_mask, _delete_mask)  # type: ignore[attr-defined]
    _wrap_subclasses(keras.Layer, ("call", "compute_loss", "compute_metrics"))
    _wrap_subclasses(keras.losses.Loss, ("call",))
    _wrap_subclasses(keras.Metric, ("update_state", "result"))
    for base in (
        keras.regularizers.Regularizer,
        keras.constraints.Constraint,
        keras.initializers.Initializer,
        keras.optimizers.schedules.LearningRateSchedule,
    ):
        _wrap_subclasses(base, ("__call__",))
    _wrap_subclasses(internals.BaseOptimizer, ("update_step",))
    _replace(internals.backend, "compute_output_spec", _with_sizes_as_numbers)
    _install_users_functions()


def _mask(tensor: Tensor) -> Any:
    """The mask that Keras has of a tensor's array, by the attribute that TensorFlow's have."""
    mask = internals.get_keras_mask(tensor._value)
    if mask is None:
        raise AttributeError("the tensor has no _keras_mask")
    return wrap(mask)


def _set_mask(tensor: Tensor, mask: Any) -> None:
    internals.set_keras_mask(tensor._value, unwrap(mask))


def _delete_mask(tensor: Tensor) -> None:
    _mask(tensor)
    internals.set_keras_mask(tensor._value, None)


def _install_users_functions() -> None:
    """Have functions that users give to Keras see tensors: losses, metrics, activations, ..."""
    _replace(keras.Layer, "add_loss", _given_arrays)
    _replace(internals.LossFunctionWrapper, "__init__", _first_of_arrays)
    _replace(keras.metrics.MeanMetricWrapper, "__init__", _first_of_arrays)
    for name in ("call", "compute_output_shape"):
        _replace(keras.layers.Lambda, name, _with_own_function)
    for module in (keras.activations, keras.regularizers, keras.initializers, keras.constraints):
        source = sys.modules[module.get.__module__]
        _replace(source, "get", _getting_of_arrays)


def _of_arrays(function: Any) -> Any:
    """A user's function that uses the look-alike as one of arrays; all else as it is."""
    if isinstance(function, FunctionType) and _is_of_tensors(function):
        return from_core(function)
    return function


def _is_of_tensors(function: FunctionType) -> bool:
    if function.__module__ is None or hasattr(function, _MARK):
        return False
    package = function.__module__.partition(".")[0]
    if package == "drumline":
        return function.__module__.startswith(_ROOM) and "<locals>" not in function.__qualname__
    return package not in ("keras", "jax") and _sees_tensors(function)


def _first_of_arrays(init: Callable[..., Any]) -> Callable[..., Any]:
    def made(self: Any, function: Any = None, *args: Any, **kwargs: Any) -> None:
        for name in ("fn", "function"):
            if name in kwargs:
                kwargs[name] = _of_arrays(kwargs[name])
                init(self, *(() if function is None else (function,)), *args, **kwargs)
                return
        init(self, _of_arrays(function), *args, **kwargs)

    return made


def _with_own_function(method: Callable[..., Any]) -> Callable[..., Any]:
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        with internals.shadowed(self, "function", _of_arrays(self.function)):
            return method(self, *args, **kwargs)

    return called


def _getting_of_arrays(get: Callable[..., Any]) -> Callable[..., Any]:
    def got(*args: Any, **kwargs: Any) -> Any:
        return _of_arrays(get(*args, **kwargs))

    return got


def _given_arrays(add: Callable[..., Any]) -> Callable[..., Any]:
    def added(self: Any, loss: Any) -> Any:
        return add(self, map_structure(_on_device, unwrap(loss)))

    return added


def _on_device(leaf: Any) -> Any:
    numbers = isinstance(leaf, (np.ndarray, np.generic, int, float))
    return jax.numpy.asarray(leaf) if numbers else leaf


def _install_steps() -> None:
    trainer = internals.JAXTrainer
    for name in steps.STEPS:
        _replace(trainer, name, functools.partial(steps.accept_data_alone, name))
    _replace(internals.Trainer, "compute_loss", steps.expand_targets, _tensors_in_tensors_out)
    for name in ("_compute_loss", "compute_metrics"):
        _replace(internals.Trainer, name, _tensors_in_tensors_out)
    _replace(internals.Trainer, "_symbolic_build", steps.build_by_tracing)
    _replace(internals.Trainer, "_get_metrics_result_or_logs", steps.prefer_users_loss)
    _add(internals.Trainer, "compiled_loss", property(steps.CompiledLoss))
    _add(internals.Trainer, "compiled_metrics", property(steps.CompiledMetrics))


def _install_old_spellings() -> None:
    for owner, names in (
        (keras.Model, legacy.ADDED_TO_MODELS),
        (keras.Layer, legacy.ADDED_TO_LAYERS),
        (internals.Variable, legacy.ADDED_TO_VARIABLES),
        (internals.BaseOptimizer, legacy.ADDED_TO_OPTIMIZERS),
        (keras.Metric, legacy.ADDED_TO_METRICS),
    ):
        for name, value in names.items():
            _add(owner, name, value)
    for optimizer in _subclasses(internals.BaseOptimizer):
        if "__init__" in vars(optimizer):
            _replace(optimizer, "__init__", legacy.with_old_rates)
    _replace(keras.Model, "save", legacy.with_any_path)
    _replace(keras.Model, "export", legacy.with_portable_program)
    for name in ("assign", "assign_add", "assign_sub"):
        _replace(internals.Variable, name, _unwrapped_arguments)
    for name in ("save_weights", "load_weights"):
        _replace(keras.Model, name, legacy.with_weights_suffix)
    _replace(keras.Layer, "add_weight", legacy.with_name_first)
    _replace(keras.losses.Loss, "__init__", legacy.with_auto_reduction)


def _install_optimizers() -> None:
    base = internals.BaseOptimizer
    _replace(base, "apply_gradients", _unwrapped_gradients)
    for optimizer in (base, *_subclasses(base)):
        for name in _OPTIMIZER_METHODS:
            if name in vars(optimizer):
                _replace(optimizer, name, _unwrapped_arguments)
    _add(base, "minimize", _minimize)


def _minimize(self: Any, loss: Any, var_list: Any, tape: Any = None, **_: Any) -> Any:
    """Apply the gradients of a loss, as optimizers of TensorFlow 2 do.

    Args:
        loss: a function without arguments that gives it, or with ``tape`` a tensor.
        var_list: the variables, or a function that gives them.
        tape: which recorded the loss.

    Raises:
        ValueError: the loss is a tensor, and there is no tape.
    """
    if tape is None:
        if not callable(loss):
            raise ValueError("`tape` is required when a `Tensor` loss is passed.")
        with TensorTape() as tape:
            loss = loss()
    variables = list(var_list() if callable(var_list) else var_list)
    self.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return self.iterations


def has_tensors(*values: Any) -> bool:
    """Whether a `Tensor` is among the leaves of nested values."""
    found: list[bool] = []
    map_structure(lambda leaf: found.append(True) if type(leaf) is Tensor else None, values)
    return bool(found)


def _replace(cls: Any, name: str, *makes: Callable[[Any], Any]) -> None:
    old = new = getattr(cls, name)
    if getattr(old, _MARK, False):
        return
    for make in makes:
        new = functools.wraps(old)(make(new))
    setattr(new, _MARK, True)
    setattr(cls, name, new)
    what = full_name(cls, name)
    if not what.startswith("drumline."):
        note("Keras", what, _WHY, _OFF)


def _add(cls: Any, name: str, value: Any) -> None:
    """Give a class of Keras's what it had in TensorFlow 2 and has no more."""
    setattr(cls, name, value)
    note("Keras", full_name(cls, name), "scripts of TensorFlow 2 use it", _OFF)


def _subclasses(cls: type) -> Iterator[type]:
    each: type
    for each in cls.__subclasses__():
        yield each
        yield from _subclasses(each)


def _unwrapped_arguments(old: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return old(self, *_lists_as_arrays(unwrap(args)), **unwrap(kwargs))

    return call


def _with_narrow_integers(old: Callable[..., Any]) -> Callable[..., Any]:
    """Give Keras's metrics 32-bit integers, of which theirs are computed, without its warning."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return old(self, *map_structure(_narrow, args), **map_structure(_narrow, kwargs))

    return call


def _narrow(leaf: Any) -> Any:
    if not isinstance(leaf, (np.ndarray, jax.Array)) or leaf.dtype != np.int64:
        return leaf
    narrow = leaf.astype(np.int32)
    # Those of a device are not waited for: Keras narrows them, too.
    known = isinstance(leaf, np.ndarray)
    return leaf if known and not (narrow == leaf).all() else narrow


def _lists_as_arrays(args: Any) -> Any:
    """Lists of numbers, which tf.keras takes for arrays in ``update_state``."""
    return tuple(
        np.asarray(each) if type(each) is list and each and type(each[0]) in (int, float) else each
        for each in args
    )


def _tensors_in_tensors_out(old: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_tensors(args, kwargs):
            return old(self, *args, **kwargs)
        return wrap(old(self, *unwrap(args), **unwrap(kwargs)))

    return call


def _with_sizes_as_numbers(old: Callable[..., Any]) -> Callable[..., Any]:
    """Find the shapes that functions give which make arrays by the size of a batch.

    Keras traces them with an expression for the sizes that it does not know. What `tf.shape` gives
    is an array then, by which no array can be made: such functions are traced with one number and
    with another in its place, and sizes of results that differ are not known.
    """

    def computed(function: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return old(function, *args, **kwargs)
        except (ValueNeedsPython, UnknownSize):
            if not _has_unknown_sizes((args, kwargs)):
                raise
            one, other = (
                old(function, *_sized(args, size), **_sized(kwargs, size)) for size in _SIZES
            )
            return keras.tree.map_structure(_in_common, one, other)

    return computed


def _has_unknown_sizes(values: Any) -> bool:
    leaves = keras.tree.flatten(values)
    return any(isinstance(leaf, keras.KerasTensor) and None in leaf.shape for leaf in leaves)


def _sized(values: Any, size: int) -> Any:
    """Symbols with a number for the sizes that are not known."""

    def sized(leaf: Any) -> Any:
        if not isinstance(leaf, keras.KerasTensor) or None not in leaf.shape:
            return leaf
        shape = [size if each is None else each for each in leaf.shape]
        return keras.KerasTensor(shape, leaf.dtype, sparse=leaf.sparse)

    return keras.tree.map_structure(sized, values)


def _in_common(one: Any, other: Any) -> Any:
    """A result of two sizes, as a symbol without them."""
    if not isinstance(one, keras.KerasTensor):
        return one
    pairs = zip(one.shape, other.shape, strict=True)
    shape = [size if size == also else None for size, also in pairs]
    return keras.KerasTensor(shape, one.dtype, sparse=one.sparse)


def _sparse_arrays(old: Callable[..., Any]) -> Callable[..., Any]:
    """Have layers and models take sparse tensors, which are JAX's sparse arrays inside of Keras."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        found: list[bool] = []
        map_structure(lambda leaf: found.append(_is_sparse(leaf)), (args, kwargs))
        if not any(found) or not _takes_sparse(self):
            return old(self, *args, **kwargs)
        result = old(
            self, *map_structure(_sparse_array, args), **map_structure(_sparse_array, kwargs)
        )
        return map_structure(lambda leaf: wrap(leaf) if _is_of_jax(leaf) else leaf, result)

    return call


def _is_sparse(leaf: Any) -> bool:
    return isinstance(leaf, SparseTensor) and leaf.dtype.name != "string"


def _sparse_array(leaf: Any) -> Any:
    return to_bcoo(leaf) if _is_sparse(leaf) else leaf


def _is_of_jax(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, BCOO))


def _takes_sparse(layer: Any) -> bool:
    """Whether Keras computes with a layer's sparse inputs, and not drumline before it."""
    if isinstance(layer, internals.Functional) and not isinstance(layer, keras.Sequential):
        return any(getattr(each, "sparse", False) for each in layer.inputs)
    if isinstance(layer, keras.Model):
        return not any(hasattr(each, "prepare") for each in layer._flatten_layers())
    return type(layer).__module__.partition(".")[0] != "drumline"


def _inputs_of_one_kind(old: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__call__``: Keras refuses nests of both its arrays and numpy's as inputs."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, internals.Functional):
            if args:
                args = (_of_one_kind(args[0]), *args[1:])
            elif "inputs" in kwargs:
                kwargs["inputs"] = _of_one_kind(kwargs["inputs"])
        return old(self, *args, **kwargs)

    return call


def _of_one_kind(inputs: Any) -> Any:
    if not isinstance(inputs, (list, tuple, dict)):
        return inputs
    on_device: list[bool] = []
    map_structure(lambda leaf: on_device.append(isinstance(unwrap(leaf), jax.Array)), inputs)
    if not any(on_device):
        return inputs

    def placed(leaf: Any) -> Any:
        held = unwrap(leaf)
        numbers = isinstance(held, np.ndarray) and held.dtype.kind in "biufc"
        return Tensor(jax.numpy.asarray(held)) if numbers and type(leaf) is Tensor else leaf

    return map_structure(placed, inputs)


def _unwrapped_gradients(old: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = [(unwrap(gradient), variable) for gradient, variable in grads_and_vars]
        return old(self, pairs, *args, **kwargs)

    return call


def _wrap_subclasses(base: Any, names: tuple[str, ...]) -> None:
    """Have the methods of users' subclasses see tensors, where they use the look-alike."""
    own = vars(base).get("__init_subclass__")

    def init_subclass(cls: Any, **kwargs: Any) -> None:
        if own is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            own.__func__(cls, **kwargs)
        if cls.__module__.partition(".")[0] == "drumline":
            return
        for name in names:
            method = vars(cls).get(name)
            if not isinstance(method, FunctionType) or hasattr(method, _MARK):
                continue
            if _sees_tensors(method):
                setattr(cls, name, _of_tensors(method))
            elif name == "result":
                setattr(cls, name, _of_values(method))
        for name in steps.STEPS if issubclass(cls, keras.Model) else ():
            if steps.takes_data_alone(vars(cls).get(name)):
                setattr(cls, name, steps.of_state(name, vars(cls)[name]))

    base.__init_subclass__ = classmethod(init_subclass)
    note("Keras", full_name(base, "__init_subclass__"), _WHY, _OFF)


def _sees_tensors(method: FunctionType) -> bool:
    """Whether a method is of a module or function that uses the look-alike; others see arrays."""
    cells = (cell.cell_contents for cell in method.__closure__ or () if _is_set(cell))
    return any(map(_is_of_look_alike, [*method.__globals__.values(), *cells]))


def _is_of_look_alike(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.startswith(_ROOM)


def _is_set(cell: CellType) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _of_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    target = with_control_flow(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if has_tensors(args, kwargs):
            return target(self, *args, **kwargs)
        return map_structure(_value, unwrap(target(self, *wrap(args), **wrap(kwargs))))

    setattr(call, _MARK, True)
    return call


def _of_values(method: Callable[..., Any]) -> Callable[..., Any]:
    """A metric's ``result`` that may return a variable, as TensorFlow lets it."""

    @functools.wraps(method)
    def call(self: Any) -> Any:
        return map_structure(_value, method(self))

    setattr(call, _MARK, True)
    return call


def _value(leaf: Any) -> Any:
    """What a variable holds, which users return as it is."""
    return leaf.value if isinstance(leaf, keras.Variable) else leaf


_made: dict[Any, Callable[..., Any]] = {}


def function_of_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Keras's that gives tensors, but arrays where it is given arrays of JAX's.

    The same one for the same function. Keras calls it with arrays, users with tensors, lists or
    numpy's arrays.
    """
    if function not in _made:

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _has_arrays(args, kwargs):
                return function(*args, **kwargs)
            return wrap(function(*unwrap(args), **unwrap(kwargs)))

        _made[function] = call
    return _made[function]


def _has_arrays(*values: Any) -> bool:
    """Whether a leaf is of those that Keras computes with, and none is a tensor."""
    found: list[Any] = []
    map_structure(found.append, values)
    if any(type(leaf) is Tensor for leaf in found):
        return False
    return any(isinstance(leaf, (jax.Array, keras.KerasTensor)) for leaf in found)
