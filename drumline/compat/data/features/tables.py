"""``tf.lookup``: tables from keys to values.

Keys are looked up on the host: at once, or in a dataset's `map` by one native operation, which
leaves the rest of the map compiled. In a compiled step the numbers of a static table are arrays of
the program; tables that change, and those of strings, make a ``tf.function`` run as Python.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drumline import strings
from drumline.compat.composite.ragged import RaggedTensor, VaryingRows
from drumline.compat.composite.sparse import SparseTensor
from drumline.compat.data.features.contents import Contents, FindValues, ValueSource
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import wrap
from drumline.compat.values.convert import convert, is_traced, static
from drumline.compat.values.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.strings import LookUp, Vocabulary
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.data.functions.trace import in_dataset_function
from drumline.training.jax_internals import is_staging


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


class KeyValueTensorInitializer:
    """A table's keys and values, as ``tf.lookup.KeyValueTensorInitializer``.

    Args:
        keys: tensors of any shape, or lists.
        values: as many.
        key_dtype: of the keys, where they are a list.
        value_dtype: of the values, where they are a list.
        name: of no effect.

    Example:
        ``tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])``
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ):
        self._keys = np.asarray(convert(keys, key_dtype))
        self._values = np.asarray(convert(values, value_dtype))

    @property
    def key_dtype(self) -> dtypes.DType:
        """Of the keys."""
        return dtypes.of_array(self._keys.dtype)

    @property
    def value_dtype(self) -> dtypes.DType:
        """Of the values."""
        return dtypes.of_array(self._values.dtype)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys and values, (n,) each.

        Raises:
            InvalidArgumentError: they are not as many.
        """
        if self._keys.shape != self._values.shape:
            raise _invalid(
                f"Expected shape {list(self._keys.shape)} for value, got {list(self._values.shape)}"
            )
        return self._keys.ravel(), self._values.ravel()


class TextFileIndex:
    """What of a line is a key or value, as ``tf.lookup.TextFileIndex``; else a column's number."""

    WHOLE_LINE: ClassVar[int] = -2
    LINE_NUMBER: ClassVar[int] = -1


class TextFileInitializer:
    """Keys and values from the lines of a text file, as ``tf.lookup.TextFileInitializer``.

    Args:
        filename: the file.
        key_dtype: int64 or string.
        key_index: of `TextFileIndex`, or the number of a column.
        value_dtype: of the values.
        value_index: as ``key_index``.
        vocab_size: how many lines are read; by default all.
        delimiter: between columns.
        name: of no effect.
        value_index_offset: what the first line's number counts as.

    Raises:
        ValueError: a type does not go with an index.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ):
        path = static(filename)
        if not path:
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        self.key_dtype, self.value_dtype = map(dtypes.as_dtype, (key_dtype, value_dtype))
        for label, kind, index in (
            ("key", self.key_dtype, key_index),
            ("value", self.value_dtype, value_index),
        ):
            if index < -2:
                raise ValueError(f"`{label}_index` should be >= -2, received: {index}.")
            if index == TextFileIndex.LINE_NUMBER and kind != dtypes.int64:
                raise ValueError(
                    f"`{label}_dtype` must be int64 for `{label}_index` {index}, received: {kind!r}"
                )
            if index == TextFileIndex.WHOLE_LINE and not (kind.is_integer or kind == dtypes.string):
                raise ValueError(
                    f"`{label}_dtype` should be either integer or string for `{label}_index` "
                    f"{index}, received: {kind!r}"
                )
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._path = Path(path.decode() if isinstance(path, bytes) else path)
        self._indices = key_index, value_index
        self._size, self._offset = vocab_size, value_index_offset
        self._delimiter = delimiter.encode()

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys and values, (n,) each.

        Raises:
            NotFoundError: there is no such file.
            InvalidArgumentError: it has fewer lines or columns, or a field is no number.
        """
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            raise NotFoundError(None, None, f"{self._path}; No such file or directory") from None
        lines = text.split(b"\n")
        lines = [line.removesuffix(b"\r") for line in (lines[:-1] if not lines[-1] else lines)]
        if self._size is not None and len(lines) < self._size:
            raise _invalid(
                f"Invalid vocab_size in {self._path}: expected {self._size} but got {len(lines)}"
            )
        lines = lines[: self._size]
        key, value = (self._column(lines, index) for index in self._indices)
        return self._of_type(key, self.key_dtype), self._of_type(value, self.value_dtype)

    def _column(self, lines: list[bytes], index: int) -> Any:
        if index == TextFileIndex.LINE_NUMBER:
            return range(self._offset, self._offset + len(lines))
        if index == TextFileIndex.WHOLE_LINE:
            return lines
        found = []
        for number, line in enumerate(lines):
            fields = line.split(self._delimiter)
            if len(fields) <= max(self._indices):
                raise _invalid(
                    f"Invalid number of columns in {self._path} line {number} "
                    f"({line.decode(errors='replace')}) : expected at least "
                    f"{max(self._indices) + 1} got {len(fields)}"
                )
            found.append(fields[index])
        return found

    def _of_type(self, fields: Any, kind: dtypes.DType) -> np.ndarray:
        if isinstance(fields, range):
            return np.arange(fields.start, fields.stop, dtype=np.int64)
        if kind == dtypes.string:
            made = np.empty(len(fields), object)
            made[:] = fields
            return made
        read = int if kind.is_integer else float
        numbers = []
        for place, field in enumerate(fields):
            try:
                numbers.append(read(field))
            except ValueError:
                raise _invalid(
                    f"Field {field.decode(errors='replace')} in line {place} is not a valid "
                    f"{kind.name}."
                ) from None
        return np.asarray(numbers, kind.dtype)


