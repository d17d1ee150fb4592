"""``tf.data.Dataset`` and its iterators: views of drumline's, which compute."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from drumline.compat.composite import extension
from drumline.compat.composite.extension import ExtensionType, require_rows_of
from drumline.compat.composite.sparse import SparseColumns, SparseTensor, rows_of
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import from_core, map_structure, register, unwrap, wrap
from drumline.compat.values.convert import convert, raw, static
from drumline.compat.values.errors import EndOfSequenceError
from drumline.compat.values.specs import ArraySpec, TypeSpec
from drumline.compat.values.tensor import Tensor
from drumline.data import Dataset, DatasetIterator, DatasetSpec, RaggedArray, TensorSpec


class TensorDataset:
    """A sequence of elements, as ``tf.data.Dataset``.

    It is a view of a dataset of drumline's: functions see tensors, iterating gives tensors. Methods
    take numbers as tensors, too.

    Args:
        dataset: drumline's.
    """

    _ragged = False
    """Whether leaves are rows of a ragged tensor, which batches are ragged of."""

    def __init__(self, dataset: Dataset):
        self._dataset = dataset

    # Sources.

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> TensorDataset:
        """The rows of arrays."""
        columns = _columns(map_structure(_sparse_rows, tensors))
        made = TensorDataset(Dataset.from_tensor_slices(columns))
        found: list[bool] = []
        map_structure(lambda leaf: found.append(_has_rows(leaf)), columns)
        made._ragged = any(found)
        return made

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> TensorDataset:
        """Elements stacked; rows of a ragged tensor become one again."""
        drop = bool(static(drop_remainder))
        if self._ragged or _has_sparse(self._dataset.element_spec):
            return self._next("ragged_batch", batch_size, drop_remainder=drop)
        return self._next(
            "batch",
            batch_size,
            drop_remainder=drop,
            num_parallel_calls=num_parallel_calls,
            deterministic=deterministic,
        )

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> TensorDataset:
        """One element."""
        return TensorDataset(Dataset.from_tensors(_columns(tensors)))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> TensorDataset:
        """What a generator yields.

        Raises:
            TypeError: the generator cannot be called, or nothing says what it yields.
        """
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        if output_signature is None:
            if output_types is None:
                raise TypeError("from_generator needs output_signature or output_types")
            output_signature = _signature(output_types, output_shapes)
        given = tuple(convert(each) for each in (args or ()))
        signature = unwrap(output_signature)

        def elements(*arguments: Any) -> Iterator[Any]:
            for element in generator(*(np.asarray(each)[()] for each in arguments)):
                yield _element(element, signature)

        made = Dataset.from_generator(elements, output_signature=signature, args=given)
        return TensorDataset(made)

    @staticmethod
    def range(
        *args: Any, output_type: Any = dtypes.int64, name: str | None = None
    ) -> TensorDataset:
        """Numbers, as Python's ``range``."""
        kind = dtypes.as_dtype(output_type).dtype
        return TensorDataset(Dataset.range(*map(static, args), output_type=kind))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> TensorDataset:
        """Datasets side by side, in the structure in which they are given."""
        given = datasets if datasets is not None else (args if len(args) > 1 else args[0])
        return TensorDataset(Dataset.zip(unwrap(given)))

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: Any = None, seed: Any = None, name: str | None = None
    ) -> TensorDataset:
        """The names of the files that match."""
        pattern = unwrap(file_pattern)
        if isinstance(pattern, np.ndarray):
            pattern = pattern.tolist()
        chosen = True if shuffle is None else bool(static(shuffle))
        return TensorDataset(Dataset.list_files(pattern, shuffle=chosen, seed=static(seed)))

    @staticmethod
    def random(
        seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None
    ) -> TensorDataset:
        """Random numbers."""
        return TensorDataset(Dataset.random(static(seed), static(rerandomize_each_iteration), name))

    @staticmethod
    def counter(
        start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None
    ) -> TensorDataset:
        """Numbers without an end."""
        kind: Any = dtypes.as_dtype(dtype).dtype
        return TensorDataset(Dataset.counter(static(start), static(step), kind))

    @staticmethod
    def sample_from_datasets(
        datasets: Any, weights: Any = None, seed: Any = None, **options: Any
    ) -> TensorDataset:
        """Elements of datasets that are chosen at random."""
        chosen = unwrap(weights)
        chosen = chosen.tolist() if isinstance(chosen, np.ndarray) else chosen
        inputs = unwrap(list(datasets))
        made = Dataset.sample_from_datasets(inputs, chosen, seed=static(seed), **options)
        return TensorDataset(made)

    @staticmethod
    def choose_from_datasets(
        datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = True
    ) -> TensorDataset:
        """Elements of the datasets whose numbers another one gives."""
        made = Dataset.choose_from_datasets(
            unwrap(list(datasets)),
            unwrap(choice_dataset),
            stop_on_empty_dataset=stop_on_empty_dataset,
        )
        return TensorDataset(made)

    @staticmethod
    def load(path: Any, element_spec: Any = None, **options: Any) -> TensorDataset:
        """What `save` wrote."""
        chosen = {key: value for key, value in options.items() if value is not None}
        return TensorDataset(Dataset.load(static(path), **chosen))

    # Operations with a function.

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> TensorDataset:
        """What a function gives for each element."""
        made = self._dataset.map(
            from_core(map_func),
            num_parallel_calls=static(num_parallel_calls),
            deterministic=deterministic,
            synchronous=synchronous,
            use_unbounded_threadpool=use_unbounded_threadpool,
            name=name,
        )
        return TensorDataset(made)

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: Any = None) -> Any:
        """The last state, where a function gives the next one for each element."""
        start = map_structure(convert, unwrap(initial_state))
        return wrap(self._dataset.reduce(start, from_core(reduce_func)))

    def scan(self, initial_state: Any, scan_func: Callable[..., Any], name: Any = None) -> Any:
        """A function of state and element, which gives the next state and an element."""
        start = map_structure(convert, unwrap(initial_state))
        return TensorDataset(self._dataset.scan(start, from_core(scan_func)))

    def interleave(self, map_func: Callable[..., Any], *args: Any, **kwargs: Any) -> TensorDataset:
        """Elements of the datasets that a function gives, some of each by turns."""
        return self._next("interleave", from_core(map_func), *args, **kwargs)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: Any = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> TensorDataset:
        """Windows of elements of one key, each reduced to a dataset."""
        sizes = None if window_size_func is None else from_core(window_size_func)
        made = self._dataset.group_by_window(
            from_core(key_func),
            from_core(reduce_func),
            window_size=static(window_size),
            window_size_func=sizes,
        )
        return TensorDataset(made)

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: Any = None,
        name: str | None = None,
    ) -> TensorDataset:
        """Elements dropped at random, so that classes have the given shares."""
        made = self._dataset.rejection_resample(
            from_core(class_func), static(target_dist), static(initial_dist), seed=static(seed)
        )
        return TensorDataset(made)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> TensorDataset:
        """Batches of elements padded to one shape."""
        shapes = None
        if padded_shapes is not None:
            shapes = _shapes_like(padded_shapes, self._dataset.element_spec)
        made = self._dataset.padded_batch(
            static(batch_size),
            padded_shapes=shapes,
            padding_values=unwrap(padding_values),
            drop_remainder=drop_remainder,
        )
        return TensorDataset(made)

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """What a function of datasets gives for this one."""
        return transformation_func(self)

    # The elements.

    @property
    def element_spec(self) -> Any:
        """What the elements are."""
        return wrap(self._dataset.element_spec)

    def cardinality(self) -> Tensor:
        """The number of elements, int64; INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
        return Tensor(np.int64(self._dataset.cardinality()))

    def get_single_element(self, name: str | None = None) -> Any:
        """The element of a dataset of one."""
        return wrap(self._dataset.get_single_element())

    def as_numpy_iterator(self) -> Iterator[Any]:
        """An iterator whose elements are numpy's arrays."""
        return iter(self._dataset)

    def options(self) -> Any:
        """The options that were set."""
        return self._dataset.options()

    def __iter__(self) -> TensorIterator:
        return TensorIterator(iter(self._dataset))

    def __len__(self) -> int:
        return len(self._dataset)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Dataset element_spec={self.element_spec!r}>"

    def __drumline_batches__(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._dataset, wrap

    def _next(self, method: str, /, *args: Any, **kwargs: Any) -> TensorDataset:
        kwargs.pop("name", None)
        chosen = {key: static(value) for key, value in kwargs.items() if value is not None}
        made = TensorDataset(getattr(self._dataset, method)(*map(static, args), **chosen))
        made._ragged = self._ragged and method in _OF_SAME_ELEMENTS.split()
        return made


TensorDataset.__name__ = TensorDataset.__qualname__ = "Dataset"

_OF_SAME_ELEMENTS = (
    "filter take_while shuffle repeat take skip prefetch shard cache with_options "
    "ignore_errors assert_cardinality snapshot"
)
_OF_FUNCTIONS = "filter flat_map take_while bucket_by_sequence_length"
_OF_NUMBERS = (
    "shuffle repeat take skip prefetch shard window cache enumerate rebatch unique "
    "ragged_batch snapshot ignore_errors with_options assert_cardinality"
)


def _delegate() -> None:
    """Give `TensorDataset` the methods that differ in nothing but numbers, functions, datasets."""

    def method(name: str, first: Callable[[Any], Any]) -> Any:
        def call(self: TensorDataset, *args: Any, **kwargs: Any) -> Any:
            converted = [first(each) if callable(each) else each for each in args]
            named = {
                key: first(each) if key.endswith("_func") or key == "predicate" else each
                for key, each in kwargs.items()
            }
            return self._next(name, *converted, **named)

        call.__name__ = name
        call.__qualname__ = f"Dataset.{name}"
        call.__doc__ = getattr(Dataset, name).__doc__
        return call

    for name in _OF_FUNCTIONS.split():
        setattr(TensorDataset, name, method(name, from_core))
    for name in _OF_NUMBERS.split():
        setattr(TensorDataset, name, method(name, lambda each: each))

    def concatenate(self: TensorDataset, dataset: Any, name: Any = None) -> TensorDataset:
        return TensorDataset(self._dataset.concatenate(unwrap(dataset)))

    def save(self: TensorDataset, path: Any, **options: Any) -> None:
        chosen = {key: value for key, value in options.items() if value is not None}
        self._dataset.save(static(path), **chosen)

    def unbatch(self: TensorDataset, name: Any = None) -> TensorDataset:
        require_rows_of(self._dataset.element_spec)
        return self._next("unbatch")

    unbatch.__doc__ = Dataset.unbatch.__doc__
    setattr(TensorDataset, "unbatch", unbatch)  # noqa: B010
    concatenate.__doc__ = Dataset.concatenate.__doc__
    save.__doc__ = Dataset.save.__doc__
    setattr(TensorDataset, "concatenate", concatenate)  # noqa: B010 (typed as it is)
    setattr(TensorDataset, "save", save)  # noqa: B010


_delegate()


class ElementIterator:
    """What iterators of datasets and of distributed datasets have.

    Args:
        iterator: drumline's.
    """

    def __init__(self, iterator: Any):
        self._iterator = iterator

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return wrap(next(self._iterator))

    def get_next(self) -> Any:
        """The next element.

        Raises:
            EndOfSequenceError: there is none.
        """
        try:
            return next(self)
        except StopIteration:
            raise EndOfSequenceError(None, None, "End of sequence") from None

    def get_next_as_optional(self) -> OptionalValue:
        """The next element, or an empty value."""
        try:
            return OptionalValue(next(self))
        except StopIteration:
            return OptionalValue()

    @property
    def element_spec(self) -> Any:
        """What the elements are."""
        return wrap(self._iterator.element_spec)

    def __drumline_batches__(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._iterator, wrap


class TensorIterator(ElementIterator):
    """Iterates over a dataset, as ``tf.data.Iterator``."""

    def next(self) -> Any:
        """The next element, as ``next(iterator)``."""
        return next(self)


TensorIterator.__name__ = TensorIterator.__qualname__ = "Iterator"


class OptionalValue:
    """A value, or none, as ``tf.experimental.Optional``.

    Args:
        value: the value, if there is one.
    """

    def __init__(self, *value: Any):
        self._value = value

    def has_value(self, name: Any = None) -> Tensor:
        """Whether there is one, a bool tensor."""
        return Tensor(np.asarray(bool(self._value)))

    def get_value(self, name: Any = None) -> Any:
        """The value.

        Raises:
            InvalidArgumentError: there is none.
        """
        if not self._value:
            from drumline.compat.values.errors import InvalidArgumentError

            raise InvalidArgumentError(None, None, "The given optional does not have a value.")
        return self._value[0]

    @classmethod
    def from_value(cls, value: Any) -> OptionalValue:
        """With a value."""
        return cls(value)

    @classmethod
    def empty(cls, element_spec: Any = None) -> OptionalValue:
        """Without one."""
        return cls()


OptionalValue.__name__ = OptionalValue.__qualname__ = "Optional"


def _sparse_rows(leaf: Any) -> Any:
    if isinstance(leaf, ExtensionType):
        return extension.rows_of(leaf)
    return rows_of(leaf) if isinstance(leaf, SparseTensor) else leaf


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, (RaggedArray, SparseColumns))


def _has_sparse(spec: Any) -> bool:
    found: list[bool] = []
    map_structure(lambda leaf: found.append(isinstance(leaf, SparseColumns)), spec)
    return any(found)


class DatasetStructure(TypeSpec):
    """What the elements of a dataset among the elements are, as ``tf.data.DatasetSpec``.

    Args:
        element_spec: nested specs of its elements.
        dataset_shape: of arrays of datasets, which do not exist: ``()``.
    """

    def __init__(self, element_spec: Any, dataset_shape: Any = ()):
        self._element_spec = element_spec
        self._core = DatasetSpec(unwrap(element_spec), tuple(static(dataset_shape)))

    @property
    def element_spec(self) -> Any:
        """The specs of its elements."""
        return self._element_spec

    @property
    def value_type(self) -> type:
        """`TensorDataset`."""
        return TensorDataset

    @classmethod
    def from_value(cls, value: TensorDataset) -> DatasetStructure:
        """The spec of a dataset."""
        return cls(value.element_spec)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether the elements of a dataset, or of another spec's, have these specs."""
        return bool(self.element_spec == spec_or_value.element_spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetStructure) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(self._core)

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, TensorShape([]))"


