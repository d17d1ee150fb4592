"""``tf.Variable``: drumline's variable, which takes and gives tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from drumline.compat.keras import boundaries
from drumline.compat.ops import arrays, elementwise
from drumline.compat.training.scopes import NameScope, in_scope
from drumline.compat.values import dtypes
from drumline.compat.values.computing import compute, compute_as_one
from drumline.compat.values.convert import WIDE, convert, is_traced
from drumline.compat.values.dtypes import DType
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor, TensorReference, TensorType
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.distribute import Variable, VariableAggregation, VariableSynchronization
from drumline.training.jax_internals import evaluating, is_evaluating

boundaries.install()


class VariableType(type(Variable)):  # type: ignore[misc]
    """The class of `TensorVariable`: variables of layers and optimizers are instances of it."""

    def __instancecheck__(cls, value: Any) -> bool:
        if super().__instancecheck__(value):
            return True
        return cls is TensorVariable and isinstance(value, keras.Variable)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """A variable, made by the functions of the `variable_creator_scope`s around."""
        if not _creators.stack:
            return super().__call__(*args, **kwargs)
        bound = _ARGUMENTS.bind(*args, **kwargs)
        bound.apply_defaults()
        others = bound.arguments.pop("others")
        given = {**bound.arguments, **others}
        create = super().__call__
        for creator in _creators.stack:
            create = functools.partial(creator, create)
        stack, _creators.stack = _creators.stack, []
        try:
            return create(**given)
        finally:
            _creators.stack = stack


class _CreatorsOfThread(threading.local):
    """The functions of the `variable_creator_scope`s that a thread is in, the outermost first."""

    def __init__(self) -> None:
        self.stack: list[Callable[..., Any]] = []


_creators = _CreatorsOfThread()


@contextlib.contextmanager
def variable_creator_scope(variable_creator: Callable[..., Any]) -> Iterator[None]:
    """Have a function make the variables that are made within the block.

    Args:
        variable_creator: ``creator(next_creator, **kwargs)``: the arguments of `TensorVariable` by
            name. It calls ``next_creator(**kwargs)``, or gives another variable.

    Example:
        >>> import drumline.compat.tf as tf
        >>> def frozen(next_creator, **kwargs):
        ...     return next_creator(**{**kwargs, "trainable": False})
        >>> with tf.variable_creator_scope(frozen):
        ...     scale = tf.Variable(2.0)
        >>> scale.trainable
        False
    """
    before = _creators.stack
    _creators.stack = [*before, variable_creator]
    try:
        yield
    finally:
        _creators.stack = before


class CreatedWhileTraced(ValueNeedsPython):
    """A variable is created with a value that a compiled function computes.

    It outlives the function, whose first call therefore runs as Python.
    """


class TensorVariable(Variable, metaclass=VariableType):
    """A variable, as ``tf.Variable``; also one of Keras's, which layers and optimizers take.

    Args:
        initial_value: a tensor, an array, numbers, or a function that gives one.
        trainable: whether `GradientTape` watches it.
        name: for messages and checkpoints.
        dtype: by default that of the value; 64-bit types are kept.
        synchronization: when copies on replicas are reduced.
        aggregation: how.
        shape: it may have; a fixed one here.
        others: accepted for TensorFlow's sake: they are about graphs.

    Raises:
        TypeError: for an argument that ``tf.Variable`` does not have.
        NotImplementedError: for strings, which no device holds.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
        shape: Any = None,
        **others: Any,
    ):
        if initial_value is None:
            raise ValueError("The `initial_value` arg to `tf.Variable` must be specified")
        if others.keys() - {"experimental_enable_variable_lifting"}:
            raise TypeError(f"tf.Variable takes no {', '.join(others)}")
        if callable(initial_value):
            # At once, also while a function is traced: the variable outlives it.
            with evaluating():
                value = convert(initial_value(), dtype)
        else:
            value = convert(initial_value, dtype)
        if is_traced(value):
            raise CreatedWhileTraced(
                "a variable is created with a value that the function computes, so that its first "
                "call runs as Python"
            )
        if value.dtype == object:
            raise NotImplementedError("tf.Variable of strings: no device holds strings")
        if constraint is not None:
            raise NotImplementedError("tf.Variable with constraint=: use a layer's add_weight")
        kind = np.dtype(value.dtype)
        self._name_in_scopes = in_scope((name or "Variable").rstrip("/"))
        super().__init__(
            value,
            trainable=trainable,
            name=name and self._name_in_scopes.strip("/").replace("/", "_"),
            dtype=kind.name if kind.itemsize >= 8 or dtype is not None else None,
            synchronization=synchronization,
            aggregation=aggregation,
        )

    @property
    def dtype(self) -> DType:
        """Of its value."""
        return dtypes.as_dtype(self._dtype)

    @property
    def shape(self) -> TensorShape:
        """Its dimensions."""
        return TensorShape(super().shape)

    @property
    def name(self) -> str:
        """Its name after those of the scopes in which it was made, and ``:0``."""
        return f"{self._name_in_scopes}:0"

    def _operand(self, value: Any) -> Any:
        """What is assigned, as an array of JAX's; numpy's become one soonest as an argument.

        They are copied, since programs may read their arguments after they were started.
        """
        found = convert(value, self.dtype)
        narrow = isinstance(found, np.ndarray) and found.dtype not in WIDE
        return compute_as_one(_same, found.copy()) if narrow and is_evaluating() else found

    def assign(
        self, value: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> TensorVariable:
        """Give it another value."""
        super().assign(self._operand(value))
        return self

    def assign_add(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> TensorVariable:
        """Add to its value."""
        super().assign_add(self._operand(delta))
        return self

    def assign_sub(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> TensorVariable:
        """Subtract from its value."""
        super().assign_sub(self._operand(delta))
        return self

    def _at(self, kind: str, indices: Any, updates: Any, rows: bool) -> TensorVariable:
        """Change its value at places: at rows, or at positions of several dimensions."""
        places, new = convert(indices), convert(updates, self._dtype)
        if rows:
            places = places[..., None]
        limits = np.asarray(self.shape[: places.shape[-1]])
        if not is_traced(places):
            known = np.asarray(places)
            outside = ((known < 0) | (known >= limits)).any(-1)
            if outside.any():
                first = tuple(int(axis[0]) for axis in np.nonzero(outside))
                raise InvalidArgumentError(
                    None,
                    None,
                    f"{self.name}: indices[{', '.join(map(str, first))}] = "
                    f"{known[first].tolist()} is not in shape {tuple(self.shape)}",
                )
        key = tuple(places[..., axis] for axis in range(places.shape[-1]))

        def changed(value: Any, new: Any) -> Any:
            return getattr(value.at[key], kind)(new)

        return self.assign(Tensor(compute(changed, jnp.asarray(self.value), new)))

    def _at_slices(self, kind: str, slices: Any) -> TensorVariable:
        if not (hasattr(slices, "indices") and hasattr(slices, "values")):
            raise TypeError(
                f"Argument `sparse_delta` must be a tf.IndexedSlices. Received arg: {slices}"
            )
        return self._at(kind, slices.indices, slices.values, rows=True)

    def sparse_read(self, indices: Any, name: Any = None) -> Tensor:
        """The rows with these numbers."""
        return arrays.gather(Tensor(self.value), indices)

    def gather_nd(self, indices: Any, name: Any = None) -> Tensor:
        """What is at positions; see ``tf.gather_nd``."""
        return arrays.gather_nd(Tensor(self.value), indices)

    def read_value(self) -> Tensor:
        """Its value now."""
        return Tensor(self.value)

    def numpy(self) -> Any:
        """Its value as a numpy array, or a scalar of numpy."""
        return Tensor(self.value).numpy()

    def get_shape(self) -> TensorShape:
        """Its dimensions."""
        return TensorShape(tuple(self.shape))

    def ref(self) -> TensorReference:
        """A hashable reference."""
        return TensorReference(self)

    @property
    def device(self) -> str:
        """Where its value lies."""
        return Tensor(self.value).device

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.value)[key]

    def __reduce__(self) -> tuple[Any, ...]:
        given = {
            "initial_value": self.numpy(),
            "trainable": self.trainable,
            "name": f"{self._name_in_scopes}",
            "dtype": self.dtype.name,
            "synchronization": self.synchronization,
            "aggregation": self.aggregation,
        }
        return _variable_of, (given,)

    def __deepcopy__(self, memo: dict[int, Any]) -> TensorVariable:
        _, (given,) = self.__reduce__()
        memo[id(self)] = _variable_of(given)
        made: TensorVariable = memo[id(self)]
        return made

    def __repr__(self) -> str:
        about = f"shape={self.get_shape()} dtype={dtypes.as_dtype(self.dtype).name}"
        return f"<tf.Variable '{self.name}' {about}, numpy={np.asarray(self.value)!r}>"

    __hash__ = object.__hash__


def _same(array: Any) -> Any:
    return array


def _variable_of(given: dict[str, Any]) -> TensorVariable:
    """A variable of what `TensorVariable.__reduce__` gives, whatever the scopes around."""
    with NameScope(""):
        return TensorVariable(**given)


_ARGUMENTS = inspect.signature(TensorVariable.__init__)
_ARGUMENTS = _ARGUMENTS.replace(parameters=list(_ARGUMENTS.parameters.values())[1:])
TensorVariable.__name__ = TensorVariable.__qualname__ = "Variable"


def _install_operators() -> None:
    """Give it the operators of `Tensor`, on its value."""

    def operator(method: str) -> Any:
        def operate(self: Any, *others: Any) -> Any:
            return getattr(Tensor(self.value), method)(*others)

        return operate

    cls: Any = TensorVariable
    names = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"]
    alone = ["lt", "le", "gt", "ge", "neg", "abs", "invert"]
    for name in (*names, *(f"r{each}" for each in names), *alone):
        setattr(cls, f"__{name}__", operator(f"__{name}__"))
    for name in ["bool", "int", "float", "complex", "index", "len", "iter", "format"]:
        setattr(cls, f"__{name}__", operator(f"__{name}__"))

    def equal(self: Any, other: Any) -> Any:
        return self is other or (
            not TensorType.compares_identity and elementwise.equal(self, other)
        )

    def not_equal(self: Any, other: Any) -> Any:
        return self is not other and (
            TensorType.compares_identity or elementwise.not_equal(self, other)
        )

    cls.__eq__, cls.__ne__ = equal, not_equal


_install_operators()


def _install_scatters() -> None:
    """Give it the methods that change its value at places: ``scatter_add``, ``scatter_nd_add``."""

    def of_rows(kind: str) -> Any:
        def scatter(
            self: Any, sparse_delta: Any, use_locking: bool = False, name: Any = None
        ) -> TensorVariable:
            return self._at_slices(kind, sparse_delta)

        return scatter

    def of_positions(kind: str) -> Any:
        def scatter(self: Any, indices: Any, updates: Any, name: Any = None) -> TensorVariable:
            return self._at(kind, indices, updates, rows=False)

        return scatter

    kinds = {
        "add": "add",
        "sub": "subtract",
        "max": "max",
        "min": "min",
        "update": "set",
        "mul": "multiply",
        "div": "divide",
    }
    for name, kind in kinds.items():
        for make, label in ((of_rows, f"scatter_{name}"), (of_positions, f"scatter_nd_{name}")):
            if label in ("scatter_nd_mul", "scatter_nd_div"):
                continue
            method = make(kind)
            method.__name__ = label
            method.__doc__ = f"""Change its value at rows or positions, as ``tf.Variable.{label}``.

            Raises:
                InvalidArgumentError: a place is outside; compiled functions drop its update.
            """
            setattr(TensorVariable, label, method)


_install_scatters()