class LookupTable:
    """What all tables have in common.

    Args:
        key_dtype: of the keys.
        value_dtype: of the values.
    """

    def __init__(self, key_dtype: Any, value_dtype: Any):
        self._key_dtype, self._value_dtype = map(dtypes.as_dtype, (key_dtype, value_dtype))

    @property
    def key_dtype(self) -> dtypes.DType:
        """Of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        """Of the values."""
        return self._value_dtype

    @property
    def name(self) -> str | None:
        """None: tables have no names without graphs."""
        return None

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """The values of keys, wherever in a dense, ragged or sparse tensor they are."""
        raise NotImplementedError

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def _keys(self, keys: Any, strict: bool = True) -> Any:
        """Keys as an array, tracer, symbol or ragged array.

        Raises:
            TypeError: they are of another type.
        """
        known = hasattr(keys, "dtype")
        keys = keys.symbol if isinstance(keys, VaryingRows) else keys
        given = convert(keys, None if known and strict else self._key_dtype)
        kind = dtypes.of_array(given.dtype)
        same = kind == self._key_dtype
        if is_traced(given):  # in 32 and in 64 bits, whatever the tensor's own type
            same = kind.dtype.kind == self._key_dtype.dtype.kind
        if not same:
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype!r}, received: {kind!r}"
            )
        return given

    def _of_composite(self, keys: Any) -> Any:
        """The values of a ragged or sparse tensor's keys; None for others."""
        if isinstance(keys, SparseTensor):
            return keys.with_values(self.lookup(keys.values))
        if isinstance(keys, RaggedTensor) and not isinstance(keys, VaryingRows):
            return keys.with_flat_values(self.lookup(keys.flat_values))
        return None


def values_of(source: ValueSource, keys: Any, operation: Any = None) -> Any:
    """The values of keys: of numpy's and of symbols; not of tracers outside of maps.

    Args:
        source: in which they are looked up.
        keys: an array, tracer, or symbol.
        operation: the native operation that does so; by default `FindValues`.

    Raises:
        ValueNeedsPython: the keys are in a step that is compiled.
    """
    if isinstance(keys, (Symbol, RaggedArray)) or (is_traced(keys) and in_dataset_function()):
        return apply(operation or FindValues(source), keys)
    if is_traced(keys):
        raise ValueNeedsPython("a lookup table that changes is looked up in")
    given = np.asarray(keys)
    made = source.found(np.ascontiguousarray(given).reshape(-1))
    return made.reshape((*given.shape, *source.value_shape))


