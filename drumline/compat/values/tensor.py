"""`Tensor`, as ``tf.Tensor``, around arrays of numpy and JAX, tracers, and native symbols.

A tensor holds one of four things:

- a numpy array: strings, 64-bit types, what pipelines yield, and all that ``tf.constant`` makes;
- a ``jax.Array``: values of variables, and what is computed from them;
- a tracer: within compiled functions and maps;
- a `Symbol`: strings and arrays of varying shapes within maps that are traced.

Functions of tensors compute with JAX if an operand is JAX's, else with numpy, where 64 bits are 64
bits whatever JAX's setting. So user code sees one class in every place.

JAX takes tensors for pytree nodes, so they pass through ``jit``, gradients and `Strategy.run`.
Within the package test ``type(x) is Tensor``: ``isinstance(x, Tensor)``, which users write, is true
of JAX's arrays and of symbols, too, since Keras gives users such arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline._changes import full_name, note
from drumline.compat.values import dtypes
from drumline.compat.values.dtypes import DType
from drumline.compat.values.shape import TensorShape
from drumline.data.functions.native.python_calls import ensured_shape
from drumline.data.functions.native.symbol import Symbol

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


class TensorType(type):
    """The class of `Tensor`: JAX's arrays and native symbols are instances of it, too.

    Attributes:
        compares_identity: whether ``==`` asks if two are one and the same, as in TensorFlow 1.
    """

    compares_identity = False

    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(cls, value) or isinstance(value, (jax.Array, Symbol))


class Tensor(metaclass=TensorType):
    """A value, as ``tf.Tensor``.

    Args:
        value: a numpy array, scalar or ``bytes``, a ``jax.Array``, tracer, or `Symbol`; not copied.
    """

    __slots__ = ("__weakref__", "_shape", "_value", "_weak")
    __array_priority__ = 1000
    OVERLOADABLE_OPERATORS: frozenset[str] = frozenset()
    _value: Any
    _shape: TensorShape  # once it was asked for, or promised
    _weak: bool  # only set of tensors that are; see `promotion`

    def __init__(self, value: Any):
        if isinstance(value, (np.generic, bytes)):
            value = np.asarray(value, object if isinstance(value, bytes) else None)
        self._value = value

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtypes.of_array(self._value.dtype)

    @property
    def shape(self) -> TensorShape:
        """Its dimensions; None for those that vary between elements, in a traced map."""
        try:
            return self._shape
        except AttributeError:
            self._shape = found = TensorShape(self._value.shape)
            return found

    def get_shape(self) -> TensorShape:
        """Its dimensions."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Promise a shape, where dimensions are not known; elements of other shapes then raise.

        Raises:
            ValueError: the tensor has another shape.
        """
        merged = self.shape.merge_with(shape)
        if not isinstance(self._value, Symbol):
            return
        dims = [dim for dim in merged.as_list() if dim is not None]
        if len(dims) == merged.rank and not self._value.spec.is_static:
            self._value = ensured_shape(self._value, dims)
        self._shape = merged

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._value.shape)

    @property
    def device(self) -> str:
        """The name of the device on which it lies."""
        devices = getattr(self._value, "devices", None)
        if devices is None or isinstance(self._value, jax.core.Tracer):
            return _CPU
        device = min(devices(), key=lambda each: each.id)
        return f"{_CPU.rpartition('/')[0]}/device:{device.platform.upper()}:{device.id}"

    @property
    def name(self) -> str:
        """Tensors have no names.

        Raises:
            AttributeError: always, as TensorFlow's eager tensors do.
        """
        raise AttributeError("Tensor.name is undefined when eager execution is enabled.")

    @property
    def is_concrete(self) -> bool:
        """Whether it has a value, and is not one of a function that is being traced."""
        return not isinstance(self._value, (Symbol, jax.core.Tracer))

    def ref(self) -> TensorReference:
        """A hashable reference, for dicts and sets."""
        return TensorReference(self)

    def numpy(self) -> Any:
        """Its value as a numpy array; a scalar of numpy, or ``bytes``, if it has no dimensions.

        Raises:
            TracedValueError: it belongs to a function that is being traced.
        """
        value = self._value
        if not self.is_concrete:
            raise TracedValueError(
                "numpy() is only available when eager execution is enabled: this tensor belongs "
                "to a function that is traced. Use tf.py_function, or tf.print to look at it."
            )
        array = np.asarray(value)
        if array.ndim == 0:
            return array[()]
        return array if array.flags.writeable else array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(self._value)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __jax_array__(self) -> jax.Array:
        return jnp.asarray(self._value)

    def __dlpack__(self, **options: Any) -> Any:
        return jnp.asarray(self._value).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        device: Any = jnp.asarray(self._value)
        return device.__dlpack_device__()

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __complex__(self) -> complex:
        return complex(self._value)

    def __index__(self) -> int:
        value = self._value
        value = value[()] if isinstance(value, np.ndarray) else value
        if isinstance(value, np.bool_):  # numpy 1 had it; tf.train.Int64List takes such tensors
            return int(value)
        return operator.index(value)

    def __len__(self) -> int:
        if not self._value.shape:
            raise TypeError("Scalar tensor has no `len()`")
        return int(self._value.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._value.shape:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self._value[_index(key)])

    def __hash__(self) -> int:
        raise TypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")

    def __format__(self, spec: str) -> str:
        if self.is_concrete and not self._value.shape:
            return format(self.numpy(), spec)
        return format(str(self), spec)

    def __repr__(self) -> str:
        about = f"shape={self.shape}, dtype={self.dtype.name}"
        if not self.is_concrete:
            return f"<tf.Tensor {about}>"
        value = self.numpy() if not self._value.shape else np.asarray(self._value)
        text = str(value) if isinstance(value, np.generic) else repr(value)
        weak = ", weak=True" if getattr(self, "_weak", False) else ""
        return f"<tf.Tensor: {about}, numpy={text}{weak}>"

    def __str__(self) -> str:
        if not self.is_concrete:
            return repr(self)
        shown = self.numpy() if not self._value.shape else np.asarray(self._value)
        return f"tf.Tensor({shown}, shape={self.shape}, dtype={self.dtype.name})"

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Tensor, (np.asarray(self._value),)


class _NumpysAttribute:
    """Stands for a method of numpy's that tensors have once they behave as its arrays."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        raise AttributeError(
            f"Tensor object has no attribute {self._name!r}. If you are looking for numpy-related "
            "methods, please run the following: "
            "tf.experimental.numpy.experimental_enable_numpy_behavior()"
        )


