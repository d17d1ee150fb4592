"""``tf.TensorArray``: tensors that loops write one by one, and read or stack afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.boundary import GROWING, Growing
from drumline.compat.values.convert import convert, is_jax, is_traced, raw, stacked, static
from drumline.compat.values.dtypes import DType
from drumline.compat.values.errors import EndOfSequenceError, InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.training.jax_internals import is_staging


class TensorSequence:
    """Tensors by number, as ``tf.TensorArray``.

    Its tensors are separate until a traced index is written or read; from then on they are one
    array of its size, which a traced loop carries. So its size must be known where a function is
    compiled, or the function runs as Python.

    Args:
        dtype: of the tensors.
        size: how many there are.
        dynamic_size: whether writing past the end makes it longer.
        clear_after_read: whether a tensor can be read once only; by default true.
        tensor_array_name: accepted, as `name`: tensors have no names.
        handle: of a graph; refused.
        flow: of a graph; refused.
        infer_shape: whether all tensors must have the first one's shape.
        element_shape: the shape that all tensors have, if it is known.
        colocate_with_first_write_call: accepted: there are no places to choose.
        name: accepted.

    Raises:
        ValueError: a handle or a flow of a graph is given.

    Example:
        >>> squares = TensorSequence(dtypes.int32, size=3)
        >>> for i in range(3):
        ...     squares = squares.write(i, i * i)
        >>> squares.stack().numpy().tolist()
        [0, 1, 4]
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ):
        if handle is not None or flow is not None:
            raise ValueError("tf.TensorArray takes no handle= and no flow=: there are no graphs")
        self._dtype = dtypes.as_dtype(dtype)
        self._dynamic = bool(dynamic_size)
        self._once = clear_after_read is None or bool(clear_after_read)
        self._same_shape = bool(infer_shape)
        self._shape = TensorShape(element_shape)
        self._items: list[Any] = [None] * int(static(0 if size is None else size))
        self._buffer: Any = None
        self._read: frozenset[int] = frozenset()

    @property
    def dtype(self) -> DType:
        """The type of the tensors."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether writing past the end makes it longer."""
        return self._dynamic

    @property
    def element_shape(self) -> TensorShape:
        """The shape of the tensors, if it is known."""
        return self._shape

    @property
    def handle(self) -> None:
        """Of a graph: none."""
        return None

    @property
    def flow(self) -> None:
        """Of a graph: none."""
        return None

    def size(self, name: str | None = None) -> Tensor:
        """How many tensors there are, int32."""
        return Tensor(np.int32(len(self)))

    def __len__(self) -> int:
        return len(self._items) if self._buffer is None else int(self._buffer.shape[0])

    def identity(self) -> TensorSequence:
        """The same tensors; in place of a copy that what came before has to have run."""
        return self._copy()

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorSequence:
        """Give a tensor; use what this returns in place of the array.

        Args:
            index: its number.
            value: the tensor.
            name: accepted.

        Raises:
            OutOfRangeError: the number is past the end, and the size is not dynamic.
            InvalidArgumentError: the tensor has another dtype.
            ValueError: it has another shape than the others.
        """
        tensor = self._checked(value)
        at = raw(index)
        made = self._copy() if is_staging() else self
        if is_traced(at):
            if self._dynamic:
                raise ValueNeedsPython(
                    "a tf.TensorArray of dynamic size is written in a traced loop",
                    remedy="give it its size, and leave out dynamic_size",
                )
            made._set_buffer(tensor)
            made._buffer = made._buffer.at[at].set(tensor)
            return made
        number = int(np.asarray(at))
        if number < 0 or (number >= len(self) and not self._dynamic):
            kind = InvalidArgumentError if number < 0 else EndOfSequenceError
            raise kind(
                None,
                None,
                f"Tried to write to index {number} but array is not resizeable and size is: "
                f"{len(self)}",
            )
        if made._buffer is not None:
            if number >= len(self):
                extra = number + 1 - len(self)
                zeros = jnp.zeros((extra, *tensor.shape), tensor.dtype)
                made._buffer = jnp.concatenate([made._buffer, zeros])
            made._buffer = made._buffer.at[number].set(tensor)
            return made
        made._items += [None] * (number + 1 - len(made._items))
        made._items[number] = tensor
        made._read = made._read - {number}
        return made

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The tensor of a number; zeros if none was written and the shape is known.

        Raises:
            OutOfRangeError: the number is past the end.
            InvalidArgumentError: it was read before, and `clear_after_read` is true; or nothing
                was written there and no shape is known.
        """
        at = raw(index)
        if is_traced(at):
            made = self._copy()
            made._set_buffer(None)
            return Tensor(made._buffer[at])
        number = int(np.asarray(at))
        if not 0 <= number < len(self):
            raise EndOfSequenceError(
                None,
                None,
                f"Tried to read from index {number} but array size is: {len(self)}",
            )
        if self._buffer is not None:
            return Tensor(self._buffer[number])
        if number in self._read:
            raise InvalidArgumentError(
                None,
                None,
                f"Could not read index {number} twice because it was cleared after a previous "
                "read (perhaps try setting clear_after_read = false?)",
            )
        found = self._filled(number)
        if self._once and not is_staging():
            self._items[number] = None
            self._read |= {number}
        return Tensor(found)

    def stack(self, name: str | None = None) -> Tensor:
        """All tensors in one, along a first axis.

        Raises:
            InvalidArgumentError: one was not written, and no shape is known.
        """
        if self._buffer is not None:
            return Tensor(self._buffer)
        if not self._items:
            shape = (0, *(size or 0 for size in (self._shape.rank and self._shape.as_list()) or ()))
            return Tensor(np.zeros(shape, self._dtype.dtype))
        return Tensor(stacked([self._filled(i) for i in range(len(self._items))]))

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The tensors of some numbers in one, along a first axis."""
        return Tensor(convert(self.stack())[convert(indices)])

    def concat(self, name: str | None = None) -> Tensor:
        """All tensors joined along their own first axes."""
        parts = (
            [convert(each) for each in self._buffer]
            if self._buffer is not None
            else [self._filled(i) for i in range(len(self._items))]
        )
        return Tensor((jnp if any(map(is_jax, parts)) else np).concatenate(parts))

    def unstack(self, value: Any, name: str | None = None) -> TensorSequence:
        """An array of the parts of a tensor along its first axis."""
        whole = self._checked(value, whole=True)
        if whole.shape[0] > len(self) and not self._dynamic and len(self):
            raise InvalidArgumentError(
                None, None, f"{whole.shape[0]} tensors do not fit an array of size {len(self)}"
            )
        made = self._copy() if is_staging() else self
        made._items, made._buffer, made._read = list(whole), None, frozenset()
        if is_traced(whole):
            made._items, made._buffer = [], whole
        return made

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorSequence:
        """Write the parts of a tensor to some numbers."""
        made, whole = self, self._checked(value, whole=True)
        for place, number in enumerate(static(indices)):
            made = made.write(number, Tensor(whole[place]))
        return made

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorSequence:
        """An array of parts of a tensor along its first axis, of the given lengths."""
        whole = self._checked(value, whole=True)
        made, start = self._copy() if is_staging() else self, 0
        made._items, made._buffer, made._read = [], None, frozenset()
        for length in static(lengths):
            made._items.append(whole[start : start + length])
            start += length
        return made

    def close(self, name: str | None = None) -> None:
        """Forget the tensors."""
        self._items, self._buffer = [None] * len(self), None

    def __repr__(self) -> str:
        return f"<tf.TensorArray size={len(self)}, dtype={self._dtype.name}>"

    def _checked(self, value: Any, whole: bool = False) -> Any:
        """The array of what is written, of this array's dtype and shape."""
        given = raw(value)
        array = convert(value, None if hasattr(given, "dtype") else self._dtype)
        wanted = self._dtype.dtype
        if array.dtype != wanted:
            if not (is_traced(array) and array.dtype.kind == wanted.kind):
                raise InvalidArgumentError(
                    None,
                    None,
                    f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype "
                    f"{dtypes.of_array(array.dtype).name}",
                )
        shape = tuple(array.shape[1:] if whole else array.shape)
        if self._same_shape:
            if not self._shape.is_compatible_with(shape):
                raise ValueError(
                    f"Inconsistent shapes: saw {shape} but expected {self._shape.as_list()}"
                )
            self._shape = self._shape.merge_with(shape)
        return array

    def _filled(self, number: int) -> Any:
        found = self._items[number]
        if found is not None:
            return found
        if self._shape.rank is None or None in self._shape.as_list():
            raise InvalidArgumentError(
                None,
                None,
                f"Could not read from TensorArray index {number}.  Furthermore, the element shape "
                "is not fully defined. It is possible you are working with a resizeable "
                "TensorArray and stop_gradients is not allowing the gradients to be written.",
            )
        return np.zeros(self._shape.as_list(), self._dtype.dtype)

    def _set_buffer(self, like: Any) -> None:
        """Make one array of the tensors; those that were not written are zeros."""
        if self._buffer is not None:
            return
        if like is not None:
            self._shape = self._shape.merge_with(tuple(like.shape))
        dtype = self._dtype.dtype if like is None else like.dtype
        if not self._items:
            self._buffer = jnp.zeros((0, *self._shape.as_list()), dtype)
        else:
            parts = [jnp.asarray(self._filled(i)) for i in range(len(self._items))]
            self._buffer = jnp.stack(parts).astype(dtype)
        self._items = []

    def _copy(self) -> TensorSequence:
        made = object.__new__(TensorSequence)
        made.__dict__.update(self.__dict__)
        made._items = list(self._items)
        return made