class StaticHashTable(LookupTable):
    """A table that does not change, as ``tf.lookup.StaticHashTable``.

    Args:
        initializer: `KeyValueTensorInitializer` or `TextFileInitializer`.
        default_value: of keys that are not in the table.
        name: of no effect.
        experimental_is_anonymous: of no effect.

    Raises:
        FailedPreconditionError: a key has two values.
        TypeError: the default value is of another type.

    Example:
        ``tf.lookup.StaticHashTable(initializer, -1).lookup(tf.constant(["a", "z"]))``
    """

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ):
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default = np.asarray(convert(default_value, self._value_dtype))
        if self._default.ndim:
            raise ValueError(f"Shapes {self._default.shape} and () are incompatible")
        keys, values = _without_repeated(*initializer.pairs())
        self._contents = Contents(keys, values, self._default)

    def trackable_attributes(self) -> list[tuple[str, Any]]:
        """Nothing: the program makes the table again."""
        return []

    @property
    def default_value(self) -> Tensor:
        """Of keys that are not in the table."""
        return Tensor(self._default)

    @property
    def initializer(self) -> None:
        """None: the table is filled when it is made."""
        return None

    def size(self, name: Any = None) -> Tensor:
        """The number of keys: int64 ()."""
        return Tensor(np.int64(len(self._contents.keys)))

    def export(self, name: Any = None) -> tuple[Tensor, Tensor]:
        """The keys and values, (n,) each."""
        return Tensor(self._contents.keys), Tensor(self._contents.values)

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """The values of keys, of their shape.

        Raises:
            TypeError: the keys are of another type.
        """
        composite = self._of_composite(keys)
        if composite is not None:
            return composite
        given = self._keys(keys)
        if is_traced(given) and not in_dataset_function():
            return Tensor(self._contents.traced(given))
        return wrap(values_of(self._contents, given, self._numbering))

    @property
    def _numbering(self) -> LookUp | None:
        """A native operation that is one with changes of the strings before it, if there is one."""
        first = _first_of_range(self._contents)
        if first is None:
            return None
        absent = int(self._default)
        return LookUp(_vocabulary(self._contents), first, absent, label="lookup")


def _first_of_range(contents: Contents) -> int | None:
    """The first value, if strings have values that count up by one."""
    values = contents.values
    if contents.keys.dtype.kind != "O" or values.dtype != np.int64 or not len(values):
        return None
    counting = bool((values == np.arange(values[0], values[0] + len(values))).all())
    return int(values[0]) if counting else None


def _vocabulary(contents: Contents) -> Vocabulary:
    return Vocabulary(contents.keys.tolist())


