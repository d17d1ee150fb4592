"""The dataset of prepared files: which are read in which order, and how they are decoded."""

from __future__ import annotations

import dataclasses
import json
import os
import posixpath
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline import strings
from drumline.data import AUTOTUNE, Dataset, Options, TFRecordDataset
from drumline.data.elements.columns import ArrayRows
from drumline.data.elements.ragged import RaggedTensorSpec, objects
from drumline.data.elements.spec import (
    LEAF_STRUCTURE,
    STRING,
    ElementSpec,
    TensorSpec,
    flatten,
)
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.operations.reading.sources import Slices
from drumline.data.storage.files.array_records import ArrayRecords
from drumline.datasets.features.connector import FeatureConnector
from drumline.datasets.features.containers import DatasetFeature, FeaturesDict
from drumline.datasets.features.decoding import DecodeExamples
from drumline.datasets.features.stored_values import joined, leaves
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.decoders import (
    Decoder,
    FunctionDecoder,
    PartialDecoding,
    decoders_by_path,
)
from drumline.datasets.prepared.directories import Folder, PreparedDataError
from drumline.datasets.prepared.writing import RECORD_OVERHEAD
from drumline.datasets.split_expression import AbstractSplit, resolve_split

_CYCLE_LENGTH, _BLOCK_LENGTH = 16, 16
_UNREAD = ("riegeli", "bagz", "parquet")
ID = "tfds_id"


@dataclasses.dataclass(frozen=True)
class FileInstruction:
    """Which examples of a file are read.

    Attributes:
        filename: the path of the file.
        skip: how many are passed over.
        take: how many are read then.
        examples_in_shard: how many the file has.
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int

    @property
    def is_whole(self) -> bool:
        """Whether it is read to the end."""
        return self.skip + self.take == self.examples_in_shard


_MOST_KEPT = 250 << 20


@dataclasses.dataclass(frozen=True)
class ReadConfig:
    """How prepared files are read, as ``tfds.ReadConfig``.

    Attributes:
        options: of the dataset.
        try_autocache: whether decoded examples are kept in memory, for later epochs, if all files
            of the dataset have at most 250 MiB and are not shuffled for each epoch.
        repeat_filenames: whether files are read again and again, without end.
        add_tfds_id: whether examples have a feature ``tfds_id``: the file's name and the number.
        shuffle_seed: of the order of files that are shuffled.
        shuffle_reshuffle_each_iteration: whether each epoch has another order.
        interleave_cycle_length: how many files are read by turns; 16 unless given, and 1 of data
            that are in the order in which they were generated.
        interleave_block_length: how many examples of a file follow one another.
        input_context: with ``num_input_pipelines`` and ``input_pipeline_id``: of that many files
            one is read.
        experimental_interleave_sort_fn: a function from the files that are read to those in the
            order wanted.
        skip_prefetch: whether nothing is read ahead of what is asked for.
        num_parallel_calls_for_decode: of the map that decodes; chosen unless given, and none where
            all values are stored as they are, as with ``SkipDecoding``.
        num_parallel_calls_for_interleave_files: how many files are read at once by threads; chosen
            unless given, and none for local files, which the system reads ahead.
        enable_ordering_guard: whether data in a given order may not be read in another.
        assert_cardinality: whether files with fewer or more examples than described are an error.
        override_buffer_size: bytes that are read of a file at once.
        file_format: accepted if it is that of the files.
    """

    options: Options | None = None
    try_autocache: bool = True
    repeat_filenames: bool = False
    add_tfds_id: bool = False
    shuffle_seed: int | None = None
    shuffle_reshuffle_each_iteration: bool | None = None
    interleave_cycle_length: int | None = None
    interleave_block_length: int | None = _BLOCK_LENGTH
    input_context: Any = None
    experimental_interleave_sort_fn: Callable[[list[Any]], list[Any]] | None = None
    skip_prefetch: bool = False
    num_parallel_calls_for_decode: int | None = None
    num_parallel_calls_for_interleave_files: int | None = None
    enable_ordering_guard: bool = True
    assert_cardinality: bool = True
    override_buffer_size: int | None = None
    file_format: str | None = None


@dataclasses.dataclass(frozen=True)
class ReadRecords(NativeOperation):
    """From the positions of records in ArrayRecord files to the records."""

    records: ArrayRecords

    @property
    def name(self) -> str:
        return "datasets.read_records"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Reads the records of a block together; if that fails, up to the damaged one."""
        positions = np.asarray(columns[0]).tolist()
        try:
            return OperationResult([objects(self.records.read(positions))])
        except Exception:
            found: list[bytes] = []
            for position in positions:
                try:
                    found += self.records.read([position])
                except Exception as error:
                    return OperationResult([objects(found)], error)
            return OperationResult([objects(found)])


