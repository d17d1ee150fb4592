"""``tf.data.experimental``: readers of CSV files, and functions for ``Dataset.apply``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drumline import data
from drumline.compat.data.dataset import OptionalValue, TensorDataset, TensorIterator
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.convert import static
from drumline.compat.values.tensor import Tensor
from drumline.data import experimental

Transformation = Callable[[Any], Any]


def _default(default: Any) -> Any:
    """A type of the look-alike's, or a default value, as drumline takes it."""
    value = unwrap(default)
    if isinstance(value, dtypes.DType):
        return value.dtype
    return np.asarray(value) if hasattr(value, "dtype") else value


class RowsOfCsvFiles(TensorDataset):
    """The records of CSV files, as tuples, as ``tf.data.experimental.CsvDataset``."""

    def __init__(
        self,
        filenames: Any,
        record_defaults: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        header: Any = False,
        field_delim: Any = ",",
        use_quote_delim: Any = True,
        na_value: Any = "",
        select_cols: Any = None,
        exclude_cols: Any = None,
    ):
        super().__init__(
            data.experimental.CsvDataset(
                static(unwrap(filenames)),
                [_default(default) for default in record_defaults],
                compression_type=static(compression_type),
                header=bool(static(header)),
                field_delim=static(field_delim),
                use_quote_delim=bool(static(use_quote_delim)),
                na_value=static(na_value),
                select_cols=static(select_cols),
                exclude_cols=static(exclude_cols),
            )
        )


RowsOfCsvFiles.__name__ = RowsOfCsvFiles.__qualname__ = "CsvDataset"


def make_csv_dataset(
    file_pattern: Any, batch_size: Any, *args: Any, **kwargs: Any
) -> TensorDataset:
    """Batches of the records of CSV files, as dicts, and labels if ``label_name`` is given."""
    given = list(args)
    if len(given) > 1 and given[1] is not None:
        given[1] = [_default(each) for each in given[1]]
    if kwargs.get("column_defaults") is not None:
        kwargs["column_defaults"] = [_default(each) for each in kwargs["column_defaults"]]
    kwargs.pop("name", None)
    pattern, size = static(unwrap(file_pattern)), static(batch_size)
    return TensorDataset(experimental.make_csv_dataset(pattern, size, *given, **kwargs))


def counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> TensorDataset:
    """Numbers without an end."""
    return TensorDataset.counter(start, step, dtype)


def random_dataset(
    seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None
) -> TensorDataset:
    """Random numbers without an end."""
    return TensorDataset.random(seed, rerandomize_each_iteration, name)


def cardinality(dataset: Any) -> Tensor:
    """The number of elements."""
    return dataset.cardinality()


def from_list(elements: Any, name: str | None = None) -> TensorDataset:
    """The elements of a list, which may be nested, side by side.

    Raises:
        ValueError: there is none.
    """
    if not elements:
        raise ValueError("Invalid `elements`. `elements` should not be empty.")
    first = elements[0]

    def column(path: tuple[Any, ...]) -> list[Any]:
        found = []
        for element in elements:
            for key in path:
                element = element[key]
            found.append(element)
        return found

    def columns(value: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(value, tuple):
            return tuple(columns(each, (*path, i)) for i, each in enumerate(value))
        if isinstance(value, dict):
            return {key: columns(each, (*path, key)) for key, each in value.items()}
        return column(path)

    return TensorDataset.from_tensor_slices(columns(first, ()))


def get_single_element(dataset: Any) -> Any:
    """The element of a dataset of one."""
    return dataset.get_single_element()


def get_next_as_optional(iterator: TensorIterator) -> OptionalValue:
    """The next element of an iterator, or an empty value."""
    return iterator.get_next_as_optional()


def get_structure(dataset_or_iterator: Any) -> Any:
    """The specs of the elements."""
    return dataset_or_iterator.element_spec


def save(dataset: Any, path: Any, **options: Any) -> None:
    """Write a dataset to a directory."""
    dataset.save(path, **options)


def _method(method: str) -> Callable[..., Transformation]:
    """A method of datasets, as a function for ``apply``."""

    def transformation(*args: Any, **kwargs: Any) -> Transformation:
        return lambda dataset: getattr(dataset, method)(*args, **kwargs)

    transformation.__name__ = transformation.__qualname__ = method
    transformation.__doc__ = f"`Dataset.{method}`, for ``Dataset.apply``."
    return transformation


assert_cardinality = _method("assert_cardinality")
bucket_by_sequence_length = _method("bucket_by_sequence_length")
dense_to_ragged_batch = _method("ragged_batch")
enumerate_dataset = _method("enumerate")
group_by_window = _method("group_by_window")
ignore_errors = _method("ignore_errors")
rejection_resample = _method("rejection_resample")
scan = _method("scan")
snapshot = _method("snapshot")
take_while = _method("take_while")
unbatch = _method("unbatch")
unique = _method("unique")


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """A map, and batches of what it gives."""

    def transformation(dataset: Any) -> Any:
        mapped = dataset.map(map_func, num_parallel_calls=num_parallel_calls)
        return mapped.batch(batch_size, drop_remainder=bool(static(drop_remainder)))

    return transformation


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: bool | None = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """An interleave whose datasets are read in parallel."""
    return lambda dataset: dataset.interleave(
        map_func,
        cycle_length,
        block_length,
        num_parallel_calls=data.AUTOTUNE,
        deterministic=None if sloppy is None else not sloppy,
    )


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """Elements in random order, again and again."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Transformation:
    """Elements where they are: drumline's steps place what they take."""
    return lambda dataset: dataset


def prefetch_to_device(device: str, buffer_size: Any = None) -> Transformation:
    """Elements prepared ahead of time."""
    return lambda dataset: dataset.prefetch(data.AUTOTUNE if buffer_size is None else buffer_size)


class RecordWriter:
    """Writes the strings of a dataset to a TFRecord file.

    Args:
        filename: the file.
        compression_type: ``"GZIP"``, ``"ZLIB"``, or nothing.
    """

    def __init__(self, filename: Any, compression_type: Any = None):
        self._writer = experimental.TFRecordWriter(static(filename), static(compression_type))

    def write(self, dataset: Any) -> None:
        """Write the records."""
        self._writer.write(unwrap(dataset))


RecordWriter.__name__ = RecordWriter.__qualname__ = "TFRecordWriter"


def choose_from_datasets(
    datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = False
) -> TensorDataset:
    """Elements of the datasets whose numbers another one gives; empty ones are left out."""
    return TensorDataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Any, weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False
) -> TensorDataset:
    """Elements of datasets that are chosen at random."""
    return TensorDataset.sample_from_datasets(
        datasets, weights, seed, stop_on_empty_dataset=stop_on_empty_dataset
    )