def _without_repeated(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs with each key once.

    Raises:
        FailedPreconditionError: a key has two values.
    """
    place: dict[Any, int] = {}
    for number, key in enumerate(keys.tolist()):
        first = place.setdefault(key, number)
        if first != number and values[first] != values[number]:
            shown = key.decode(errors="replace") if isinstance(key, bytes) else key
            raise FailedPreconditionError(
                None,
                None,
                f"HashTable has different value for same key. Key {shown} has {values[first]} and "
                f"trying to add value {values[number]}",
            )
    chosen = list(place.values())
    return keys[chosen], values[chosen]


class _WithBuckets:
    """A table's contents, with buckets after them for the hashes of other keys."""

    value_shape: tuple[int, ...] = ()
    values_dtype = np.dtype(np.int64)

    def __init__(self, contents: Contents | None, buckets: int):
        self._contents, self._buckets = contents, buckets

    def found(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of keys (n,)."""
        text = keys if keys.dtype.kind == "O" else strings.as_string(keys)
        hashed = np.asarray(strings.to_hash_bucket_fast(text, self._buckets))
        if self._contents is None:
            return hashed
        numbers = self._contents.found(keys.astype(self._contents.keys.dtype))
        return np.where(numbers != -1, numbers, hashed + len(self._contents.keys))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _WithBuckets) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._contents, self._buckets))


class VocabularyTable(LookupTable):
    """Numbers of keys; others share buckets by their hash, as ``tf.lookup.StaticVocabularyTable``.

    Args:
        initializer: of int64 values from 0 on; None for buckets alone.
        num_oov_buckets: how many buckets there are, after the vocabulary.
        lookup_key_dtype: string, or an integer type, of keys that are looked up.
        name: of no effect.
        experimental_is_anonymous: of no effect.

    Raises:
        ValueError: there are no buckets.
        TypeError: keys or values are of another type.
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ):
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        wanted = None if lookup_key_dtype is None else dtypes.as_dtype(lookup_key_dtype)
        self._table: StaticHashTable | None = None
        if initializer:
            wanted = initializer.key_dtype if wanted is None else wanted
            if initializer.key_dtype not in (dtypes.int64, dtypes.string):
                raise TypeError(
                    f"Invalid `key_dtype`, expected one of {(dtypes.int64, dtypes.string)}, but "
                    f"got {initializer.key_dtype!r}."
                )
            if initializer.key_dtype.is_integer != wanted.is_integer:
                kind = "integer" if wanted.is_integer else "non-integer"
                raise TypeError(
                    f"Invalid `key_dtype`, expected {kind} but got {initializer.key_dtype!r}."
                )
            if initializer.value_dtype != dtypes.int64:
                raise TypeError(
                    f"Invalid `value_dtype`, expected {dtypes.int64!r} but got "
                    f"{initializer.value_dtype!r}."
                )
            self._table = StaticHashTable(initializer, -1)
        else:
            wanted = dtypes.string
        if not wanted.is_integer and wanted != dtypes.string:
            raise TypeError(f"Invalid `key_dtype`, expected integer or string, got {wanted!r}")
        super().__init__(wanted, dtypes.int64)
        self._buckets = int(num_oov_buckets)
        self._source = _WithBuckets(
            None if self._table is None else self._table._contents, self._buckets
        )

    def trackable_attributes(self) -> list[tuple[str, Any]]:
        """Nothing: the program makes the table again."""
        return []

    @property
    def initializer(self) -> None:
        """None: the table is filled when it is made."""
        return None

    def size(self, name: Any = None) -> Tensor:
        """How many keys and buckets there are: int64 ()."""
        known = 0 if self._table is None else int(self._table.size())
        return Tensor(np.int64(known + self._buckets))

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """The numbers of keys, int64 of their shape.

        Raises:
            TypeError: the keys are of another type.
        """
        composite = self._of_composite(keys)
        if composite is not None:
            return composite
        given = self._keys(keys)
        if is_traced(given) and not in_dataset_function():
            raise ValueNeedsPython("integers are hashed as text in a StaticVocabularyTable")
        return wrap(values_of(self._source, given, self._numbering))

    @property
    def _numbering(self) -> LookUp | None:
        contents = None if self._table is None else self._table._contents
        if contents is None or _first_of_range(contents) != 0:
            return None
        return LookUp(_vocabulary(contents), 0, None, self._buckets, label="lookup")


class MutableHashTable(LookupTable):
    """A table that changes, as ``tf.lookup.experimental.MutableHashTable``.

    A ``tf.function`` that uses it runs as Python; in a dataset's `map`, `lookup` is one native
    operation, which sees what the table holds at that time.

    Args:
        key_dtype: of the keys.
        value_dtype: of the values.
        default_value: of keys that are not in the table; its shape is that of each value.
        name: of no effect.
        checkpoint: whether checkpoints save what it holds.
        experimental_is_anonymous: of no effect.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ):
        super().__init__(key_dtype, value_dtype)
        self._default = np.asarray(convert(default_value, self._value_dtype))
        self.value_shape = self._default.shape
        self.values_dtype = self._default.dtype
        self._saved = checkpoint
        self._lock = threading.Lock()
        self._held: dict[Any, np.ndarray] = {}
        self._known: Contents | None = None

    def found(self, keys: np.ndarray) -> np.ndarray:
        """The values of keys (n,), of what the table holds now."""
        with self._lock:
            if self._known is None:
                self._known = Contents(*self._arrays(), self._default)
            known = self._known
        return known.found(keys)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        keys = np.empty(len(self._held), self._key_dtype.dtype)
        keys[:] = list(self._held)
        values = np.empty((len(self._held), *self.value_shape), self.values_dtype)
        for number, value in enumerate(self._held.values()):
            values[number] = value
        return keys, values

    @staticmethod
    def _now() -> None:
        """Refuse to read or change the table while a function is traced: once, and not each time.

        Raises:
            ValueNeedsPython: one is.
        """
        if is_staging():
            raise ValueNeedsPython("a lookup table that changes is read or written")

    def size(self, name: Any = None) -> Tensor:
        """The number of keys: int64 ()."""
        self._now()
        return Tensor(np.int64(len(self._held)))

    def lookup(  # type: ignore[override]
        self, keys: Any, dynamic_default_values: Any = None, name: Any = None
    ) -> Any:
        """The values of keys, of their shape and then that of a value.

        Args:
            keys: of any shape.
            dynamic_default_values: for keys that are not there, one for each key.
            name: of no effect.
        """
        composite = self._of_composite(keys)
        if composite is not None:
            return composite
        given = self._keys(keys, strict=False)
        if isinstance(given, Symbol) or (is_traced(given) and in_dataset_function()):
            if dynamic_default_values is not None:
                raise ValueNeedsPython("keys of a lookup table have values of their own by default")
            return wrap(values_of(self, given))
        self._now()
        flat = np.asarray(given).ravel()
        made = self.found(flat).reshape((*given.shape, *self.value_shape))
        if dynamic_default_values is None:
            return Tensor(made)
        others = np.asarray(convert(dynamic_default_values, self._value_dtype))
        if others.shape not in (made.shape, self.value_shape):
            raise _invalid(
                f"Expected shape {list(self.value_shape)} or {list(made.shape)} for default value, "
                f"got {list(others.shape)}"
            )
        there = np.array([key in self._held for key in flat.tolist()], bool).reshape(given.shape)
        there = there.reshape(given.shape + (1,) * len(self.value_shape))
        return Tensor(np.where(there, made, others))

    def insert(self, keys: Any, values: Any, name: Any = None) -> None:
        """Give keys values, in place of those that they had.

        Raises:
            InvalidArgumentError: there are not as many values.
        """
        given = self._known_keys(keys)
        held = convert(values, self._value_dtype)
        if is_traced(held):
            raise ValueNeedsPython("a lookup table that changes is written")
        array = np.asarray(held)
        if array.shape != (*given.shape, *self.value_shape):
            raise _invalid(
                f"Expected shape {[*given.shape, *self.value_shape]} for value, got "
                f"{list(array.shape)}"
            )
        rows = array.reshape(given.size, *self.value_shape).copy()
        with self._lock:
            self._held.update(zip(given.ravel().tolist(), rows, strict=True))
            self._known = None

    def remove(self, keys: Any, name: Any = None) -> None:
        """Forget keys; those that are not there are passed over."""
        given = self._known_keys(keys)
        with self._lock:
            for key in given.ravel().tolist():
                self._held.pop(key, None)
            self._known = None

    def _known_keys(self, keys: Any) -> np.ndarray:
        self._now()
        given = self._keys(keys, strict=False)
        if is_traced(given) or isinstance(given, Symbol):
            raise ValueNeedsPython("a lookup table that changes is written")
        return np.asarray(given)

    def export(self, name: Any = None) -> tuple[Tensor, Tensor]:
        """The keys (n,) and the values (n, ...)."""
        self._now()
        keys, values = self._arrays()
        return Tensor(keys), Tensor(values)

    def state(self) -> Any:
        """What a checkpoint saves: keys and values as JSON has them; None if it saves nothing."""
        if not self._saved:
            return None
        return [_as_json(each) for each in self._arrays()]

    def restore(self, state: Any) -> None:
        """Hold what `state` gave, and nothing else."""
        if state is None or not self._saved:
            return
        keys, values = state
        kinds = self._key_dtype.dtype, self.values_dtype
        arrays = [_of_json(each, kind) for each, kind in zip((keys, values), kinds, strict=True)]
        rows = arrays[1].reshape(len(arrays[0]), *self.value_shape)
        with self._lock:
            self._held = dict(zip(arrays[0].tolist(), rows, strict=True))
            self._known = None


def _as_json(array: np.ndarray) -> list[Any]:
    flat = array.ravel().tolist()
    return [each.decode("latin-1") for each in flat] if array.dtype.kind == "O" else flat


def _of_json(values: list[Any], kind: np.dtype) -> np.ndarray:
    made = np.empty(len(values), kind)
    made[:] = [each.encode("latin-1") for each in values] if kind.kind == "O" else values
    return made


class DenseHashTable(MutableHashTable):
    """A table that changes, and knows two keys apart, as ``tf.lookup.experimental.DenseHashTable``.

    Args:
        key_dtype: of the keys.
        value_dtype: of the values.
        default_value: of keys that are not in the table; its shape is that of each value.
        empty_key: never a key of the table.
        deleted_key: the same, another one.
        initial_num_buckets: of no effect: the table grows as it is filled.
        name: of no effect.
        checkpoint: whether checkpoints save what it holds.
        experimental_is_anonymous: of no effect.

    Raises:
        InvalidArgumentError: the two keys are equal; of its methods, that one of them is given.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ):
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)
        special = [np.asarray(convert(key, self._key_dtype)) for key in (empty_key, deleted_key)]
        self._empty, self._deleted = (each.item() for each in special)
        if self._empty == self._deleted:
            raise _invalid("Empty and deleted keys cannot be equal")

    def _refused(self, keys: np.ndarray) -> None:
        for label, key in (("empty_key", self._empty), ("deleted_key", self._deleted)):
            if (keys == key).any():
                raise _invalid(f"Using the {label} as a table key is not allowed")

    def found(self, keys: np.ndarray) -> np.ndarray:
        """The values of keys (n,), of what the table holds now."""
        self._refused(keys)
        return super().found(keys)

    def lookup(self, keys: Any, name: Any = None) -> Any:  # type: ignore[override]
        """The values of keys, of their shape and then that of a value."""
        return super().lookup(keys)

    def _known_keys(self, keys: Any) -> np.ndarray:
        given = super()._known_keys(keys)
        self._refused(given)
        return given

    def insert_or_assign(self, keys: Any, values: Any, name: Any = None) -> None:
        """As `insert`."""
        self.insert(keys, values)

    def erase(self, keys: Any, name: Any = None) -> None:
        """As `remove`."""
        self.remove(keys)


VocabularyTable.__name__ = VocabularyTable.__qualname__ = "StaticVocabularyTable"