class PreparedReader:
    """Makes datasets of the files of a prepared dataset.

    Args:
        folder: with the files.
        info: what is known of them.
    """

    def __init__(self, folder: Folder, info: DatasetInfo) -> None:
        self._folder, self._info = folder, info
        self._there: frozenset[str] | None = None

    def dataset(
        self,
        split: str | AbstractSplit,
        *,
        shuffle_files: bool = False,
        decoders: Any = None,
        config: ReadConfig | None = None,
        as_supervised: bool = False,
    ) -> Dataset:
        """Return the examples of a split.

        The order is that of TFDS: files are read by turns, 16 examples of each of 16.

        Raises:
            ValueError: the split is invalid, or an argument does not go with the data.
            FileNotFoundError: a file is missing.
            NotImplementedError: the format of the files is not read.
        """
        config = config or ReadConfig()
        self._check_format(config)
        instructions = self.instructions(split)
        if not instructions:
            raise ValueError(
                f"{self._folder.path}: the split {str(split)!r} of {self._info.full_name} has no "
                "examples"
            )
        self._check_files(instructions, config)
        sort = config.experimental_interleave_sort_fn
        if sort is not None:
            instructions = list(sort(instructions))
        if config.input_context is not None:
            instructions = self._of_worker(instructions, config.input_context)
        turns = self._turns(config, shuffle_files)
        if self._info.file_format == "array_record":
            records = self._array_records(instructions, turns, config, shuffle_files)
        else:
            records = self._records(instructions, turns, config, shuffle_files)
        if config.assert_cardinality and not config.repeat_filenames:
            records = records.assert_cardinality(sum(each.take for each in instructions))
        decoded = self._decoded(records, decoders, config, as_supervised)
        if self._is_kept(config, shuffle_files, len(instructions)):
            decoded = decoded.cache()
        if not config.skip_prefetch:
            decoded = decoded.prefetch(AUTOTUNE)
        return decoded if config.options is None else decoded.with_options(config.options)

    def instructions(self, split: str | AbstractSplit) -> list[FileInstruction]:
        """Return the files that a split reads, and which of their examples.

        Raises:
            ValueError: the split is invalid.
        """
        found = []
        for part in resolve_split(split, self._info.splits.shards):
            known = self._info.splits[part.name]
            start = 0
            for name, length in zip(known.filenames, known.shard_lengths, strict=True):
                first, last = max(part.start - start, 0), min(part.stop - start, length)
                if first < last:
                    path = self._folder.file(name)
                    found.append(FileInstruction(path, first, last - first, length))
                start += length
        return found

    def missing(self) -> list[str]:
        """Return the paths of files that are described and not there."""
        there = self._listed()
        return [
            self._folder.file(name)
            for split in self._info.splits.values()
            for name, length in zip(split.filenames, split.shard_lengths, strict=True)
            if length and not self._is_there(name, there)
        ]

    def _is_there(self, name: str, there: frozenset[str]) -> bool:
        return name in there if "/" not in name else self._folder.has(name)

    def _listed(self) -> frozenset[str]:
        if self._there is None:
            self._there = frozenset(self._folder.names())
        return self._there

    def _check_format(self, config: ReadConfig) -> None:
        form = self._info.file_format
        wanted = getattr(config.file_format, "value", config.file_format)
        if wanted is not None and wanted != form:
            raise ValueError(
                f"{self._info.full_name} is stored as {form}, and not as {wanted}: leave "
                "file_format out"
            )
        if form in ("tfrecord", "array_record"):
            return
        raise NotImplementedError(
            f"{self._folder.path}: the files are {form!r}, which is not read"
            f"{'' if form in _UNREAD else ' (there is no such format)'}; prepare the data again "
            "with file_format='tfrecord' or 'array_record'"
        )

    def _check_files(self, instructions: Sequence[FileInstruction], config: ReadConfig) -> None:
        there = self._listed()
        for each in instructions:
            name = os.path.relpath(each.filename, self._folder.path)
            if "://" in each.filename:
                name = posixpath.basename(each.filename)
            if self._is_there(name, there):
                if config.assert_cardinality:
                    self._check_size(each)
                continue
            found = sum(1 for other in there if not other.endswith((".json", ".txt")))
            raise FileNotFoundError(
                f"{each.filename} is not there: it is one of the files of "
                f"{self._info.full_name}, of which {self._folder.path} holds {found}. Copy it, or "
                "prepare the data again"
            )

    def _check_size(self, instruction: FileInstruction) -> None:
        """Refuse a local file that is too short for its examples, whichever of them are read."""
        path, examples = instruction.filename, instruction.examples_in_shard
        if "://" in path or self._info.file_format != "tfrecord":
            return
        size = os.path.getsize(path)
        if size < RECORD_OVERHEAD * examples:
            raise PreparedDataError(
                f"{path}: its {size} bytes are too few for the {examples} examples that "
                "dataset_info.json says. Copy it again, or prepare the data again"
            )

    def _of_worker(
        self, instructions: list[FileInstruction], context: Any
    ) -> list[FileInstruction]:
        count, index = int(context.num_input_pipelines), int(context.input_pipeline_id)
        if count > len(instructions):
            raise ValueError(
                f"{len(instructions)} files are to be read by {count} workers, of which some would "
                "have none: use even_splits"
            )
        return instructions[index::count]

    def _turns(self, config: ReadConfig, shuffle_files: bool) -> int:
        turns = config.interleave_cycle_length
        ordered = self._info.disable_shuffling
        if turns is None:
            turns = 1 if ordered else _CYCLE_LENGTH
        if ordered and config.enable_ordering_guard and (shuffle_files or turns != 1):
            what = "shuffle_files=True" if shuffle_files else f"interleave_cycle_length={turns}"
            raise ValueError(
                f"{self._info.full_name} is in the order in which it was generated, which "
                f"{what} would change: leave it out, or give "
                "ReadConfig(enable_ordering_guard=False)"
            )
        return int(turns)

    def _records(
        self,
        instructions: Sequence[FileInstruction],
        turns: int,
        config: ReadConfig,
        shuffle_files: bool,
    ) -> Dataset:
        buffer = config.override_buffer_size
        only = instructions[0]
        if len(instructions) == 1 and not (config.repeat_filenames or config.add_tfds_id):
            return _sliced(TFRecordDataset(only.filename, buffer_size=buffer), only)
        paths = np.array([each.filename.encode() for each in instructions], object)
        names = np.array(
            [posixpath.basename(each.filename).encode() for each in instructions], object
        )
        skip = np.array([each.skip for each in instructions], np.int64)
        # A whole file is read to its end, where bytes may follow that are no record.
        take = np.array([-1 if each.is_whole else each.take for each in instructions], np.int64)
        files = Dataset.from_tensor_slices((paths, names, skip, take))
        files = self._ordered(files, len(paths), config, shuffle_files)
        has_id = config.add_tfds_id

        def of_file(path: Any, name: Any, skip: Any, take: Any) -> Dataset:
            records = TFRecordDataset(path, buffer_size=buffer).skip(skip).take(take)
            if not has_id:
                return records
            numbers = Dataset.range(skip, 1 << 62)
            return Dataset.zip((records, numbers.map(lambda number: (name, number))))

        found = files.interleave(
            of_file,
            cycle_length=min(turns, len(instructions)),
            block_length=config.interleave_block_length or 1,
            num_parallel_calls=config.num_parallel_calls_for_interleave_files
            or _readers(instructions),
        )
        return found.map(_with_id) if has_id else found

    def _ordered(
        self, files: Dataset, count: int, config: ReadConfig, shuffle_files: bool
    ) -> Dataset:
        if shuffle_files:
            again = config.shuffle_reshuffle_each_iteration
            files = files.shuffle(
                count, config.shuffle_seed, True if again is None else bool(again)
            )
        return files.repeat() if config.repeat_filenames else files

    def _array_records(
        self,
        instructions: Sequence[FileInstruction],
        turns: int,
        config: ReadConfig,
        shuffle_files: bool,
    ) -> Dataset:
        """Return records that can be reached by position."""
        if shuffle_files or config.repeat_filenames or config.add_tfds_id:
            raise NotImplementedError(
                "shuffle_files, repeat_filenames and add_tfds_id are not for ArrayRecord files, "
                "whose examples have positions: use Dataset.shuffle(dl.data.GLOBAL) and repeat"
            )
        paths = list(dict.fromkeys(each.filename for each in instructions))
        records = ArrayRecords(paths)
        edges = records.starts
        starts = dict(zip(paths, edges, strict=False))
        lengths = dict(zip(paths, np.diff(edges).tolist(), strict=True))
        for each in instructions:
            held = lengths[each.filename]
            if held != each.examples_in_shard and config.assert_cardinality:
                raise PreparedDataError(
                    f"{each.filename}: it has {held} examples, not the {each.examples_in_shard} "
                    "that dataset_info.json says"
                )
        runs = [
            np.arange(each.skip, each.skip + each.take, dtype=np.int64) + starts[each.filename]
            for each in instructions
        ]
        order = interleaved(runs, turns, config.interleave_block_length or 1)
        operation = ReadRecords(records)
        positions = Dataset.from_tensor_slices(order)
        return positions.map(lambda position: apply(operation, position))

    def _decoded(
        self, records: Dataset, decoders: Any, config: ReadConfig, as_supervised: bool
    ) -> Dataset:
        features: Any = self._info.features
        if isinstance(decoders, PartialDecoding):
            features, decoders = decoders.of(features), decoders.decoders
        by_path = decoders_by_path(features, decoders)
        keys = self._supervised_keys() if as_supervised else None
        supervised = "" if keys is None else json.dumps(keys)
        operation = DecodeExamples.of(
            features,
            stored=tuple(sorted(by_path)),
            supervised=supervised,
            called=self._info.full_name,
        )
        calls = config.num_parallel_calls_for_decode or (AUTOTUNE if operation.is_costly else None)
        if config.add_tfds_id:
            if as_supervised:
                raise ValueError("add_tfds_id needs dictionaries: leave as_supervised out")

            def decode(record: Any, identity: Any) -> Any:
                return {**apply(operation, record), ID: identity}

            found = records.map(decode, calls)
        else:
            found = records.map(lambda record: apply(operation, record), calls)
        return self._after(found, operation, features, by_path, keys)

    def _is_kept(self, config: ReadConfig, shuffle_files: bool, files: int) -> bool:
        """Return whether decoded examples are kept: where TFDS keeps them."""
        again = config.shuffle_reshuffle_each_iteration is not False
        is_shuffled = shuffle_files and again and files > 1
        is_small = 0 < self._info.dataset_size <= _MOST_KEPT
        endless = config.repeat_filenames
        return config.try_autocache and is_small and not is_shuffled and not endless

    def _supervised_keys(self) -> Any:
        keys = self._info.supervised_keys
        if keys is None:
            raise ValueError(
                f"The dataset {self._info.name!r} has no supervised form; load it with "
                f"as_supervised=False. Its columns are: {', '.join(self._info.features)}."
            )
        return keys

    def _after(
        self,
        dataset: Dataset,
        operation: DecodeExamples,
        features: FeaturesDict,
        by_path: dict[str, Decoder],
        keys: Any,
    ) -> Dataset:
        """Apply the functions of decoders, and make the datasets inside of examples."""
        found = {path: leaf for path, leaf, lengths in leaves(features) if not lengths}
        functions: dict[str, tuple[FunctionDecoder, FeatureConnector]] = {}
        for path, decoder in by_path.items():
            if not isinstance(decoder, FunctionDecoder):
                continue
            if path in found:
                functions[path] = decoder, found[path]
            else:
                raise NotImplementedError(
                    f"decoders: feature {path!r} is in a sequence, where functions are not "
                    "applied: use SkipDecoding and Dataset.map"
                )
        if functions:
            paths = [column.path for column in operation.columns]

            def decode(values: list[Any]) -> list[Any]:
                return [
                    functions[path][0](value, functions[path][1]) if path in functions else value
                    for path, value in zip(paths, values, strict=True)
                ]

            dataset = _mapped(dataset, decode)
        inner = _datasets_in(features)
        return _with_datasets(dataset, inner, keys) if inner else dataset


