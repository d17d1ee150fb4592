"""`Dataset`: a plan of operations, with one method for each, as ``tf.data.Dataset`` names them.

Methods check their arguments and return a dataset over a larger plan; nothing runs before a dataset
is iterated, but for functions, which are traced when they are given. What methods share, and what
is long, is in ``drumline.data._dataset``.

The examples take these imports for granted, and run as tests:

    import drumline as dl
    import numpy as np
"""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from drumline._lazy import jax
from drumline.data._dataset import sampling, storing
from drumline.data._dataset.files import tables_plan
from drumline.data._dataset.functions import (
    build_over,
    build_predicate,
    build_recurrence_over,
    without_key,
)
from drumline.data._dataset.nesting import (
    bucket,
    build_dataset_function,
    group,
    window_size_of,
)
from drumline.data._dataset.padding import check_arrays, fillers, shapes_of
from drumline.data._dataset.placement import device_of, distribution
from drumline.data._dataset.storing import reduced
from drumline.data.elements.arrow import arrow_columns
from drumline.data.elements.spec import AUTOTUNE, INFINITE, as_dtype, flatten
from drumline.data.engine.explain import Explanation, explain
from drumline.data.engine.iterator import DatasetIterator, Epochs
from drumline.data.engine.observe.profile import Profile
from drumline.data.engine.observe.profiling import run_profile
from drumline.data.engine.random_access import element_at, no_access, obstacle
from drumline.data.functions.recurrence import fold
from drumline.data.functions.trace import UserFunction
from drumline.data.operations.batch import Batch, PaddedBatch, RaggedBatch, Rebatch, Unbatch
from drumline.data.operations.checks import (
    AssertCardinality,
    ErrorCount,
    IgnoreErrors,
    Scan,
    TakeWhile,
    Unique,
)
from drumline.data.operations.combine import Concatenate, Zip, concatenated_spec
from drumline.data.operations.filter import Filter
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.nested.windows import Window
from drumline.data.operations.numbering import Enumerate
from drumline.data.operations.ordering.order import (
    GLOBAL,
    SHARD_HINT,
    GlobalShuffle,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
)
from drumline.data.operations.packing import Pack
from drumline.data.operations.prefetch import Prefetch, PrefetchToDevice
from drumline.data.operations.reading import constructors
from drumline.data.operations.reading.huggingface import huggingface, is_huggingface
from drumline.data.operations.reading.sources import Counter, Random
from drumline.data.options import BaseDataset, Options, merged_options, named, set_dataset_class
from drumline.data.plan.node import (
    Node,
    check_deterministic,
    check_rows,
    count_of,
    parallel_calls,
    seed_of,
    shuffle_buffer,
)
from drumline.data.rewrite.fingerprint import fingerprint_of
from drumline.data.runtime.meter import Observation
from drumline.data.storage.files.remote import as_paths, matching
from drumline.data.storage.saved import by_turns, dataset_of
from drumline.data.workers.remote.cluster import ShardingPolicy
from drumline.data.workers.service.ray_service import RayService

CYCLE_LENGTH = 16
"""How many datasets ``interleave`` keeps open by default; the same on every machine."""

DEVICE_BUFFER = 2
"""How many elements ``prefetch_to_device`` copies ahead by default."""

PROFILE_SECONDS = 10.0
"""For how long ``profile`` runs by default."""

_OVERLONG = ("error", "truncate", "split")