DatasetStructure.__name__ = DatasetStructure.__qualname__ = "DatasetSpec"


def _columns(tensors: Any) -> Any:
    """What users give for arrays: lists of numbers are arrays, tuples and dicts are structure."""
    if isinstance(tensors, SparseColumns):
        return tensors
    if isinstance(tensors, ExtensionType):
        tensors = unwrap(tensors)
    if isinstance(tensors, tuple) and hasattr(tensors, "_fields"):
        return type(tensors)(*map(_columns, tensors))
    if type(tensors) is tuple:
        return tuple(map(_columns, tensors))
    if isinstance(tensors, dict):
        return {key: _columns(value) for key, value in tensors.items()}
    value = raw(unwrap(tensors))
    return value if isinstance(value, (RaggedArray, SparseColumns)) else np.asarray(convert(value))


def _signature(types: Any, shapes: Any) -> Any:
    """Nested specs of nested types and shapes."""
    if isinstance(types, (tuple, list)):
        given = [None] * len(types) if shapes is None else shapes
        return tuple(_signature(a, b) for a, b in builtins.zip(types, given, strict=True))
    if isinstance(types, dict):
        return {k: _signature(v, None if shapes is None else shapes[k]) for k, v in types.items()}
    return ArraySpec(shapes, types)


def _element(element: Any, signature: Any) -> Any:
    """What a generator yields, in the dtypes of the signature."""
    if isinstance(signature, tuple) and isinstance(element, (tuple, list)):
        pairs = builtins.zip(element, signature, strict=True)
        return tuple(_element(each, spec) for each, spec in pairs)
    if isinstance(signature, dict):
        return {key: _element(element[key], spec) for key, spec in signature.items()}
    if type(signature) is TensorSpec:
        return convert(element, signature.dtype)
    return unwrap(element)


def _shapes_like(shapes: Any, spec: Any) -> Any:
    """Shapes of tensors, lists and tuples as tuples, in the structure of the elements."""
    if isinstance(spec, dict):
        return {key: _shapes_like(shapes[key], each) for key, each in spec.items()}
    if isinstance(spec, tuple):
        return tuple(_shapes_like(a, b) for a, b in builtins.zip(shapes, spec, strict=True))
    return tuple(None if size in (None, -1) else int(size) for size in static(list(shapes)))


register(
    Dataset,
    TensorDataset,
    TensorDataset,
    lambda view: getattr(view, "_dataset"),  # noqa: B009
)
register(
    DatasetIterator,
    TensorIterator,
    TensorIterator,
    lambda view: getattr(view, "_iterator"),  # noqa: B009
)
register(
    DatasetSpec,
    lambda spec: DatasetStructure(wrap(spec.element_spec)),
    DatasetStructure,
    lambda spec: getattr(spec, "_core"),  # noqa: B009
)