def _sliced(records: Dataset, instruction: FileInstruction) -> Dataset:
    if instruction.skip:
        records = records.skip(instruction.skip)
    return records if instruction.is_whole else records.take(instruction.take)


def _readers(instructions: Sequence[FileInstruction]) -> int | None:
    """Return how many files are read at once by threads: the system reads local ones ahead."""
    return AUTOTUNE if any("://" in each.filename for each in instructions) else None


def _with_id(record: Any, identity: Any) -> Any:
    name, number = identity
    return record, strings.join([name, strings.as_string(number)], separator="__")


def interleaved(runs: Sequence[np.ndarray], turns: int, block: int) -> np.ndarray:
    """Return the values of runs in the order in which an interleaving visits them.

    Args:
        runs: arrays (n,).
        turns: how many are visited by turns.
        block: how many values of one follow one another.
    """
    if turns == 1 or len(runs) == 1:
        return np.concatenate(runs)
    waiting = list(runs[::-1])
    open_runs: list[tuple[np.ndarray, int] | None] = [
        (waiting.pop(), 0) if waiting else None for _ in range(turns)
    ]
    found: list[np.ndarray] = []
    while any(each is not None for each in open_runs):
        for slot, each in enumerate(open_runs):
            if each is None:
                continue
            run, at = each
            found.append(run[at : at + block])
            # An interleaving notices the end of a run when it asks for one value more.
            ended = len(run) - at < block
            if not ended:
                open_runs[slot] = (run, at + block)
            else:
                open_runs[slot] = (waiting.pop(), 0) if waiting else None
    return np.concatenate(found)