TensorSequence.__name__ = TensorSequence.__qualname__ = "TensorArray"

_OPTIONS = ("_dtype", "_dynamic", "_once", "_same_shape")


def _flattened(array: TensorSequence) -> tuple[tuple[Any, Any], Any]:
    options = tuple(getattr(array, name) for name in _OPTIONS)
    known = array._buffer is None and array._shape.rank is not None
    shape = tuple(array._shape.as_list()) if known else None
    return (array._items, array._buffer), (options, array._read, shape)


def _unflattened(about: Any, children: Sequence[Any]) -> TensorSequence:
    made = object.__new__(TensorSequence)
    for name, value in zip(_OPTIONS, about[0], strict=True):
        setattr(made, name, value)
    made._items, made._buffer = list(children[0]), children[1]
    made._read = about[1]
    made._shape = TensorShape(about[2])
    if made._same_shape:
        if made._buffer is not None and hasattr(made._buffer, "shape"):
            made._shape = TensorShape(tuple(made._buffer.shape[1:]))
        for item in made._items:
            if hasattr(item, "shape"):
                made._shape = TensorShape(tuple(item.shape))
    return made


jax.tree_util.register_pytree_node(TensorSequence, _flattened, _unflattened)


def _started(start: TensorSequence, after: TensorSequence) -> TensorSequence | None:
    """The array before a traced loop, with zeros in the places that a step writes."""
    return _filled_like(start, after) if _alike(start, after) else None