class Dataset(BaseDataset):
    """A sequence of elements, described by an immutable plan; iterating runs it.

    Follows ``tf.data.Dataset``: every method returns a new dataset. Elements are the nested
    structures the user built (tuples, lists, dicts in their order, namedtuples) with numpy leaves,
    read-only and valid as long as they are referenced; strings are ``bytes``. What a dataset
    yields depends on the plan, its seeds and the epoch, never on threads or timing.

    A method's ``name`` argument titles its operation in ``explain()`` and has no other effect.
    ``seed=None`` draws a seed when the method is called, from Python's ``random``, which
    ``keras.utils.set_random_seed`` seeds.

    Datasets come from the class methods (`from_tensor_slices`, `from_generator`, `range`, ...) and
    from the readers of `drumline.data` (`TFRecordDataset`, `TextLineDataset`, ...).

    Args:
        plan: what the elements are made of. Users call the class methods instead.
        options: the options that were set.

    Raises:
        ValueError: if an operation follows ``prefetch_to_device``.

    Example:
        >>> images = np.zeros((1000, 28, 28), np.uint8)
        >>> dataset = (
        ...     dl.data.Dataset.from_tensor_slices((images, np.arange(1000) % 10))
        ...     .shuffle(1000, seed=1)
        ...     .map(lambda image, label: (image / 255, label))
        ...     .batch(32)
        ... )
        >>> image, label = next(iter(dataset))
        >>> image.shape, image.dtype, label.shape, label.dtype
        ((32, 28, 28), dtype('float32'), (32,), dtype('int64'))
    """

    def __init__(self, plan: Node, options: Options | None = None):
        super().__init__(plan, options)
        self._epochs: Epochs | None = None
        self._next_epoch = 0

    # Sources.

    @classmethod
    def from_tensor_slices(cls, tensors: Any, name: str | None = None) -> Self:
        """Make an element of each row of the arrays in ``tensors``, which are not copied.

        Follows ``tf.data.Dataset.from_tensor_slices``, which copies them: do not write into the
        arrays while a dataset reads them.

        Args:
            tensors: a nested structure of arrays (n, ...) of any dtype, or of lists of numbers,
                strings or datasets. Elements hold a dataset where a list of datasets is.
            name: shown by ``explain()``.

        Returns:
            A dataset of n elements with leaves (...), with random access.

        Raises:
            ValueError: if a leaf is a scalar or a dataset, or first dimensions differ.
            TypeError: if a leaf is no array of numbers or strings, or the datasets of a list have
                elements of different structures or dtypes.

        Example:
            >>> dataset = dl.data.Dataset.from_tensor_slices({"x": [1.0, 2.0], "y": ["a", "b"]})
            >>> [(float(row["x"]), row["y"]) for row in dataset]
            [(1.0, b'a'), (2.0, b'b')]
        """
        return cls(named(constructors.slices(tensors), name))

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> Self:
        """Make one element: ``tensors`` itself.

        Follows ``tf.data.Dataset.from_tensors``.

        Args:
            tensors: a nested structure of arrays, numbers, strings or datasets.
            name: shown by ``explain()``.

        Raises:
            TypeError: if a leaf is no array of numbers or strings.
            ValueError: if there is no leaf.

        Example:
            >>> print(*dl.data.Dataset.from_tensors(np.arange(3)))
            [0 1 2]
        """
        return cls(named(constructors.tensors(tensors), name))

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Self:
        """Yield what iterating over ``generator(*args)`` yields, called again in every epoch.

        Follows ``tf.data.Dataset.from_generator``, but checks each element: a number that does not
        fit, or a float for an integer signature, raises instead of being cast. An iterator's
        ``restore`` runs the generator again up to the position.

        Args:
            generator: a callable that returns an iterable.
            output_types: the older spelling of ``output_signature``: a nested structure of dtypes.
            output_shapes: the shapes of the leaves, in the same structure; with ``output_types``.
            args: arguments of the generator, which are passed to it as arrays.
            output_signature: a nested structure of ``TensorSpec``; a dimension of ``None`` varies.
            name: shown by ``explain()``.

        Raises:
            TypeError: if neither a signature nor types with shapes are given, or both are.
            ValueError: if the shapes do not have the structure of the types. While iterating, if an
                element does not fit the signature; the message has its index.

        Example:
            >>> def rows(n):
            ...     for i in range(int(n)):
            ...         yield np.full(i, i)
            >>> dataset = dl.data.Dataset.from_generator(
            ...     rows, args=(3,), output_signature=dl.data.TensorSpec([None], np.int64)
            ... )
            >>> print(*dataset)
            [] [1] [2 2]
        """
        signature = constructors.signature(output_types, output_shapes, output_signature)
        return cls(named(constructors.generator(generator, signature, args or ()), name))

    @classmethod
    def from_sequence(
        cls, sequence: Sequence[Any], output_signature: Any = None, name: str | None = None
    ) -> Self:
        """Yield ``sequence[0]`` to ``sequence[len(sequence) - 1]``, each made when asked for.

        Anything with ``len`` and integer indices: lists, map-style datasets of torch, Grain's data
        sources (datasets of Hugging Face have ``from_huggingface``). ``__getitems__`` is used where
        it is there. As access is random, a ``shuffle`` permutes positions, ``skip`` and ``shard``
        read nothing they leave out, and restoring an iterator takes no time. One thread at a time
        asks the sequence, and it must give the same element for the same index each time.

        Not in tf.data; Grain's ``MapDataset.source`` is alike.

        Args:
            sequence: of nested structures of arrays.
            output_signature: a nested structure of ``TensorSpec``; by default that of all
                items of a list or tuple, with ``None`` where their shapes differ, and else that of
                the first item, which then must fit all others.
            name: shown by ``explain()``.

        Raises:
            TypeError: if it has no length or no indices.
            ValueError: if it is empty and there is no ``output_signature``. While iterating, if an
                item has other shapes or dtypes; the message has its index.

        Example:
            >>> class Squares:
            ...     def __len__(self):
            ...         return 4
            ...     def __getitem__(self, i):
            ...         return {"x": i, "square": i * i}
            >>> [int(row["square"]) for row in dl.data.Dataset.from_sequence(Squares())]
            [0, 1, 4, 9]
        """
        return cls(named(constructors.items(sequence, output_signature), name))

    @classmethod
    def range(
        cls, *args: int, output_type: npt.DTypeLike = np.int64, name: str | None = None
    ) -> Self:
        """Yield the integers of Python's ``range(*args)``.

        Follows ``tf.data.Dataset.range``; a number that does not fit is an error.

        Args:
            args: ``stop``, or ``start, stop``, or ``start, stop, step``.
            output_type: the dtype of the scalar elements.
            name: shown by ``explain()``.

        Raises:
            TypeError: if there are not one to three integers, or ``output_type`` holds no numbers.
            ValueError: if an integer does not fit ``output_type``, or the step is zero.

        Example:
            >>> print(*dl.data.Dataset.range(1, 10, 3))
            1 4 7
        """
        return cls(named(constructors.integers(args, output_type), name))

    @classmethod
    def counter(
        cls,
        start: Any = 0,
        step: Any = 1,
        dtype: npt.DTypeLike = np.int64,
        name: str | None = None,
    ) -> Self:
        """Count from ``start`` in steps of ``step``, without end.

        Follows ``tf.data.Dataset.counter``.

        Args:
            start: the first number.
            step: added for each element; may be negative.
            dtype: of the scalar elements: integers or floating-point numbers.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``dtype`` is no integer or floating-point type.
            ValueError: if ``start`` or ``step`` is no integer, for an integer type.
            OverflowError: while iterating, when a number does not fit ``dtype``.

        Example:
            >>> print(*dl.data.Dataset.counter(start=10, step=-2).take(3))
            10 8 6
        """
        kind = as_dtype(dtype)
        if kind.kind not in "iuf":
            raise TypeError(f"counter: dtype must be a number type, not {kind}")
        given = []
        for value, what in ((start, "start"), (step, "step")):
            number = np.asarray(value).item()
            if kind.kind in "iu" and int(number) != number:
                raise ValueError(f"counter: {what} must be an integer for {kind}, got {value!r}")
            given.append(int(number) if kind.kind in "iu" else float(number))
        return cls(named(Counter((), given[0], given[1], kind), name))

    @classmethod
    def random(
        cls,
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Yield random int64 numbers, uniform from 0 to 2**32 - 1, without end.

        Follows ``tf.data.Dataset.random``, with other numbers: each is a function of the seed and
        its position, so that any can be had without the others.

        Args:
            seed: what the numbers follow from; ``None`` draws one now.
            rerandomize_each_iteration: whether each epoch, and each pass of a ``repeat``, has other
                numbers; by default not.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``seed`` is no integer.

        Example:
            >>> numbers = list(dl.data.Dataset.random(seed=7).take(100))
            >>> numbers == list(dl.data.Dataset.random(seed=7).take(100))
            True
        """
        drawn = seed_of(seed, "random")
        return cls(named(Random((), drawn, bool(rerandomize_each_iteration)), name))

    @classmethod
    def list_files(
        cls,
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Yield the paths, as ``bytes``, of the files that match now.

        Follows ``tf.data.Dataset.list_files``.

        Args:
            file_pattern: a pattern or a list of them: ``*`` and ``?`` stand for any characters and
                one character of a name, ``[...]`` for one of some. A pattern may have a scheme, as
                filenames of ``TFRecordDataset``.
            shuffle: whether they come in a random order, a new one each epoch; true by default.
                Otherwise they are sorted.
            seed: of that order; ``None`` draws one now.
            name: shown by ``explain()``.

        Raises:
            FileNotFoundError: if no file matches.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     for day in "ab":
            ...         _ = pathlib.Path(directory, f"{day}.txt").write_text("")
            ...     files = dl.data.Dataset.list_files(f"{directory}/*.txt", shuffle=False)
            ...     [path[-5:] for path in files]
            [b'a.txt', b'b.txt']
        """
        paths = matching(as_paths(file_pattern, "list_files"))
        files = cls(named(constructors.slices(np.array(paths, dtype=object)), name))
        if shuffle is not None and not shuffle:
            return files
        drawn = seed_of(seed, "list_files")
        return files._with(Shuffle((files._plan,), len(paths), drawn, True), name)

    @classmethod
    def from_arrow(cls, table: Any, name: str | None = None) -> Self:
        """Yield the rows of a table: dicts by column name.

        Numbers are not copied where the table holds a column in one piece. Strings become
        ``bytes``, dictionary columns their values, lists of one length arrays, lists of various
        lengths rows of a ``RaggedArray``, structs dicts.

        Not in tf.data.

        Args:
            table: a ``pyarrow.Table``, or anything with ``__arrow_c_stream__``: a data frame of
                pandas (2.2 or later) or Polars, a DuckDB relation, a ``RecordBatchReader``. A
                dataset of Hugging Face is read as by ``from_huggingface``.
            name: shown by ``explain()``.

        Raises:
            TypeError: if it is no table, or a column's type (a timestamp, a decimal) is none of
                these.
            ValueError: if a column has nulls.

        Example:
            >>> import pyarrow
            >>> table = pyarrow.table({"age": [31, 45], "name": ["Ada", "Max"]})
            >>> [(int(row["age"]), row["name"]) for row in dl.data.Dataset.from_arrow(table)]
            [(31, b'Ada'), (45, b'Max')]
        """
        if is_huggingface(table):
            return cls(named(huggingface(table, None, "from_arrow"), name))
        return cls(named(constructors.slices(arrow_columns(table)), name))

    @classmethod
    def from_huggingface(
        cls, dataset: Any, output_signature: Any = None, name: str | None = None
    ) -> Self:
        """Yield the rows of a dataset of Hugging Face's package ``datasets``.

        Rows are read through the dataset's indices, so that the parts of ``train_test_split``, and
        what ``select``, ``shuffle`` and ``filter`` leave, are the rows that indexing gives. (The
        Arrow table below, ``dataset.data.table``, holds all of them.) Elements are dicts of the
        features' dtypes: strings are ``bytes``, a ``ClassLabel`` int64, ``Array2D`` and lists of
        one length arrays, lists of various lengths ragged, structs dicts, lists of structs dicts of
        lists. An ``Image`` is decoded to uint8 (height, width, channels), of the first image's
        channels: ``datasets.Image(mode="RGB")`` makes all alike. Files that the dataset does not
        decode (``Image(decode=False)``, ``Audio(decode=False)``) are dicts of ``bytes`` and
        ``path``, empty where there is none.

        A ``Dataset`` has random access: ``shuffle`` and ``shuffle(GLOBAL)`` permute positions, and
        restoring takes no time. Up to 64 MB become arrays in memory; more is read a block at a
        time, by one thread. An ``IterableDataset`` is read as ``from_generator`` reads, from its
        beginning in each epoch.

        Of a format (``with_format``, ``set_format``) the columns count; the dtypes are the
        features'. With a transform, or a format with options (``dtype=...``), elements are what
        indexing gives, as in ``from_sequence``.

        Not in tf.data; ``datasets.Dataset.to_tf_dataset`` is the way there.

        Args:
            dataset: a ``Dataset`` or ``IterableDataset``; of a ``DatasetDict`` one split.
            output_signature: a nested structure of ``TensorSpec`` that all rows fit, for instance
                for the size of images; by default it follows from the features.
            name: shown by ``explain()``.

        Raises:
            TypeError: if it is no such dataset, or a feature is not decoded to an array (``Audio``,
                ``Video``); the message says how to give it.
            ValueError: if a column has nulls, or a stream's features are not known.

        Example:
            >>> import datasets
            >>> given = datasets.Dataset.from_dict({"text": ["good", "bad"], "label": [1, 0]})
            >>> train = dl.data.Dataset.from_huggingface(given)
            >>> [(row["text"], int(row["label"])) for row in train]
            [(b'good', 1), (b'bad', 0)]
        """
        return cls(named(huggingface(dataset, output_signature, "from_huggingface"), name))

    @classmethod
    def from_parquet(
        cls,
        filenames: Any,
        columns: Sequence[str] | None = None,
        default_values: Mapping[str, Any] | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Yield the rows of Parquet files: dicts by column name, as of ``from_arrow``.

        Files are read a piece at a time, of about 8 MB or less where several are read by turns or
        ``autotune.ram_budget`` is small: part of a row group, or several small ones. Arrow's
        threads share the columns of a piece, unless ``autotune.cpu_budget`` is given. An iterator's
        ``restore`` goes to the row group at once. A file that cannot be read, or has other types
        than the first, raises in its place; the next file follows. So does a row with a null; the
        next row follows.

        Not in tf.data; TensorFlow I/O's ``IODataset.from_parquet`` is alike.

        Args:
            filenames: a path, a list of paths, or a dataset of them; paths may have a scheme, as
                those of ``TFRecordDataset``. The first file must be there: it tells the columns.
            columns: names of those to read, in the order of the dicts; all unless given.
            default_values: by column, what stands for a null.
            num_parallel_reads: as of ``TFRecordDataset``.
            name: shown by ``explain()``.

        Raises:
            OSError: if the first file cannot be opened.
            ValueError: if it is no Parquet file, or lacks a column; if a default does not fit its
                column.
            TypeError: if a column's type (a timestamp, a decimal) is none of a dataset.

        Example:
            >>> import pyarrow, tempfile
            >>> from pyarrow import parquet
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     path = f"{directory}/people.parquet"
            ...     parquet.write_table(pyarrow.table({"age": [31, None], "id": [7, 8]}), path)
            ...     people = dl.data.Dataset.from_parquet(path, ["age"], {"age": -1})
            ...     [int(row["age"]) for row in people]
            [31, -1]
        """
        return cls(
            *tables_plan(
                "from_parquet",
                "parquet",
                filenames,
                columns,
                default_values,
                num_parallel_reads,
                name,
            )
        )

    @classmethod
    def from_arrow_ipc(
        cls,
        filenames: Any,
        columns: Sequence[str] | None = None,
        default_values: Mapping[str, Any] | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Yield the rows of files in Arrow's formats: file (Feather) and stream.

        As ``from_parquet``, with record batches in the place of row groups, which are read whole,
        as large as they were written (by ``max_chunksize`` of pyarrow's writers). A stream is read
        again up to the batch when an iterator is restored.

        Not in tf.data; TensorFlow I/O's ``ArrowFeatherDataset`` is alike.

        Args:
            filenames: as of ``from_parquet``, like the arguments that follow.
            columns: names of those to read.
            default_values: by column, what stands for a null.
            num_parallel_reads: as of ``TFRecordDataset``.
            name: shown by ``explain()``.

        Raises:
            OSError: if the first file cannot be opened.
            ValueError: if it is no file of Arrow's, or lacks a column; if a default does not fit
                its column.
            TypeError: if a column's type is none of a dataset.

        Example:
            >>> import pyarrow, tempfile
            >>> from pyarrow import feather
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     path = f"{directory}/numbers.feather"
            ...     feather.write_feather(pyarrow.table({"x": [0.5, 1.5]}), path)
            ...     [float(row["x"]) for row in dl.data.Dataset.from_arrow_ipc(path)]
            [0.5, 1.5]
        """
        return cls(
            *tables_plan(
                "from_arrow_ipc",
                "arrow",
                filenames,
                columns,
                default_values,
                num_parallel_reads,
                name,
            )
        )

    # Element by element.

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Self:
        """Apply a function to every element; a tuple is spread over its arguments.

        The function is traced now and compiled for blocks of elements. One that cannot be traced,
        or depends on outside state, runs as Python with numpy leaves; ``explain()`` says why.

        Follows ``tf.data.Dataset.map``. Dtypes are JAX's (32 bits unless 64 are asked for), results
        come in order whatever ``deterministic`` says, and Python functions need no wrapper.

        Args:
            map_func: takes an element, returns a nested structure of arrays.
            num_parallel_calls: how many workers call the function, or ``AUTOTUNE``, which finds a
                number while the dataset runs; by default compiled functions are parallelized by
                the optimizer and Python functions run in order, as elements are asked for. With
                several workers the input is read ahead of what was asked, by two tasks for each; a
                task is one element, or as many as take 20 ms.
            deterministic: ``False`` says that no worker should wait for a slow element, for which
                ``tf.data`` lets others overtake it. Here results come in order all the same, and
                the input is read further ahead: by 32 tasks for each worker, if memory allows.
                By default as ``options.deterministic`` says.
            synchronous: whether the optimizer must leave it to the thread that asks for elements.
            use_unbounded_threadpool: whether its workers are not among the threads of
                ``options.threading.private_threadpool_size``, which all other maps share: for
                functions that wait.
            name: shown by ``explain()``.

        Raises:
            ValueError: if ``synchronous`` and ``num_parallel_calls`` are both given.
            Exception: what the function itself raises for the first element. For a later element
                it is raised when that element's turn comes, with the index in a note.

        Example:
            >>> pairs = dl.data.Dataset.from_tensor_slices((np.arange(3), np.arange(3) * 10))
            >>> print(*pairs.map(lambda x, y: x + y))
            0 11 22
        """
        check_deterministic(deterministic, "map")
        workers = parallel_calls(num_parallel_calls, "map")
        if synchronous and workers is not None:
            raise ValueError(
                f"map: synchronous=True and num_parallel_calls={num_parallel_calls} exclude each "
                "other"
            )
        plan, built = build_over(self._plan, map_func, "map")
        label = UserFunction(map_func, "map").name
        made = Map(
            (plan,),
            built,
            label,
            1 if synchronous else workers,
            bool(use_unbounded_threadpool),
            deterministic,
        )
        return self._with(made, name)

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Self:
        """Apply a function of a state and each element, which returns a new state and a result.

        The function is compiled as a loop over blocks of elements where it can be traced; else it
        runs as Python, and ``explain()`` says why. The state is part of ``iterator.state()``.

        Follows ``tf.data.Dataset.scan``.

        Args:
            initial_state: a nested structure of arrays.
            scan_func: ``scan_func(state, element)`` returns ``(new_state, result)``; the new state
                has the structure and the dtypes of the initial one.
            name: shown by ``explain()``.

        Returns:
            A dataset of the results.

        Raises:
            TypeError: if the new state has another structure or other dtypes.
            ValueError: if the initial state holds no arrays.

        Example:
            >>> numbers = dl.data.Dataset.range(1, 5)
            >>> print(*numbers.scan(np.int64(0), lambda total, x: (total + x, total + x)))
            1 3 6 10
        """
        plan, initial, _, built = build_recurrence_over(
            self._plan, initial_state, scan_func, "scan"
        )
        label = UserFunction(scan_func, "scan").name
        texts = [f"{leaf.dtype}{leaf.tolist()}" for leaf in initial]
        digest = hashlib.sha256(f"{built.state.structure}{texts}".encode()).hexdigest()[:8]
        return self._with(Scan((plan,), built, label, digest), name)

    def enumerate(self, start: int = 0, name: str | None = None) -> Self:
        """Pair each element with its number.

        Follows ``tf.data.Dataset.enumerate``.

        Args:
            start: the first number.
            name: shown by ``explain()``.

        Returns:
            A dataset of pairs ``(number, element)`` with int64 scalars as numbers.

        Raises:
            TypeError: if ``start`` is no integer.

        Example:
            >>> letters = dl.data.Dataset.from_tensor_slices(["a", "b"])
            >>> [(int(i), letter) for i, letter in letters.enumerate(start=5)]
            [(5, b'a'), (6, b'b')]
        """
        number = count_of(start, "enumerate", "start")
        return self._with(Enumerate((self._plan,), number), name)

    # What comes, and in which order.

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """Retain the elements for which ``predicate`` returns true.

        Follows ``tf.data.Dataset.filter``. The predicate is compiled as in ``map``.

        Args:
            predicate: takes an element, returns one bool.
            name: shown by ``explain()``.

        Raises:
            TypeError: if it does not return one bool.
            Exception: what it raises for the first element; for a later one in its place.

        Example:
            >>> print(*dl.data.Dataset.range(6).filter(lambda x: x % 2 == 0))
            0 2 4
        """
        plan, built, label = build_predicate(self._plan, predicate, "filter")
        passed = self._with(Filter((plan,), built, label), name)
        return passed if plan is self._plan else passed.map(without_key)

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """Yield the elements before the first for which ``predicate`` returns false.

        Follows ``tf.data.Dataset.take_while``. The predicate is compiled as in ``map``.

        Args:
            predicate: takes an element, returns one bool.
            name: shown by ``explain()``.

        Raises:
            TypeError: if it does not return one bool.
            Exception: what it raises for the first element; for a later one in its place.

        Example:
            >>> print(*dl.data.Dataset.range(10).take_while(lambda x: x < 3))
            0 1 2
        """
        plan, built, label = build_predicate(self._plan, predicate, "take_while")
        taken = self._with(TakeWhile((plan,), built, label), name)
        return taken if plan is self._plan else taken.map(without_key)

    def take(self, count: int, name: str | None = None) -> Self:
        """Yield the first ``count`` elements; nothing past them is ever read.

        Follows ``tf.data.Dataset.take``; counts below -1 are errors.

        Args:
            count: how many, or -1 for all.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``count`` is no integer.
            ValueError: if ``count`` is below -1.

        Example:
            >>> print(*dl.data.Dataset.range(10).take(3))
            0 1 2
        """
        number = count_of(count, "take", "count", least=-1)
        return self if number == -1 else self._with(Take((self._plan,), number), name)

    def skip(self, count: int, name: str | None = None) -> Self:
        """Leave out the first ``count`` elements.

        Follows ``tf.data.Dataset.skip``; counts below -1 are errors.

        Args:
            count: how many, or -1 for all.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``count`` is no integer.
            ValueError: if ``count`` is below -1.

        Example:
            >>> print(*dl.data.Dataset.range(5).skip(3))
            3 4
        """
        number = count_of(count, "skip", "count", least=-1)
        if number == -1:
            return self._with(Take((self._plan,), 0), name)
        return self._with(Skip((self._plan,), number), name)

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Self:
        """Yield every ``num_shards``-th element, from the one at ``index`` on: one worker's share.

        Shard before a ``shuffle``, so that the shards are disjoint, and before what costs much.
        ``experimental.SHARD_HINT`` for both lets a strategy of several processes shard here
        (`AutoShardPolicy.HINT`); without one nothing is left out.

        Follows ``tf.data.Dataset.shard``; what fails in another shard is not raised.

        Args:
            num_shards: how many shards there are.
            index: which one, from 0.
            name: shown by ``explain()``.

        Raises:
            TypeError: if a number is no integer.
            ValueError: if ``num_shards`` is not positive, or ``index`` is not below it.

        Example:
            >>> print(*dl.data.Dataset.range(8).shard(num_shards=3, index=1))
            1 4 7
        """
        if num_shards == index == SHARD_HINT:
            return self._with(Shard((self._plan,), num_shards, index), name)
        number = count_of(num_shards, "shard", "num_shards", least=1)
        position = count_of(index, "shard", "index", least=0)
        if position >= number:
            raise ValueError(f"shard: index must be between 0 and {number - 1}, got {position}")
        return self._with(Shard((self._plan,), number, position), name)

    def shuffle(
        self,
        buffer_size: int | str,
        seed: int | None = None,
        reshuffle_each_iteration: bool = True,
        name: str | None = None,
    ) -> Self:
        """Draw each element at random from a buffer of the next ``buffer_size``.

        Over a random-access source the buffer holds positions, not elements.

        Follows ``tf.data.Dataset.shuffle``, with other orders: one follows from the seed and the
        epoch of the dataset that is iterated.

        Args:
            buffer_size: in elements; one at least as large as the dataset gives a uniform order.
                ``dl.data.UNKNOWN_CARDINALITY`` is one that holds all elements: ``cardinality()``
                may be given as it is. ``dl.data.GLOBAL`` permutes all elements of a random-access
                dataset by a formula, without memory for them.
            seed: the order depends on it and on the epoch. ``None`` draws one now.
            reshuffle_each_iteration: whether each epoch (and each pass of a ``repeat``) differs.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``buffer_size`` is ``GLOBAL`` and there is no random access; the message
                names the operation that prevents it.
            ValueError: if ``buffer_size`` is not positive, or that of all elements of a dataset
                that never ends.

        Example:
            >>> dataset = dl.data.Dataset.range(5).shuffle(5, seed=3)
            >>> first, second = list(dataset), list(dataset)
            >>> first != second, sorted(first) == sorted(second)
            (True, True)
        """
        everything = buffer_size == GLOBAL
        if everything and obstacle(self._plan) is not None:
            raise TypeError(f"shuffle(GLOBAL): {no_access(self._plan)}")
        if everything and self._plan.cardinality == INFINITE:
            raise ValueError(
                "shuffle(GLOBAL): the dataset never ends; take(n) of it, or shuffle it "
                "before repeat()"
            )
        size = 0 if everything else shuffle_buffer(buffer_size, self._plan.cardinality)
        drawn = seed_of(seed, "shuffle")
        reshuffle = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        kind = GlobalShuffle if everything else Shuffle
        return self._with(kind((self._plan,), size, drawn, reshuffle), name)

    def repeat(self, count: int | None = None, name: str | None = None) -> Self:
        """Pass over the dataset ``count`` times.

        Follows ``tf.data.Dataset.repeat``; counts below -1 are errors.

        Args:
            count: how many times; ``None`` or -1 never ends.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``count`` is no integer.
            ValueError: if ``count`` is below -1.

        Example:
            >>> print(*dl.data.Dataset.range(2).repeat(3))
            0 1 0 1 0 1
        """
        number = None if count is None else count_of(count, "repeat", "count", least=-1)
        return self._with(Repeat((self._plan,), None if number == -1 else number), name)

    def unique(self, name: str | None = None) -> Self:
        """Leave out elements that came before.

        All different elements are held in memory, and restoring an iterator reads the input again.

        Follows ``tf.data.Dataset.unique``, for more types.

        Args:
            name: shown by ``explain()``.

        Raises:
            TypeError: if elements are not one array of integers, bools or strings.

        Example:
            >>> print(*dl.data.Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique())
            1 37 2
        """
        (leaf, *more) = self._plan.spec.leaves
        if more or not (leaf.is_string or leaf.dtype.kind in "iub"):
            raise TypeError(
                "unique takes elements that are one array of integers, bools or strings, they are "
                f"{self.element_spec}; map them to a key first"
            )
        return self._with(Unique((self._plan,)), name)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Self:
        """Leave out elements that could not be made; `ignored_errors` counts them.

        Follows ``tf.data.Dataset.ignore_errors``.

        Args:
            log_warning: whether each is logged, as a warning of the logger ``drumline.data``.
            name: shown by ``explain()``.

        Example:
            >>> ratios = dl.data.Dataset.from_tensor_slices([1, 0, 5]).map(lambda x: 10 // x)
            >>> print(*ratios.ignore_errors())
            10 2
        """
        count = ErrorCount()
        return self._with(IgnoreErrors((self._plan,), bool(log_warning), count), name)

    def assert_cardinality(self, expected_cardinality: int, name: str | None = None) -> Self:
        """State how many elements there are: known from then on, and checked as they come.

        Follows ``tf.data.experimental.assert_cardinality``.

        Args:
            expected_cardinality: a number or ``INFINITE_CARDINALITY``.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``expected_cardinality`` is no integer.
            ValueError: if it is no number of elements. While iterating, where it shows that there
                are fewer or more.

        Example:
            >>> even = dl.data.Dataset.range(10).filter(lambda x: x % 2 == 0)
            >>> even.cardinality() == dl.data.UNKNOWN_CARDINALITY, len(even.assert_cardinality(5))
            (True, 5)
        """
        expected = operator.index(expected_cardinality)
        if expected < INFINITE:
            raise ValueError(f"assert_cardinality: no number of elements: {expected}")
        return self._with(AssertCardinality((self._plan,), expected), name)

    # Batches.

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Stack ``batch_size`` consecutive elements; the last batch may be shorter.

        Follows ``tf.data.Dataset.batch``; batches always come in order.

        Args:
            batch_size: how many elements make one.
            drop_remainder: whether a last, shorter batch is left out. The first dimension is then
                known in ``element_spec``.
            num_parallel_calls: a thread makes up to so many batches ahead, ``AUTOTUNE`` as many as
                memory allows. Without it a batch is made when it is asked for.
            deterministic: accepted as in ``tf.data``, without effect.
            name: shown by ``explain()``.

        Returns:
            A dataset whose leaves have the dtypes of this one's and shapes (``batch_size``, ...).

        Raises:
            ValueError: if ``batch_size`` is not positive. While iterating, if elements of a batch
                differ in shape; the message has the element's index.

        Example:
            >>> print(*dl.data.Dataset.range(5).batch(2))
            [0 1] [2 3] [4]
            >>> print(*dl.data.Dataset.range(5).batch(2, drop_remainder=True))
            [0 1] [2 3]
        """
        check_deterministic(deterministic, "batch")
        size = count_of(batch_size, "batch", "batch_size", least=1)
        made = self._with(Batch((self._plan,), size, bool(drop_remainder)), name)
        if num_parallel_calls is None:
            return made
        ahead = None
        if num_parallel_calls != AUTOTUNE:
            ahead = count_of(num_parallel_calls, "batch", "num_parallel_calls", least=1)
        return made._with(Prefetch((made._plan,), ahead))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Pad elements at the ends of their dimensions and stack ``batch_size`` of them.

        Follows ``tf.data.Dataset.padded_batch``.

        Args:
            batch_size: how many elements make one.
            padded_shapes: a shape for each leaf, in the structure of the elements; ``None`` or -1
                in it is as long as the longest of the batch. By default the shapes of the spec.
            padding_values: what to pad with: a number or string for all leaves, or one for each
                in their structure, where ``None`` is 0, false or ``b""`` for a leaf, or for all
                leaves of a part of the structure.
            drop_remainder: whether a last, shorter batch is left out.
            name: shown by ``explain()``.

        Returns:
            A dataset whose leaves have the dtypes of this one's and shapes (``batch_size``, padded
            shape).

        Raises:
            ValueError: if a shape has another number of dimensions than its leaf, or a known
                dimension is longer. While iterating, if an element is longer than its shape.
            TypeError: if a padding value is not of its leaf's type, or a leaf is a dataset or a
                ragged array.

        Example:
            >>> rows = dl.data.Dataset.from_sequence([[1], [2, 3], [4, 5, 6]])
            >>> for batch in rows.padded_batch(2, padding_values=-1):
            ...     print(batch.tolist())
            [[1, -1], [2, 3]]
            [[4, 5, 6]]
        """
        size = count_of(batch_size, "padded_batch", "batch_size", least=1)
        spec = self._plan.spec
        check_arrays(spec.leaves, "padded_batch")
        shapes = shapes_of(spec, padded_shapes)
        values = fillers(spec, padding_values, "padded_batch")
        drop = bool(drop_remainder)
        return self._with(PaddedBatch((self._plan,), size, drop, shapes, tuple(values)), name)

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: npt.DTypeLike = np.int64,
        name: str | None = None,
    ) -> Self:
        """Stack ``batch_size`` elements; leaves that vary in shape become a `RaggedArray`.

        Follows ``tf.data.Dataset.ragged_batch``; row splits are always int64.

        Args:
            batch_size: how many elements make one.
            drop_remainder: whether a last, shorter batch is left out.
            row_splits_dtype: int64.
            name: shown by ``explain()``.

        Raises:
            ValueError: if ``batch_size`` is not positive, or ``row_splits_dtype`` is another type.
            TypeError: if a leaf is a dataset or a ragged array.

        Example:
            >>> rows = dl.data.Dataset.from_sequence([[1], [2, 3], [4, 5, 6]])
            >>> for batch in rows.ragged_batch(2):
            ...     print(batch.to_list())
            [[1], [2, 3]]
            [[4, 5, 6]]
        """
        size = count_of(batch_size, "ragged_batch", "batch_size", least=1)
        check_arrays(self._plan.spec.leaves, "ragged_batch")
        if np.dtype(row_splits_dtype) != np.int64:
            raise ValueError(f"ragged_batch: row splits are int64, not {row_splits_dtype!r}")
        return self._with(RaggedBatch((self._plan,), size, bool(drop_remainder)), name)

    def unbatch(self, name: str | None = None) -> Self:
        """Yield the rows of each element's leaves as elements.

        Follows ``tf.data.Dataset.unbatch``.

        Args:
            name: shown by ``explain()``.

        Returns:
            A dataset whose leaves lack the first dimension of this one's.

        Raises:
            ValueError: if a leaf is a scalar, or first dimensions are known to differ.

        Example:
            >>> print(*dl.data.Dataset.range(5).batch(2).unbatch())
            0 1 2 3 4
        """
        check_rows(self._plan.spec, "unbatch")
        return self._with(Unbatch((self._plan,), operation="unbatch"), name)

    def rebatch(
        self,
        batch_size: int | Sequence[int],
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Split batches into rows and stack these to batches of other sizes.

        Follows ``tf.data.Dataset.rebatch``.

        Args:
            batch_size: how many rows make one; several numbers take turns, and 0 among them makes
                a batch without rows.
            drop_remainder: whether a last, shorter batch is left out.
            name: shown by ``explain()``.

        Raises:
            ValueError: if a size is negative, none is positive, or elements have no rows (see
                ``unbatch``).

        Example:
            >>> print(*dl.data.Dataset.range(7).batch(4).rebatch([1, 2]))
            [0] [1 2] [3] [4 5] [6]
        """
        given: Any = batch_size
        sizes = [given] if np.ndim(given) == 0 else list(given)
        if not sizes:
            raise ValueError("rebatch: batch_size must be a number, or at least one in a list")
        least = 0 if len(sizes) > 1 else 1
        counts = tuple(count_of(size, "rebatch", "batch_size", least) for size in sizes)
        if not any(counts):
            raise ValueError(
                f"rebatch: batches of {list(counts)} rows never end; one must have some"
            )
        check_rows(self._plan.spec, "rebatch")
        rows = self._with(Unbatch((self._plan,), operation="rebatch"))
        known = {leaf.shape[0] for leaf in self._plan.spec.leaves} - {None}
        each = known.pop() if known else None
        plan = Rebatch((rows._plan,), counts, bool(drop_remainder), each)
        return self._with(plan, name)

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Gather elements whose lengths lie between the same boundaries into padded batches.

        Follows ``tf.data.Dataset.bucket_by_sequence_length``.

        Args:
            element_length_func: takes an element, returns its length, an integer.
            bucket_boundaries: ascending; a bucket's elements are shorter than its boundary.
            bucket_batch_sizes: how many elements make a batch, for each bucket; one more than there
                are boundaries, the last for elements of the last boundary's length and longer.
            padded_shapes: as of ``padded_batch``.
            padding_values: as of ``padded_batch``.
            pad_to_bucket_boundary: whether dimensions that vary are padded to the bucket's boundary
                less one, rather than to the longest of the batch. Elements that fall into the last
                bucket, which has no boundary, then raise.
            no_padding: whether elements, which must be of one shape, are stacked as they are.
            drop_remainder: whether batches at the end that are not full are left out.
            name: shown by ``explain()``.

        Raises:
            ValueError: if there is not one batch size more than boundaries, or these do not ascend.
            TypeError: if ``element_length_func`` does not return one integer.

        Example:
            >>> rows = dl.data.Dataset.from_sequence([[1], [2, 3, 4], [5], [6, 7]])
            >>> batches = rows.bucket_by_sequence_length(
            ...     lambda row: len(row), bucket_boundaries=[2], bucket_batch_sizes=[2, 2]
            ... )
            >>> [batch.tolist() for batch in batches]
            [[[1], [5]], [[2, 3, 4], [6, 7, 0]]]
        """

        def batch(elements: Dataset, size: int, shapes: Any) -> Dataset:
            if no_padding:
                return elements.batch(size, drop_remainder=drop_remainder)
            return elements.padded_batch(size, shapes, padding_values, drop_remainder)

        plan = bucket(
            self._plan,
            element_length_func,
            bucket_boundaries,
            bucket_batch_sizes,
            batch,
            padded_shapes,
            pad_to_bucket_boundary and not no_padding,
        )
        return self._with(plan, name)

    def pack(
        self,
        length: int,
        *,
        lookahead: int = 1024,
        overlong: Literal["error", "truncate", "split"] = "error",
        padding_values: Any = None,
        name: str | None = None,
    ) -> Self:
        """Put several sequences into each row of ``length``, for transformers.

        Elements are sequences: leaves (n, ...) of one n each. Of every ``lookahead`` of them each
        goes, in order, into the first row that has room; then come the next. What a row holds so
        depends on the sequences alone, and a state is a position.

        Not in tf.data; Grain's ``FirstFitPackIterDataset`` is alike.

        Args:
            length: of the rows.
            lookahead: how many sequences are packed together: more fill rows better, and take more
                memory and more time to the first row.
            overlong: what is done with sequences longer than ``length``: ``"error"`` raises when it
                is their turn, ``"truncate"`` drops their ends, ``"split"`` makes several of one.
            padding_values: what rows are padded with, as for ``padded_batch``.
            name: shown by ``explain()``.

        Returns:
            A dataset of ``dl.data.Packed(values, segment_ids, positions)``: the leaves with shapes
            (``length``, ...), and int32 (``length``,) each, in the structure of the elements.

        Raises:
            TypeError: if a leaf is no array.
            ValueError: if a leaf has no first dimension, or another one varies.

        Example:
            >>> rows = dl.data.Dataset.from_sequence([[1, 2], [3, 4, 5], [6]])
            >>> for packed in rows.pack(4):
            ...     print(packed.values, packed.segment_ids, packed.positions)
            [1 2 6 0] [1 1 2 0] [0 1 0 0]
            [3 4 5 0] [1 1 1 0] [0 1 2 0]
        """
        row = count_of(length, "pack", "length", least=1)
        ahead = count_of(lookahead, "pack", "lookahead", least=1)
        if overlong not in _OVERLONG:
            raise ValueError(f"pack: overlong must be one of {_OVERLONG}, got {overlong!r}")
        spec = self._plan.spec
        check_arrays(spec.leaves, "pack")
        for i, leaf in enumerate(spec.leaves):
            if not leaf.shape or None in leaf.shape[1:]:
                raise ValueError(
                    f"pack takes sequences: leaf {i} is {leaf}; only its first dimension may vary"
                )
        values = fillers(spec, padding_values, "pack")
        return self._with(Pack((self._plan,), row, ahead, overlong, tuple(values)), name)

    # Several datasets.

    @classmethod
    def zip(cls, *args: Any, datasets: Any = None, name: str | None = None) -> Self:
        """Put elements at the same position side by side; end with the shortest dataset.

        Follows ``tf.data.Dataset.zip``; once a dataset has ended no other is asked for an element.

        Args:
            args: datasets, or one nested structure of datasets, whose structure elements take.
            datasets: the same as one argument.
            name: shown by ``explain()``.

        Raises:
            TypeError: if an argument is no dataset, or both ``args`` and ``datasets`` are given.
            ValueError: if there is no dataset.

        Example:
            >>> a, b = dl.data.Dataset.range(3), dl.data.Dataset.range(10, 20)
            >>> [tuple(map(int, pair)) for pair in dl.data.Dataset.zip(a, b)]
            [(0, 10), (1, 11), (2, 12)]
        """
        if args and datasets is not None:
            raise TypeError("zip: give the datasets in order, or as `datasets`, not both")
        given = datasets if datasets is not None else args[0] if len(args) == 1 else args
        leaves, structure = flatten(given)
        for leaf in leaves:
            if not isinstance(leaf, BaseDataset):
                raise TypeError(f"zip takes datasets, got {type(leaf).__name__}")
        if not leaves:
            raise ValueError("zip needs at least one dataset")
        plan = Zip(tuple(d._plan for d in leaves), structure)
        return cls(named(plan, name), merged_options(leaves))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Self:
        """Yield this dataset's elements, then the other's.

        Follows ``tf.data.Dataset.concatenate``.

        Args:
            dataset: of elements of the same structure, dtypes and ranks.
            name: shown by ``explain()``.

        Raises:
            TypeError: if structures, dtypes or ranks differ, or it is no dataset.

        Example:
            >>> print(*dl.data.Dataset.range(2).concatenate(dl.data.Dataset.range(8, 10)))
            0 1 8 9
        """
        if not isinstance(dataset, BaseDataset):
            raise TypeError(f"concatenate takes a dataset, got {type(dataset).__name__}")
        spec = concatenated_spec(self._plan.spec, dataset._plan.spec)
        plan = Concatenate((self._plan, dataset._plan), spec)
        return type(self)(named(plan, name), merged_options((self, dataset)))

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Dataset],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Draw each element from one of ``datasets`` at random.

        Follows ``tf.data.Dataset.sample_from_datasets``, with other draws; negative weights are
        errors.

        Args:
            datasets: with elements of one structure; what is drawn from one keeps its order.
            weights: probabilities of the datasets, up to a factor; equal ones by default. A dataset
                of float vectors (number of datasets,) has them change from draw to draw.
            seed: the draws depend on it. ``None`` draws one now.
            stop_on_empty_dataset: whether to end as soon as a drawn dataset has ended; otherwise
                such draws are left out.
            rerandomize_each_iteration: whether each epoch (and each pass of a ``repeat``) has other
                draws.

        Raises:
            ValueError: if there is no dataset, or weights are negative, not finite or too few.
            TypeError: if elements differ in structure, dtypes or ranks.

        Example:
            >>> zeros = dl.data.Dataset.from_tensors(0).repeat()
            >>> ones = dl.data.Dataset.from_tensors(1).repeat()
            >>> mixed = dl.data.Dataset.sample_from_datasets([zeros, ones], [0.2, 0.8], seed=1)
            >>> bool(0.75 < np.mean(list(mixed.take(1000))) < 0.85)
            True
        """
        stop, again = bool(stop_on_empty_dataset), bool(rerandomize_each_iteration)
        return cls(*sampling.sample(datasets, weights, seed, stop, again))

    @classmethod
    def choose_from_datasets(
        cls,
        datasets: Sequence[Dataset],
        choice_dataset: Dataset,
        stop_on_empty_dataset: bool = True,
    ) -> Self:
        """For each number of ``choice_dataset`` take the next element of the dataset it names.

        Follows ``tf.data.Dataset.choose_from_datasets``.

        Args:
            datasets: with elements of one structure.
            choice_dataset: of int64 scalars. One that names no dataset raises when its turn comes.
            stop_on_empty_dataset: whether to end as soon as a chosen dataset has ended; otherwise
                such choices are left out.

        Raises:
            ValueError: if there is no dataset.
            TypeError: if elements differ in structure, dtypes or ranks, or the choices are no int64
                scalars.

        Example:
            >>> letters = [dl.data.Dataset.from_tensors(c).repeat() for c in "abc"]
            >>> choices = dl.data.Dataset.range(3).repeat(2)
            >>> print(*dl.data.Dataset.choose_from_datasets(letters, choices))
            b'a' b'b' b'c' b'a' b'b' b'c'
        """
        return cls(*sampling.choose(datasets, choice_dataset, bool(stop_on_empty_dataset)))

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: npt.ArrayLike,
        initial_dist: npt.ArrayLike | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Draw elements so that their classes have the shares ``target_dist``.

        As in ``tf.data``, elements are drawn from the dataset as it is and from one in which some
        are rejected; the dataset is read for each by itself, so that an element may come twice.

        Follows ``tf.data.Dataset.rejection_resample``, with other draws. Without ``initial_dist``
        classes are counted up to the present element.

        Args:
            class_func: takes an element, returns its class, an integer from 0 on.
            target_dist: wanted share of each class (number of classes,).
            initial_dist: the shares that the classes have; counted on the way if not given.
            seed: of the draws. ``None`` draws one now.
            name: shown by ``explain()``.

        Returns:
            A dataset of pairs ``(class, element)``.

        Raises:
            TypeError: if ``class_func`` does not return one integer.
            ValueError: if the shares are no vectors of the same length.

        Example:
            >>> rare = dl.data.Dataset.range(1000).map(lambda x: (x % 10 == 0).astype("int32"))
            >>> even = rare.rejection_resample(
            ...     lambda x: x, target_dist=[0.5, 0.5], initial_dist=[0.9, 0.1], seed=1
            ... )
            >>> bool(0.4 < np.mean([label for label, _ in even]) < 0.6)
            True
        """
        plan = sampling.resample(self._plan, class_func, target_dist, initial_dist, seed)
        return self._with(plan, name)

    # Datasets of datasets.

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Self:
        """Yield the elements of the dataset that ``map_func`` returns for each element, in order.

        The function is called as Python, with numpy leaves (or datasets, after a ``window``), now
        for the first elements and again in every epoch. Operations inside it that are given no seed
        get seeds that follow from the epoch and the element's position.

        Follows ``tf.data.Dataset.flat_map``, where the function is traced once.

        Args:
            map_func: takes an element, returns a dataset.
            name: shown by ``explain()``.

        Raises:
            TypeError: if it does not return a dataset.
            Exception: what it raises for the first element. For a later one it is raised in its
                place, as is a dataset whose elements differ from those of the first.

        Example:
            >>> print(*dl.data.Dataset.range(4).flat_map(lambda n: dl.data.Dataset.range(n)))
            0 0 1 0 1 2
        """
        function = build_dataset_function(self._plan, map_func, "flat_map")
        return self._with(FlatMap((self._plan,), function), name)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """As ``flat_map``, taking elements of several such datasets by turns.

        Follows ``tf.data.Dataset.interleave``. The order is the same for every number of threads
        and on every machine.

        Args:
            map_func: takes an element, returns a dataset.
            cycle_length: how many datasets are open at a time; 16 by default, on every machine.
            block_length: how many elements are taken of a dataset at a time; 1 by default.
            num_parallel_calls: opens so many datasets before it is their turn, and reads so many
                at once, ahead and each on a thread; ``AUTOTUNE`` opens ``cycle_length`` and finds
                out how many to read.
            deterministic: accepted as in ``tf.data``, without effect.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``map_func`` does not return a dataset.
            ValueError: if a number is not positive.
            Exception: as of ``flat_map``.

        Example:
            >>> starts = dl.data.Dataset.from_tensor_slices([0, 10, 20])
            >>> counts = starts.interleave(
            ...     lambda n: dl.data.Dataset.range(n, n + 3), cycle_length=2, block_length=2
            ... )
            >>> print(*counts)
            0 1 10 11 2 12 20 21 22
        """
        check_deterministic(deterministic, "interleave")
        cycle = CYCLE_LENGTH
        if cycle_length not in (None, AUTOTUNE):
            cycle = count_of(cycle_length, "interleave", "cycle_length", least=1)
        block = 1
        if block_length is not None:
            block = count_of(block_length, "interleave", "block_length", least=1)
        workers = parallel_calls(num_parallel_calls, "interleave") or 0
        function = build_dataset_function(self._plan, map_func, "interleave")
        plan = Interleave((self._plan,), function, cycle, block, min(workers, cycle))
        return self._with(plan, name)

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Make datasets of ``size`` elements each: every leaf of an element becomes a dataset.

        Follows ``tf.data.Dataset.window``.

        Args:
            size: of a window, in elements.
            shift: by how many elements the next window begins later; ``size`` by default.
            stride: between the elements of a window.
            drop_remainder: whether windows at the end that are not full are left out.
            name: shown by ``explain()``.

        Returns:
            A dataset whose elements have the structure of this one's, with a dataset for each leaf.

        Raises:
            TypeError: if a number is no integer.
            ValueError: if a number is not positive.

        Example:
            >>> windows = dl.data.Dataset.range(5).window(3, shift=2)
            >>> print(*windows.flat_map(lambda window: window.batch(3)))
            [0 1 2] [2 3 4] [4]
        """
        number = count_of(size, "window", "size", least=1)
        moved = number if shift is None else count_of(shift, "window", "shift", least=1)
        step = count_of(stride, "window", "stride", least=1)
        plan = Window((self._plan,), number, moved, step, bool(drop_remainder))
        return self._with(plan, name)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
        output_signature: Any = None,
    ) -> Self:
        """Gather elements of equal keys and give every ``window_size`` of them to a function.

        A window is made once it is full; at the end of the input those that are not full follow,
        by ascending keys.

        ``reduce_func`` is tried now, with the first element's key and with others near it, to see
        which dimensions of its datasets depend on the key: those are ``None`` in ``element_spec``.

        Follows ``tf.data.Dataset.group_by_window``, which has no ``output_signature``.

        Args:
            key_func: takes an element, returns one integer. It is compiled as in ``map``.
            reduce_func: takes a key (an int64 scalar) and a dataset of elements, returns a dataset.
            window_size: how many elements make a window.
            window_size_func: takes a key and returns that number; called once for each key.
            name: shown by ``explain()``.
            output_signature: ``TensorSpec`` of each leaf of the elements of all datasets that
                ``reduce_func`` returns, for one whose keys say too little of the others.

        Raises:
            ValueError: if not exactly one of ``window_size`` and ``window_size_func`` is given, or
                the first dataset is not as ``output_signature`` says.
            TypeError: if ``key_func`` returns something else than an integer, or ``reduce_func``
                something else than a dataset.

        Example:
            >>> grouped = dl.data.Dataset.range(6).group_by_window(
            ...     key_func=lambda x: x % 2,
            ...     reduce_func=lambda key, window: window.batch(2),
            ...     window_size=2,
            ... )
            >>> print(*grouped)
            [0 2] [1 3] [4] [5]
        """
        size = window_size_of(window_size, window_size_func)
        spec = None
        if output_signature is not None:
            spec = constructors.signed(output_signature, "group_by_window")
        plan = group(self._plan, key_func, reduce_func, size, promised=spec)
        return self._with(plan, name)

    def apply(self, transformation_func: Callable[[Any], Any]) -> Dataset:
        """Return ``transformation_func(self)``, for functions of a whole dataset.

        Follows ``tf.data.Dataset.apply``.

        Args:
            transformation_func: takes this dataset, returns a dataset.

        Raises:
            TypeError: if it does not return a dataset.

        Example:
            >>> def pairs(dataset):
            ...     return dataset.batch(2, drop_remainder=True)
            >>> print(*dl.data.Dataset.range(5).apply(pairs))
            [0 1] [2 3]
        """
        result = transformation_func(self)
        if not isinstance(result, Dataset):
            raise TypeError(f"apply: the function returned {type(result).__name__}, not a Dataset")
        return result

    # Buffers, files and the place where work is done.

    def prefetch(self, buffer_size: int | None, name: str | None = None) -> Self:
        """Make elements ahead of their consumer, on a thread.

        Follows ``tf.data.Dataset.prefetch``.

        Args:
            buffer_size: up to how many elements; ``AUTOTUNE`` or ``None``: as many as memory
                allows; 0: none.
            name: shown by ``explain()``.

        Raises:
            TypeError: if ``buffer_size`` is no integer.
            ValueError: if it is negative, and not ``AUTOTUNE``.

        Example:
            >>> print(*dl.data.Dataset.range(3).prefetch(dl.data.AUTOTUNE))
            0 1 2
        """
        if buffer_size is None or buffer_size == AUTOTUNE:
            return self._with(Prefetch((self._plan,), None), name)
        size = count_of(buffer_size, "prefetch", "buffer_size", least=0)
        return self if size == 0 else self._with(Prefetch((self._plan,), size), name)

    def prefetch_to_device(
        self,
        device: str | jax.Device | jax.sharding.Sharding,
        buffer_size: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Yield elements as JAX arrays on a device, copied while earlier ones are used.

        It is the last operation of a dataset. As everywhere in JAX, 64-bit types become 32-bit ones
        unless ``jax_enable_x64`` is on.

        Follows ``tf.data.experimental.prefetch_to_device``.

        Args:
            device: a ``jax.Device``, a ``jax.sharding.Sharding`` (leaves are divided along it), or
                a name such as ``"gpu:0"``.
            buffer_size: how many elements are copied ahead; ``AUTOTUNE`` or ``None``: 2.
            name: shown by ``explain()``.

        Raises:
            TypeError: if elements hold strings, datasets or ragged arrays, or ``device`` is none.
            ValueError: if there is no device of that name.

        Example:
            >>> (batch,) = dl.data.Dataset.range(3).batch(3).prefetch_to_device("cpu:0")
            >>> batch.dtype, batch.devices()
            (dtype('int32'), {CpuDevice(id=0)})
        """
        leaves = self._plan.spec.leaves
        check_arrays(leaves, "prefetch_to_device")
        if any(leaf.is_string for leaf in leaves):
            raise TypeError(f"prefetch_to_device: no device holds strings: {self.element_spec}")
        size = DEVICE_BUFFER
        if buffer_size is not None and buffer_size != AUTOTUNE:
            size = count_of(buffer_size, "prefetch_to_device", "buffer_size", least=1)
        return self._with(PrefetchToDevice((self._plan,), device_of(device), size), name)

    def cache(self, filename: str | bytes | os.PathLike[str] = "", name: str | None = None) -> Self:
        """Retain the elements once a pass reached the end, for all later passes.

        What is retained does not depend on when the cache is filled: a shuffle before it has the
        order of its first epoch for ever. A cache that is full is random-access.

        Follows ``tf.data.Dataset.cache``.

        Args:
            filename: a directory for them, also for later runs, which map it into their memory;
                delete it when the pipeline before it changes. By default, memory.
            name: shown by ``explain()``.

        Raises:
            TypeError: if elements hold what no file can (datasets, ragged arrays).
            ValueError: while iterating, if the directory holds elements of another spec.
            FileExistsError: while iterating, if another pipeline is filling it. Several iterators
                of one dataset may, and processes that have the same operations.

        Example:
            >>> calls = []
            >>> def load(x):
            ...     calls.append(float(x))  # A function with effects runs as Python.
            ...     return x
            >>> dataset = dl.data.Dataset.range(3).map(load).cache()
            >>> first = list(dataset)
            >>> before = len(calls)
            >>> list(dataset) == first, len(calls) - before
            (True, 0)
        """
        return self._with(storing.cache(self._plan, filename), name)

    def snapshot(
        self,
        path: str | bytes | os.PathLike[str],
        compression: str | None = "AUTO",
        reader_func: Callable[[Any], Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Write the elements into files while they are used, for later passes and later runs.

        The files are known by the `fingerprint` of what makes the elements: after a change to the
        pipeline before it new ones are written, beside the former ones. A pass that does not reach
        the end leaves nothing, as one that is resumed in its midst unless there is a ``shard_func``
        or ``reader_func``: then it runs again from its start.

        Follows ``tf.data.Dataset.snapshot``; one shard is written unless there is a ``shard_func``.

        Args:
            path: of a local directory, for any number of snapshots.
            compression: ``"GZIP"``, ``"SNAPPY"``, or ``None``, ``"NONE"`` or ``"AUTO"`` for files
                that are mapped into memory, whose elements can be reached by position.
            reader_func: takes a dataset of datasets, one for each shard by ascending numbers, and
                returns a dataset of the same elements; by default it takes one element of each
                shard by turns, which is the order of the first pass if there is one shard.
                Operations inside it that are given no seed get others in each epoch.
            shard_func: takes an element, returns the number of the shard to write it to, from 0 on;
                by default there is one shard.
            name: shown by ``explain()``.

        Raises:
            TypeError: if elements hold what no file can (datasets, ragged arrays); if
                ``shard_func`` does not return one integer, or ``reader_func`` no dataset; if there
                is no fingerprint.
            ValueError: if ``compression`` is none of the above. While iterating, if files are
                damaged.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     dataset = dl.data.Dataset.range(3).map(lambda x: x * x).snapshot(directory)
            ...     print(*dataset)  # Computes, and writes.
            ...     print(*dataset)  # Reads.
            0 1 4
            0 1 4
        """
        plan = storing.snapshot(self._plan, path, compression, reader_func, shard_func)
        return self._with(plan, name)

    def save(
        self,
        path: str | bytes | os.PathLike[str],
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the elements of one epoch into a directory, for `load`; what it held is replaced.

        Leaves are ``.npy`` files, in a directory for each shard if there are several. The
        directory appears when it is complete.

        Follows ``tf.data.Dataset.save``, with a format of its own.

        Args:
            path: a local one.
            compression: ``"GZIP"``, ``"SNAPPY"`` or ``None``. What is compressed is read in order
                only.
            shard_func: takes an element, returns the number of the shard to write it to, from 0 on;
                by default there is one shard. It is compiled as in ``map``.
            checkpoint_args: for a save that resumes when it is called again, also in another
                process: ``directory``, which holds its position until it is complete;
                ``checkpoint_interval``, after how many elements (by default ten seconds);
                ``max_to_keep`` (1), ``checkpoint_name`` (``"ckpt"``) and ``step_counter``, a
                variable to which the number of elements is added. Elements are written beside
                ``path`` meanwhile, without compression and shards. By default a save that is
                interrupted leaves nothing behind.

        Raises:
            TypeError: if elements hold what no file can (datasets, ragged arrays), ``shard_func``
                does not return one integer, or a function reads something of which it is not known
                whether it is the same in another process.
            ValueError: if an argument is none of the above, or checkpoints are of another save.
            FileExistsError: if the path is something else than a stored dataset or an empty
                directory.
            RuntimeError: if another process resumes from the same checkpoint.
            OSError: if the disk is full, for one; what was stored before stays.
            Exception: what making an element raised; nothing is replaced then.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     dl.data.Dataset.range(3).save(f"{directory}/numbers")
            ...     print(*dl.data.Dataset.load(f"{directory}/numbers"))
            0 1 2
        """
        storing.save(self._plan, self._options, path, compression, shard_func, checkpoint_args)

    @classmethod
    def load(
        cls,
        path: str | bytes | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        wait: bool = False,
        name: str | None = None,
    ) -> Self:
        """Read the elements that `save` wrote.

        They are mapped into memory, read when asked for, and can be reached by position; those
        that were compressed are read in order.

        Follows ``tf.data.Dataset.load``.

        Args:
            path: a local one.
            element_spec: that of the elements; by default as stored.
            compression: with which they were saved; by default as stored.
            reader_func: takes a dataset of datasets, one for each shard by ascending numbers, and
                returns the dataset of elements; by default it takes one element of each shard by
                turns.
            wait: whether to wait until something is stored there.
            name: shown by ``explain()``.

        Raises:
            FileNotFoundError: if nothing is stored there.
            ValueError: if it is damaged, or has other elements or another compression than said.
            TypeError: if ``reader_func`` does not return a dataset.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     dl.data.Dataset.range(4).save(directory, shard_func=lambda x: x % 2)
            ...     print(*dl.data.Dataset.load(
            ...         directory, reader_func=lambda shards: shards.flat_map(lambda shard: shard)
            ...     ))
            0 2 1 3
        """
        shards, spec = storing.load(path, element_spec, compression, wait)
        if reader_func is None:
            return cls(named(by_turns(shards, spec), name))
        result: Any = reader_func(dataset_of(shards, spec))
        if not isinstance(result, cls):
            raise TypeError(
                f"load: reader_func must return a Dataset, it returned {type(result).__name__}"
            )
        return result

    def distribute(
        self,
        processing_mode: str | ShardingPolicy = "dynamic",
        address: str | None = None,
        workers: int | None = None,
        cpus_per_worker: float = 1,
        name: str | None = None,
    ) -> Self:
        """Run the operations before this one on the CPUs of a Ray cluster, those after it here.

        With ``"dynamic"`` (or ``"distributed_epoch"``) elements are handed out as workers are free,
        and come in the order in which they would come without ``distribute``, to the bit. Functions
        run on the workers, with what reads files; shuffles, batches and other operations that look
        at several elements stay here.

        With ``"static"`` worker i has shard i: its files if the dataset reads enough of them, else
        every n-th element, of n workers. With ``"off"`` (or ``"parallel_epochs"``) every worker
        makes all elements. Everything before ``distribute`` then runs on the workers, and an
        element of each comes by turns.

        A lost worker or machine loses and repeats no element: another worker takes its place.

        Follows ``tf.data.experimental.service.distribute``, on Ray.

        Args:
            processing_mode: a name or a ``dl.data.experimental.service.ShardingPolicy``.
            address: of a node of the cluster, as ``drumline data-service start`` prints it. By
                default that of the environment variable ``RAY_ADDRESS``, or of a cluster on this
                machine, which is started if there is none.
            workers: how many. By default one for each free CPU; ``"static"`` and ``"off"`` need a
                number, as the elements depend on it.
            cpus_per_worker: how many of Ray's CPUs each takes.
            name: shown by ``explain()``.

        Raises:
            ImportError: if Ray is not installed (``pip install 'drumline[ray]'``).
            ValueError: if ``processing_mode`` is none, lacks ``workers``, or does not suit the
                plan.
            TypeError: while iterating, if a part of a function cannot be sent; the message names
                it.

        Example:
            >>> dataset = dl.data.Dataset.range(4).map(lambda x: x * x)
            >>> print(*dataset.distribute(workers=2))  # doctest: +SKIP
            0 1 4 9
        """
        number = None if workers is None else count_of(workers, "distribute", "workers", least=1)
        service = RayService(address, number, cpus_per_worker)
        return self._with(distribution(self._plan, processing_mode, service, number), name)

    # Options and description.

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Return a dataset of the same elements that runs under ``options``.

        Follows ``tf.data.Dataset.with_options``.

        Args:
            options: those not set in it stay as they are.
            name: accepted as in ``tf.data``, without effect: there is no operation to be named.

        Raises:
            TypeError: if ``options`` is not an `Options`.

        Example:
            >>> options = dl.data.Options()
            >>> options.threading.private_threadpool_size = 2
            >>> dataset = dl.data.Dataset.range(3).with_options(options)
            >>> dataset.options().threading.private_threadpool_size
            2
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options takes dl.data.Options, got {type(options).__name__}")
        return Dataset(self._plan, self._options.merged(options))

    def options(self) -> Options:
        """Return the options in force: a copy that cannot be changed.

        Follows ``tf.data.Dataset.options``. ``with_options`` sets others.

        Example:
            >>> dl.data.Dataset.range(3).options().deterministic is None
            True
        """
        return self._options.frozen()

    @property
    def element_spec(self) -> Any:
        """A ``TensorSpec`` for each leaf, in the structure of the elements.

        Follows ``tf.data.Dataset.element_spec``.

        Example:
            >>> dl.data.Dataset.from_tensor_slices({"x": np.zeros((4, 3))}).batch(2).element_spec
            {'x': TensorSpec(shape=(None, 3), dtype=float64)}
        """
        return self._plan.spec.tree()

    @property
    def has_batches(self) -> bool:
        """Whether some operation of the plan batches.

        Not in tf.data; Keras asks for it where a batch size is given twice.

        Example:
            >>> dataset = dl.data.Dataset.range(3)
            >>> dataset.has_batches, dataset.batch(2).has_batches
            (False, True)
        """
        kinds = (Batch, Rebatch, Pack)
        return any(isinstance(node, kinds) for node in self._plan.walk())

    def cardinality(self) -> int:
        """Return the number of elements, ``INFINITE_CARDINALITY`` or ``UNKNOWN_CARDINALITY``.

        Follows ``tf.data.Dataset.cardinality``.

        Example:
            >>> dataset = dl.data.Dataset.range(10)
            >>> dataset.batch(4).cardinality(), dataset.repeat().cardinality()
            (3, -1)
            >>> dataset.filter(lambda x: x > 5).cardinality() == dl.data.UNKNOWN_CARDINALITY
            True
        """
        return self._plan.cardinality

    @property
    def ignored_errors(self) -> int:
        """How many errors ``ignore_errors`` has passed over in this process, in all epochs.

        A prefetch may have met some of them ahead of its consumer. Not in tf.data.

        Example:
            >>> ratios = dl.data.Dataset.from_tensor_slices([1, 0]).map(lambda x: 10 // x)
            >>> safe = ratios.ignore_errors()
            >>> len(list(safe)), safe.ignored_errors
            (1, 1)
        """
        nodes = self._plan.walk()
        return sum(n.count.value for n in nodes if isinstance(n, IgnoreErrors))

    def fingerprint(self) -> np.uint64:
        """Return a number that is the same in every process for the same dataset.

        Other operations, arguments, arrays, functions (compiled ones by their programs, others by
        their code and all that it reads) or seeds give another one. A seed that was not given
        counts as any seed; files count by their names; names (``name=``), options, prefetching and
        the number of parallel calls do not count. Other releases of Python, jax and drumline may
        give other numbers.

        Follows ``tf.data.Dataset.fingerprint``, where seeds do not count.

        Raises:
            TypeError: if a function reads, or a source is, something of which it is not known
                whether it is the same in another run.

        Example:
            >>> dataset = dl.data.Dataset.range(3)
            >>> bool(dataset.fingerprint() == dl.data.Dataset.range(3).fingerprint())
            True
            >>> bool(dataset.fingerprint() == dataset.batch(2).fingerprint())
            False
        """
        return np.uint64(fingerprint_of(self._plan))

    def explain(self) -> Explanation:
        """Return the plan, what the optimizer makes of it, and how each part runs, as text.

        Not in tf.data.

        Example:
            >>> text = dl.data.Dataset.range(8).map(lambda x: x + 1).batch(4).explain()
            >>> "batch 4" in text, "map" in text
            (True, True)
        """
        started = self._ready()
        stage, _ = started.lowered(0, None)
        text = explain(started.plan, started.optimized, stage, started.runtime.decisions)
        stage.close()
        return text

    def profile(self, elements: int | None = None, seconds: float | None = None) -> Profile:
        """Run the dataset from the start of its first epoch and measure every stage.

        It ends with that epoch, however early: profile ``dataset.repeat()`` for longer runs.

        Not in tf.data, whose profiler is TensorBoard's.

        Args:
            elements: after how many elements to stop.
            seconds: after how many seconds to stop, at the next element; 10 if neither is given.

        Returns:
            A `Profile`: ``print`` shows a table and names the bottleneck, ``save_png`` draws it,
            ``save_trace`` writes what Chrome's trace viewer and Perfetto read.

        Raises:
            ValueError: if ``elements`` or ``seconds`` are not positive.
            Exception: what the dataset raises.

        Example:
            >>> profile = dl.data.Dataset.range(100).batch(10).profile(elements=5)
            >>> "batch 10" in str(profile)
            True
        """
        if elements is not None:
            elements = count_of(elements, "profile", "elements", least=1)
        elif seconds is None:
            seconds = PROFILE_SECONDS
        if seconds is not None and not seconds > 0:
            raise ValueError(f"profile: seconds must be positive, got {seconds!r}")
        observation = Observation(traced=True)
        epochs = Epochs(self._plan, self._options, observation)
        started = observation.clock()
        iterator: DatasetIterator[object] = DatasetIterator(epochs, 0)
        return run_profile(
            iterator, started, observation, elements, seconds, epochs.runtime.decisions
        )

    # Elements.

    def __iter__(self) -> DatasetIterator[Any]:
        """Start the next epoch.

        Follows ``tf.data.Dataset``; the epoch is counted by the dataset that is iterated, and the
        iterator has ``state()`` and ``restore()``.

        Example:
            >>> dataset = dl.data.Dataset.range(10).shuffle(10, seed=1)
            >>> iterator = iter(dataset)
            >>> first = next(iterator)
            >>> state, second = iterator.state(), next(iterator)
            >>> other = iter(dataset)
            >>> other.restore(state)
            >>> bool(next(other) == second)
            True
        """
        started = self._ready()
        epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        return DatasetIterator(started, epoch)

    def as_numpy_iterator(self) -> DatasetIterator[Any]:
        """Start the next epoch, as ``iter``: leaves are numpy arrays already.

        Follows ``tf.data.Dataset.as_numpy_iterator``.

        Example:
            >>> print(*dl.data.Dataset.range(3).as_numpy_iterator())
            0 1 2
        """
        return iter(self)

    def index(self, index: int, epoch: int = 0) -> Any:
        """Return the element at a position, where the plan allows to reach it alone.

        Not in tf.data, whose ``tf.data.experimental.at`` is alike.

        Args:
            index: from 0, or from -1 backwards.
            epoch: in which; shuffles differ between epochs.

        Raises:
            TypeError: if an operation of the plan prevents it; the message names it.
            IndexError: if there is no such position.

        Example:
            >>> dataset = dl.data.Dataset.range(10).shuffle(10, seed=1)
            >>> bool(dataset.index(4) == list(dataset)[4])
            True
        """
        position = count_of(index, "index", "index")
        return element_at(self._plan, position, count_of(epoch, "index", "epoch", 0))

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the only element.

        Follows ``tf.data.Dataset.get_single_element``.

        Args:
            name: of the operation, for the message.

        Raises:
            ValueError: if there is none, or more than one.

        Example:
            >>> dl.data.Dataset.range(5).batch(5).get_single_element()
            array([0, 1, 2, 3, 4])
        """
        where = f"get_single_element{f' {name!r}' if name is not None else ''}"
        iterator = iter(self)
        try:
            found = [element for element, _ in zip(iterator, range(2), strict=False)]
        finally:
            iterator.close()
        if len(found) != 1:
            raise ValueError(
                f"{where}: the dataset {'has more than one' if found else 'has no'} element"
            )
        return found[0]

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """Fold all elements, in order, into a state.

        Follows ``tf.data.Dataset.reduce``.

        Args:
            initial_state: a nested structure of arrays.
            reduce_func: ``reduce_func(state, element)`` returns the new state, of the structure and
                the dtypes of the initial one; compiled as ``scan``'s is.
            name: accepted as in ``tf.data``, without effect.

        Returns:
            The state after the last element, with numpy leaves.

        Raises:
            TypeError: if the new state has another structure or other dtypes.
            ValueError: if the dataset never ends, or the initial state holds no arrays.

        Example:
            >>> int(dl.data.Dataset.range(5).reduce(np.int64(0), lambda total, x: total + x))
            10
        """
        if self._plan.cardinality == INFINITE:
            raise ValueError("reduce never ends over an infinite dataset; take(n) of it first")
        plan, _, state, built = build_recurrence_over(
            self._plan, initial_state, reduce_func, "reduce"
        )
        run = built.start()
        iterator = iter(self if plan is self._plan else self._with(plan, None))
        position = 0
        try:
            for block in iterator.blocks(run.block_length):
                fold(run, block, position)
                position += block.n
        finally:
            iterator.close()
        return state.structure.unflatten([leaf[()] for leaf in run.state])

    def __len__(self) -> int:
        """Return the number of elements.

        Follows ``tf.data.Dataset``.

        Raises:
            TypeError: if the dataset is infinite, or its length is unknown.

        Example:
            >>> len(dl.data.Dataset.range(10).batch(4))
            3
        """
        if self.cardinality() < 0:
            if self.cardinality() == INFINITE:
                raise TypeError("the dataset's length is infinite; take(n) makes it finite")
            raise TypeError(
                "the dataset's length is unknown; assert_cardinality(n) says what it is, and "
                "reduce can count"
            )
        return self.cardinality()

    def __bool__(self) -> bool:
        """Return true, also of a dataset that is empty or of unknown length."""
        return True

    def __copy__(self) -> Dataset:
        """Return another dataset of the same plan, which is immutable, with its own epochs."""
        copied = Dataset(self._plan, self._given_options)
        copied._next_epoch = self._next_epoch
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Dataset:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the plan with its functions, lambdas too; what ``cache()`` holds is left out.

        The same version of drumline unpickles it; another one raises ``pickle.UnpicklingError``.

        Raises:
            TypeError: if a part of it cannot be pickled; the message names the operation and the
                part.
        """
        return reduced(type(self), self._plan, self._given_options, self._next_epoch)

    def __repr__(self) -> str:
        return f"<Dataset {self._plan.name} element_spec={self.element_spec}>"

    def _ready(self) -> Epochs:
        """Return the plan, optimized when it is first needed."""
        if self._epochs is None:
            self._epochs = Epochs(self._plan, self._options)
        return self._epochs


set_dataset_class(Dataset)
