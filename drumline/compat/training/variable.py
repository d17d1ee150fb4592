"""``tf.Variable``: drumline's variable, which takes and gives tensors."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from drumline.compat.keras import boundaries
from drumline.compat.ops import elementwise
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor, TensorReference
from drumline.distribute import Variable, VariableAggregation, VariableSynchronization

boundaries.install()


class VariableType(type(Variable)):  # type: ignore[misc]
    """The class of `TensorVariable`: variables of layers and optimizers are instances of it."""

    def __instancecheck__(cls, value: Any) -> bool:
        if super().__instancecheck__(value):
            return True
        return cls is TensorVariable and isinstance(value, keras.Variable)


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
        value = convert(initial_value() if callable(initial_value) else initial_value, dtype)
        if value.dtype == object:
            raise NotImplementedError("tf.Variable of strings: no device holds strings")
        if constraint is not None:
            raise NotImplementedError("tf.Variable with constraint=: use a layer's add_weight")
        kind = np.dtype(value.dtype)
        super().__init__(
            value,
            trainable=trainable,
            name=name,
            dtype=kind.name if kind.itemsize >= 8 or dtype is not None else None,
            synchronization=synchronization,
            aggregation=aggregation,
        )

    def assign(
        self, value: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> TensorVariable:
        """Give it another value."""
        super().assign(convert(value, self.dtype))
        return self

    def assign_add(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> TensorVariable:
        """Add to its value."""
        super().assign_add(convert(delta, self.dtype))
        return self

    def assign_sub(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> TensorVariable:
        """Subtract from its value."""
        super().assign_sub(convert(delta, self.dtype))
        return self

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

    def __repr__(self) -> str:
        about = f"shape={self.get_shape()} dtype={dtypes.as_dtype(self.dtype).name}"
        return f"<tf.Variable '{self.name}:0' {about}, numpy={np.asarray(self.value)!r}>"

    __hash__ = object.__hash__


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
    cls.__eq__ = lambda self, other: self is other or elementwise.equal(self, other)
    cls.__ne__ = lambda self, other: self is not other and elementwise.not_equal(self, other)


_install_operators()