for _name in ("T", "astype", "ravel", "transpose", "reshape", "clip", "size", "tolist", "data"):
    setattr(Tensor, _name, _NumpysAttribute(_name))


class TracedValueError(NotImplementedError, AttributeError):
    """A value is asked of a tensor that has none: it belongs to a function that is traced.

    TensorFlow's tensors of graphs lack the attribute ``numpy``, and scripts catch that.
    """


def wait_for_arrays() -> None:
    """Have each tensor wait for its array from now on, when it is made.

    On several CPU devices XLA's threads would otherwise wait for each other in collectives of
    different operations, which ends the process after 40 seconds (`InFlight`).
    """

    def __init__(self: Tensor, value: Any) -> None:
        if isinstance(value, (np.generic, bytes)):
            value = np.asarray(value, object if isinstance(value, bytes) else None)
        elif isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            value.block_until_ready()
        self._value = value

    Tensor.__init__ = __init__  # type: ignore[method-assign]


class TensorReference:
    """Refers to a tensor or variable, and is hashable: equal to references to the same one."""

    def __init__(self, referent: Any):
        self._referent = referent

    def deref(self) -> Any:
        """The tensor."""
        return self._referent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorReference) and other._referent is self._referent

    def __hash__(self) -> int:
        return id(self._referent)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._referent!r}>"


def _index(key: Any) -> Any:
    """A key of ``[...]`` with tensors as numbers or arrays."""
    kind = type(key)
    if kind is int or key is None or key is Ellipsis:
        return key
    if kind is tuple:
        return tuple(map(_index, key))
    if kind is slice:
        return slice(*(None if x is None else _bound(x) for x in (key.start, key.stop, key.step)))
    if kind is Tensor:
        value = key._value
        return value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return key if isinstance(key, jax.Array) else getattr(key, "value", key)


def _bound(given: Any) -> int:
    value = given._value if type(given) is Tensor else given
    return operator.index(value[()] if isinstance(value, np.ndarray) else value)


def wrap_leaf(value: Any) -> Any:
    """A tensor of an array, a tracer or a symbol; all else as it is."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array, Symbol)):
        return Tensor(value)
    return value


def _flattened(tensor: Tensor) -> tuple[tuple[Any], None]:
    return (tensor._value,), None


def _unflattened(_: None, values: tuple[Any]) -> Any:
    return wrap_leaf(values[0])


jax.tree_util.register_pytree_node(Tensor, _flattened, _unflattened)


def _numpy(array: Any) -> Any:
    """The value as numpy's, as ``tf.Tensor.numpy``."""
    return np.asarray(array)[()] if array.ndim == 0 else np.array(array)


def install_on_arrays() -> None:
    """Give JAX's arrays ``numpy``, ``get_shape``, ``set_shape`` and ``ref``.

    Keras gives users such arrays where no tensor was passed in: results of metrics, losses.
    """
    methods: dict[str, Callable[..., Any]] = {
        "numpy": _numpy,
        "get_shape": lambda self: TensorShape(self.shape),
        "set_shape": lambda self, shape: TensorShape(self.shape).assert_is_compatible_with(shape),
        "ref": TensorReference,
    }
    for name, method in methods.items():
        setattr(jax.Array, name, method)
        note(
            "JAX",
            full_name(jax.Array, name),
            "results that Keras gives as arrays are used as tensors",
            "do not import drumline.compat.tf",
        )