def _common(
    one: TensorSequence, other: TensorSequence
) -> Callable[[TensorSequence], TensorSequence] | None:
    """What gives the arrays of two branches zeros in the places that the other one wrote."""

    def give(array: TensorSequence) -> TensorSequence:
        made = _filled_like(_filled_like(array, one), other)
        written = next((item for item in made._items if item is not None), None)
        if made._same_shape and written is not None:
            # Each condition of an unrolled loop would give all of many arrays.
            made._set_buffer(written)
        return made

    return give if _alike(one, other) else None


def _alike(one: TensorSequence, other: TensorSequence) -> bool:
    """Whether one structure can be made of both."""
    return (
        len(one) == len(other)
        and all(getattr(one, name) == getattr(other, name) for name in _OPTIONS)
        and one._shape.is_compatible_with(other._shape)
    )


def _filled_like(array: TensorSequence, like: TensorSequence) -> TensorSequence:
    """The array with what `like` has of other tensors as zeros, and as one array if that is one.

    Args:
        array: with arrays, or with shapes and dtypes in their place.
        like: as well.
    """
    made = array._copy()
    made._shape = array._shape.merge_with(like._shape)
    made._read = array._read & like._read
    for whole in (array._buffer, like._buffer):
        if whole is not None:
            made._set_buffer(jax.ShapeDtypeStruct(whole.shape[1:], whole.dtype))
            return made
    for place, item in enumerate(like._items):
        if made._items[place] is None and item is not None:
            made._items[place] = jnp.zeros(item.shape, item.dtype)
    return made


GROWING[TensorSequence] = Growing(_started, _common)