def _mapped(dataset: Dataset, function: Callable[[list[Any]], list[Any]]) -> Dataset:
    structure = flatten(dataset.element_spec)[1]

    def on_structure(*element: Any) -> Any:
        whole = element if structure.kind == "tuple" else element[0]
        return structure.unflatten(function(structure.flatten(whole)))

    return dataset.map(on_structure, AUTOTUNE)


def _datasets_in(feature: FeatureConnector, path: str = "") -> list[str]:
    """Return the paths of datasets inside of an example."""
    if isinstance(feature, DatasetFeature):
        return [path]
    if isinstance(feature, FeaturesDict):
        return [
            found
            for name, each in feature.items()
            for found in _datasets_in(each, joined(path, name))
        ]
    inner = getattr(feature, "feature", None)
    if isinstance(inner, FeatureConnector) and _datasets_in(inner, path):
        raise NotImplementedError(f"feature {path!r}: datasets in sequences are not read")
    return []


def _with_datasets(dataset: Dataset, paths: Sequence[str], keys: Any) -> Dataset:
    """Make datasets of the steps that an example has under the paths.

    Args:
        dataset: of examples.
        paths: of steps.
        keys: the names of the parts of an example that is no dictionary.
    """
    spec = dataset.element_spec

    def named(value: Any, specs: Any, path: str) -> Any:
        if path in paths:
            return _steps(value, specs)
        if isinstance(specs, dict):
            return {name: named(value[name], specs[name], joined(path, name)) for name in specs}
        return value

    def chosen(value: Any, specs: Any, wanted: Any) -> Any:
        if isinstance(wanted, str):
            return named(value, specs, wanted)
        if isinstance(wanted, dict):
            return {name: chosen(value[name], specs[name], wanted[name]) for name in wanted}
        return tuple(map(chosen, value, specs, wanted))

    if keys is None:
        return dataset.map(lambda element: named(element, spec, ""), AUTOTUNE)
    return dataset.map(lambda *element: chosen(element, spec, keys), AUTOTUNE)


def _steps(value: Any, specs: Any) -> Dataset:
    values, structure = flatten(value)
    described, _ = flatten(specs)
    columns, inner = [], []
    for column, spec in zip(values, described, strict=True):
        if isinstance(spec, RaggedTensorSpec):
            inner.append(spec.row())
            columns.append(objects(column) if spec.ragged_rank > 1 else column)
        else:
            inner.append(TensorSpec(spec.shape[1:], spec.dtype))
            varies = None in spec.shape[1:]
            columns.append(
                ArrayRows(list(column), spec.dtype, len(spec.shape) - 1) if varies else column
            )
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"the features of a dataset have different numbers of steps: {lengths}")
    element = ElementSpec(structure, tuple(inner))
    return Dataset(Slices((), element, tuple(columns), lengths.pop()))
