"""`GeneratorBasedBuilder`: a dataset whose examples are generated, and written to files once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from drumline._local_path import has_scheme
from drumline.datasets.builder import DatasetBuilder, Preparation, resolve_data_dir
from drumline.datasets.features.connector import BadItemError, FeatureConnector, FeatureError
from drumline.datasets.features.stored_values import ExampleEncoder
from drumline.datasets.info import DatasetInfo, SplitInfo, Splits, SupervisedKeys
from drumline.datasets.prepared.builder import FilesBuilder
from drumline.datasets.prepared.directories import (
    TEMPLATE,
    DatasetName,
    Folder,
    default_data_dir,
    find_prepared,
    places_to_look,
    shard_names,
)
from drumline.datasets.prepared.info_json import info_files, read_info
from drumline.datasets.prepared.reading import PreparedReader
from drumline.datasets.prepared.writing import (
    WRITERS,
    Key,
    OrderedRecords,
    complete_directory,
    locked,
    write_shards,
)
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.progress import ProgressBars, progress
from drumline.datasets.sources.resource import Resource

Examples = Iterable[tuple[Key, Any]]
"""What ``_generate_examples`` yields: keys, each of one example, and examples."""

_MADE_AHEAD = 1
"""Blocks of examples that wait for their records."""

_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclasses.dataclass(eq=False)
class BuilderConfig:
    """A variant of a dataset, as ``tfds.core.BuilderConfig``; subclass it for more attributes.

    Attributes:
        name: of the variant.
        version: of its data; that of the builder unless given.
        description: what is particular in it.
    """

    name: str
    version: str | None = None
    description: str | None = None


def find_config(name: str, configs: Sequence[BuilderConfig], config: Any) -> BuilderConfig | None:
    """Return a configuration by its name, the first for ``None``, or the one that is given.

    Raises:
        ValueError: there is none of the name.
    """
    if isinstance(config, BuilderConfig):
        return config
    if not configs:
        if config is not None:
            raise ValueError(f"{name} has no configuration {config!r}: leave it out")
        return None
    if config is None:
        return configs[0]
    for each in configs:
        if each.name == config:
            return each
    known = ", ".join(each.name for each in configs)
    raise ValueError(f"{name} has no configuration {config!r}. There are: {known}.")


@dataclasses.dataclass(eq=False)
class DeclaredConfig(BuilderConfig):
    """A variant that differs in what a builder declares; what is ``None`` is the builder's.

    Attributes:
        features: of an example, by name.
        supervised_keys: the names of input and target.
        splits: how many examples each split is known to have.
        homepage: where the data come from.
        citation: whom to cite.
        resources: what is downloaded, by any name.
    """

    features: Mapping[str, Any] | FeatureConnector | None = None
    supervised_keys: SupervisedKeys | None = None
    splits: Mapping[str, int] | None = None
    homepage: str | None = None
    citation: str | None = None
    resources: Mapping[str, Resource] | None = None


class GeneratorBasedBuilder(FilesBuilder):
    """Generates examples and writes them to files, as ``tfds.core.GeneratorBasedBuilder``.

    A subclass sets ``VERSION`` and implements ``_info``, ``_split_generators`` and
    ``_generate_examples``; one that sets ``FEATURES`` needs no ``_info``. The files are those that
    TensorFlow Datasets writes, which reads them, in the same order: that of the hashes of the
    examples' keys.

    Args:
        data_dir: the directory with prepared datasets; see `load`.
        config: the name of one of ``BUILDER_CONFIGS``, or one; the first unless given.
        version: which is wanted of prepared data.

    Attributes:
        name: the name `load` knows it by; that of the class unless given, as ``my_dataset``.
        VERSION: of the data.
        BUILDER_CONFIGS: its variants.
        RELEASE_NOTES: what changed in versions.
        MANUAL_DOWNLOAD_INSTRUCTIONS: how to get files that cannot be downloaded.
        RESOURCES: sizes and checksums of what it downloads, by any name.
        MANUAL_RESOURCES: the same of files that cannot be downloaded.
        FEATURES: of an example, by name. It is what `dataset_info` is given, as those that follow;
            a `DeclaredConfig` may have others.
        SUPERVISED_KEYS: the names of input and target.
        SPLITS: how many examples each split is known to have; 0 if that is not known.
        HOMEPAGE: where the data come from.
        CITATION: whom to cite.
        LICENSE: under which the data are given.
        NOTES: what else there is to know.

    Raises:
        ValueError: there is no such configuration or version.

    Example:
        >>> class Squares(dl.datasets.GeneratorBasedBuilder):
        ...     VERSION = "1.0.0"
        ...
        ...     def _info(self):
        ...         return self.dataset_info(features={"n": np.int64, "square": np.int64})
        ...
        ...     def _split_generators(self, dl_manager):
        ...         return {"train": self._generate_examples(100)}
        ...
        ...     def _generate_examples(self, count):
        ...         for n in range(count):
        ...             yield n, {"n": n, "square": n * n}
    """

    VERSION: ClassVar[Any] = None
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = ()
    RELEASE_NOTES: ClassVar[Mapping[str, str]] = {}
    MANUAL_DOWNLOAD_INSTRUCTIONS: ClassVar[str | None] = None
    RESOURCES: ClassVar[Mapping[str, Resource]] = {}
    MANUAL_RESOURCES: ClassVar[Mapping[str, Resource]] = {}
    FEATURES: ClassVar[Mapping[str, Any] | FeatureConnector | None] = None
    SUPERVISED_KEYS: ClassVar[SupervisedKeys | None] = None
    SPLITS: ClassVar[Mapping[str, int]] = {}
    HOMEPAGE: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""
    LICENSE: ClassVar[str] = ""
    NOTES: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        if "name" not in vars(cls):
            cls.name = _CAPITALS.sub("_", cls.__name__).lower()

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        config: str | BuilderConfig | None = None,
        version: str | None = None,
    ) -> None:
        self.builder_config = find_config(self.name, self.BUILDER_CONFIGS, config)
        own = getattr(self.builder_config, "version", None) or self.VERSION
        if own is None:
            raise ValueError(f"{type(self).__name__} needs a VERSION, as '1.0.0'")
        self.version = str(own)
        name = self.builder_config.name if self.builder_config else None
        wanted = DatasetName(self.name, name, version or self.version)
        self._places = places_to_look(data_dir)
        self._is_remote = data_dir is not None and has_scheme(data_dir)
        try:
            self._folder = find_prepared(wanted, self._places)
        except ValueError:
            if version is not None and version != self.version:
                raise
            self._folder = None
        base = default_data_dir() if data_dir is None else Path(data_dir).expanduser()
        self.data_root = base
        parts = [self.name, *([name] if name else []), self.version]
        self.data_dir = base.joinpath(*parts)
        self.source_dir = resolve_data_dir(self.name, data_dir)

    @classmethod
    def open_named(
        cls, wanted: DatasetName, data_dir: str | os.PathLike[str] | None
    ) -> DatasetBuilder:
        """Return the builder of a name; what is prepared in another version is read as it is."""
        return cls(data_dir, wanted.config, wanted.version)

    def _info(self) -> DatasetInfo:
        """Describe the data: return what ``self.dataset_info(...)`` gives."""
        return self.dataset_info(
            features=self._features(),
            supervised_keys=self._declared("SUPERVISED_KEYS"),
            homepage=self._declared("HOMEPAGE"),
            citation=self._declared("CITATION"),
            license=self.LICENSE,
            splits=self._declared("SPLITS"),
            notes=self.NOTES,
        )

    def _features(self) -> Mapping[str, Any] | FeatureConnector:
        """Return the features of an example: those that are declared."""
        found: Mapping[str, Any] | FeatureConnector | None = self._declared("FEATURES")
        if found is None:
            raise NotImplementedError(f"{type(self).__name__} has neither _info nor FEATURES")
        return found

    def _declared(self, name: str) -> Any:
        own = getattr(self.builder_config, name.lower(), None)
        return getattr(self, name) if own is None else own

    @property
    def resources(self) -> Mapping[str, Resource]:
        """What is downloaded for the configuration, by any name."""
        found: Mapping[str, Resource] = self._declared("RESOURCES")
        return found

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        """Return for each split what yields its examples."""
        raise NotImplementedError(f"{type(self).__name__} has no _split_generators")

    def dataset_info(
        self,
        *,
        features: Mapping[str, Any] | FeatureConnector,
        supervised_keys: SupervisedKeys | None = None,
        description: str = "",
        homepage: str = "",
        citation: str = "",
        license: str = "",
        disable_shuffling: bool = False,
        splits: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
    ) -> DatasetInfo:
        """Return a description with the builder's name, version and configuration.

        Args:
            features: of an example, by name.
            supervised_keys: the names of input and target.
            description: what the data are; by default the builder's docstring.
            homepage: where they come from.
            citation: whom to cite.
            license: under which they are given.
            disable_shuffling: whether examples are kept in the order of their keys, which are
                numbers.
            splits: how many examples each split is known to have.
            notes: what else there is to know.
        """
        config = self.builder_config
        sizes = {resource.url: resource.size or 0 for resource in self.resources.values()}
        if self._folder is None and not self.resources and self.MANUAL_DOWNLOAD_INSTRUCTIONS:
            notes = (self._how_to_place_files(), *notes)
        unknown = [each.filename for each in self.resources.values() if each.sha256 is None]
        if unknown:
            files = ", ".join(dict.fromkeys(unknown))
            notes = (*notes, f"No checksum is known of {files}: taken as it comes.")
        return DatasetInfo(
            name=self.name,
            splits=Splits(dict(splits or {})),
            features=features,
            supervised_keys=supervised_keys,
            description=description or (type(self).__doc__ or "").strip(),
            source=homepage,
            citation=citation,
            license=license,
            version=self.version,
            config_name=config.name if config else "",
            config_description=(config.description or "") if config else "",
            download_size=sum(sizes.values()),
            disable_shuffling=disable_shuffling,
            release_notes=dict(self.RELEASE_NOTES),
            module_name=type(self).__module__,
            notes=tuple(notes),
        )

    dataset_info_from_configs = dataset_info

    def make_info(self) -> DatasetInfo:
        """Return the description, with the sizes of the splits once they are prepared."""
        if self._folder is None:
            return self._info()
        found = read_info(self._folder)
        return dataclasses.replace(found, notes=self._info().notes)

    @property
    def is_prepared(self) -> bool:
        """Whether the files are there."""
        return self._folder is not None

    def _prepare(self, wanted: Preparation) -> None:
        if self._folder is not None:
            return
        if self._is_remote:
            raise ValueError(
                f"{self.name} is prepared in a local directory, and {self._places[0]} has a "
                "scheme: prepare it there, copy the directory, and read it from where it is"
            )

        form = wanted.file_format
        if form not in WRITERS:
            raise ValueError(f"file_format must be one of {', '.join(WRITERS)}, got {form!r}")
        downloads = Path(wanted.download_dir or self.data_root / "downloads")
        manual = Path(wanted.manual_dir or downloads / "manual")
        manager = DownloadManager(
            downloads,
            manual,
            self.name,
            {resource.url: resource for resource in self.resources.values()},
            self.MANUAL_DOWNLOAD_INSTRUCTIONS,
            self.MANUAL_RESOURCES.values(),
        )
        final = self.data_dir
        with locked(final.parent / f".{final.name}.lock"):
            if not Folder(final).is_prepared:
                shards, most = wanted.num_shards, wanted.max_examples_per_split
                with complete_directory(final) as place:
                    self._write(place, manager, form, shards, most)
                self._note_default_config()
        self._folder = Folder(final)
        self.__dict__.pop("info", None)
        self.__dict__.pop("reader", None)

    def _note_default_config(self) -> None:
        """Write which configuration is meant where none is named."""
        place = self.data_root / self.name / ".config"
        if self.BUILDER_CONFIGS and not (place / "metadata.json").exists():
            place.mkdir(exist_ok=True)
            default = {"default_config_name": self.BUILDER_CONFIGS[0].name}
            (place / "metadata.json").write_text(json.dumps(default), encoding="utf-8")

    def _write(
        self,
        place: Path,
        manager: DownloadManager,
        form: str,
        shards: int | None,
        most: int | None,
    ) -> None:
        info = self.info
        splits: dict[str, int | SplitInfo] = {}
        with progress() as shown:
            manager.progress = shown
            generators = self._split_generators(manager)
            encoder = ExampleEncoder(info.features)
            for name, examples in generators.items():
                splits[name] = self._write_split(
                    name, examples, place, encoder, info, form, shards, most, shown
                )
        written = dataclasses.replace(
            info,
            splits=Splits(splits),
            file_format=form,
            download_size=manager.downloaded_size or info.download_size,
        )
        for name, text in info_files(written).items():
            (place / name).write_text(text, encoding="utf-8")

    def _write_split(
        self,
        split: str,
        examples: Examples,
        place: Path,
        encoder: ExampleEncoder,
        info: DatasetInfo,
        form: str,
        shards: int | None,
        most: int | None,
        shown: ProgressBars,
    ) -> SplitInfo:
        def paths(count: int) -> list[Path]:
            return [place / each for each in shard_names(TEMPLATE, self.name, split, form, count)]

        ordered = OrderedRecords(split, info.disable_shuffling, place)
        with contextlib.closing(ordered) as records:
            with shown.task(f"{self.name}: {split}", None) as task:
                self._encode(split, examples, encoder, records, most, task.advance)
            if not records.count:
                raise ValueError(f"{self.name}: the split {split!r} has no examples")
            lengths = write_shards(records, paths, form, shards)
        return SplitInfo(split, sum(lengths), tuple(lengths), records.nbytes)

    def _encode(
        self,
        split: str,
        examples: Examples,
        encoder: ExampleEncoder,
        records: OrderedRecords,
        most: int | None,
        advance: Callable[[int], None],
    ) -> None:
        """Add the records of examples, at most so many.

        A thread makes records, on all cores, while the next examples are generated.
        """
        given, keys = 0, list[Key]()
        waiting: deque[tuple[list[Key], Future[list[bytes]]]] = deque()

        def failed(key: Key, error: ValueError) -> FeatureError:
            return FeatureError(f"{self.name}: split {split!r}, example {key!r:.80}: {error}")

        def add_made() -> None:
            found, made = waiting.popleft()
            try:
                for key, record in zip(found, made.result(), strict=True):
                    records.add(key, record)
            except BaseException as error:
                waiting.clear()  # what was added later is not to be named
                if isinstance(error, BadItemError):
                    raise failed(found[error.item], error) from None
                raise
            advance(len(found))

        with ThreadPoolExecutor(1, "drumline-examples") as maker:
            try:
                for key, example in examples:
                    try:
                        encoder.add(example)
                    except FeatureError as error:
                        raise failed(key, error) from None
                    keys.append(key)
                    given += 1
                    if given == most:
                        break
                    if encoder.is_full:
                        waiting.append((keys, maker.submit(encoder.begin_taking())))
                        keys = []
                        if len(waiting) > _MADE_AHEAD:
                            add_made()
                waiting.append((keys, maker.submit(encoder.begin_taking())))
            finally:  # also after an error: that of an earlier example is the one to name
                while waiting:
                    add_made()

    def as_dataset(self, split: Any = None, **options: Any) -> Any:
        """The dataset of a split expression, or a structure of them; see `load`.

        Raises:
            FileNotFoundError: the files are not there.
        """
        self.reader  # noqa: B018
        return super().as_dataset(split, **options)

    @functools.cached_property
    def reader(self) -> PreparedReader:
        """What makes datasets of the files.

        Raises:
            FileNotFoundError: they are not there.
        """
        if self._folder is None:
            raise FileNotFoundError(
                f"{self.info.full_name} is not prepared: {self.data_dir} is not there (nor is it "
                f"in {', '.join(self._places)}). Load it with download=True, or call "
                f"download_and_prepare() or the command 'drumline datasets prepare {self.name}'. "
                f"{self._how_to_place_files()}".rstrip()
            )
        return PreparedReader(self._folder, self.info)

    def _how_to_place_files(self) -> str:
        if not self.resources and self.MANUAL_DOWNLOAD_INSTRUCTIONS:
            return (
                "It needs files that cannot be downloaded, in manual_dir ('downloads/manual' in "
                f"the directory of datasets unless given). {self.MANUAL_DOWNLOAD_INSTRUCTIONS}"
            )
        names = ", ".join(resource.filename for resource in self.resources.values())
        return f"It is made of {names}." if names else ""
