"""What is known of a dataset: `DatasetInfo`, its splits, and a page that shows it."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from drumline.datasets.features.connector import FeatureConnector
from drumline.datasets.features.containers import FeaturesDict, describe, to_feature
from drumline.datasets.features.tensors import ClassLabel
from drumline.datasets.split_expression import AbstractSplit, resolve_split

_WIDTH = 100
_FEW_CLASSES = 30
"""Whose names a page shows."""


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """One split, or what a split expression selects.

    Attributes:
        name: the split's name, or the expression.
        num_examples: how many examples it has.
        shard_lengths: how many each of its files has; empty if it is not in files.
        num_bytes: of the files; 0 if it is not known.
        filenames: of the files, without their directory.
    """

    name: str
    num_examples: int
    shard_lengths: tuple[int, ...] = ()
    num_bytes: int = 0
    filenames: tuple[str, ...] = ()

    @property
    def num_shards(self) -> int:
        """How many files it has."""
        return len(self.shard_lengths)


class Splits(Mapping[str, SplitInfo]):
    """The splits of a dataset by name; subscripting takes split expressions too.

    ``info.splits["train[:80%]"].num_examples`` says how many examples that is.

    Args:
        sizes: of each split the number of examples, or a `SplitInfo`.
    """

    def __init__(self, sizes: Mapping[str, int | SplitInfo]) -> None:
        self._splits = {
            name: size if isinstance(size, SplitInfo) else SplitInfo(name, size)
            for name, size in sizes.items()
        }

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return {name: each.num_examples for name, each in self._splits.items()}

    @property
    def shards(self) -> dict[str, int | Sequence[int]]:
        """The number of examples of each shard of each split, or of the split."""
        return {
            name: each.shard_lengths or each.num_examples for name, each in self._splits.items()
        }

    @property
    def total_num_examples(self) -> int:
        """The number of examples of all splits together."""
        return sum(self.sizes.values())

    def __getitem__(self, expression: str | AbstractSplit) -> SplitInfo:
        if isinstance(expression, str) and expression in self._splits:
            return self._splits[expression]
        ranges = resolve_split(expression, self.shards)
        return SplitInfo(str(expression), sum(part.stop - part.start for part in ranges))

    def __contains__(self, name: object) -> bool:
        return name in self._splits

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    def __repr__(self) -> str:
        return f"Splits({self.sizes})"


SupervisedKeys = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """A dataset's description, as ``tfds.core.DatasetInfo``. Printed, it is a page.

    Attributes:
        name: its name, as `load` takes it.
        splits: its splits and their sizes.
        features: of an example, by name; a ``TensorSpec`` stands for a tensor.
        supervised_keys: the names of input and target, which ``as_supervised`` yields.
        description: what the data are and how the splits were made.
        source: where the data come from; the homepage.
        citation: whom to cite.
        license: under which the data are given.
        version: of the data, as ``"1.0.0"``; empty if there are no versions.
        config_name: the name of the configuration; empty if there is one only.
        config_description: what is particular in it.
        download_size: bytes that are downloaded; 0 if it is not known.
        data_dir: the directory with the prepared files; empty if there is none.
        file_format: of these.
        disable_shuffling: whether examples are in the order in which they were generated.
        release_notes: what changed in versions.
        module_name: of the class that prepared the data.
        notes: what else there is to know, as that the layout of the files was not verified.
    """

    name: str
    splits: Splits
    features: Any
    supervised_keys: SupervisedKeys | None
    description: str
    source: str
    citation: str = ""
    license: str = ""
    version: str = ""
    config_name: str = ""
    config_description: str = ""
    download_size: int = 0
    data_dir: str = ""
    file_format: str = ""
    disable_shuffling: bool = False
    release_notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    module_name: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.features, FeatureConnector):
            features = {name: to_feature(spec) for name, spec in self.features.items()}
            object.__setattr__(self, "features", FeaturesDict(features))

    @property
    def homepage(self) -> str:
        """Where the data come from."""
        return self.source

    @property
    def full_name(self) -> str:
        """Name, configuration and version: ``"name/config/1.0.0"``."""
        return "/".join(each for each in (self.name, self.config_name, self.version) if each)

    @property
    def dataset_size(self) -> int:
        """Bytes of all prepared files; 0 if it is not known."""
        return sum(each.num_bytes for each in self.splits.values())

    def page(self) -> RenderableType:
        """Return what the command ``drumline datasets info`` prints, for a console of ``rich``."""
        parts: list[RenderableType] = [self._heading(), self._facts()]
        if len(self.splits):
            parts += [Text(""), self._splits()]
        parts += [Text(""), self._features(), *self._classes(), self._loading()]
        parts += [Text(note, style="yellow") for note in self.notes]
        if self.citation:
            parts += [Text("\nCitation", style="bold"), Text(self.citation, style="dim")]
        return Group(*parts)

    def _heading(self) -> Text:
        heading = Text(self.full_name, style="bold cyan")
        for text in (self.description, self.config_description):
            if text:
                heading.append("\n" + " ".join(text.split()), style="not bold default")
        return heading

    def _facts(self) -> Table:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        keys = self.supervised_keys
        facts = {
            "homepage": self.source,
            "license": self.license,
            "directory": self.data_dir,
            "files": self.file_format,
            "download": shown_size(self.download_size) if self.download_size else "",
            "prepared": shown_size(self.dataset_size) if self.dataset_size else "",
            "supervised": "" if keys is None else f"({', '.join(map(str, keys))})",
            "order": "as generated" if self.disable_shuffling else "",
        }
        for name, value in facts.items():
            if value:
                table.add_row(name, Text(value))
        return table

    def _splits(self) -> Table:
        table = Table(title="Splits", title_justify="left", title_style="bold", box=None)
        is_prepared = any(each.num_shards or each.num_bytes for each in self.splits.values())
        names = ("split", "examples", "shards", "size") if is_prepared else ("split", "examples")
        for name in names:
            table.add_column(name, justify="left" if name == "split" else "right")
        for name, each in self.splits.items():
            size = shown_size(each.num_bytes) if each.num_bytes else ""
            count = f"{each.num_examples:,}" if each.num_examples else "unknown"
            row = (name, count, str(each.num_shards or ""), size)
            table.add_row(*row[: len(names)])
        return table

    def _features(self) -> Table:
        table = Table(title="Features", title_justify="left", title_style="bold", box=None)
        for name in ("feature", "class", "shape", "dtype"):
            table.add_column(name, overflow="fold")
        for row in describe(self.features):
            table.add_row(*(Text(cell) for cell in row))
        return table

    def _classes(self) -> list[RenderableType]:
        """The names of classes, where they are few."""
        leaves = self.features.items() if isinstance(self.features, FeaturesDict) else ()
        lines = []
        for name, feature in leaves:
            names = feature.names if isinstance(feature, ClassLabel) else None
            if names and len(names) <= _FEW_CLASSES:
                lines.append(Text(f"{name}: {', '.join(names)}", style="dim"))
        return [Text(""), *lines] if lines else []

    def _loading(self) -> RenderableType:
        name = "/".join(each for each in (self.name, self.config_name) if each)
        split = next(iter(self.splits), "train")
        split = "train" if "train" in self.splits else split
        pairs = "" if self.supervised_keys is None else ", as_supervised=True"
        call = f'dl.datasets.load("{name}", split="{split}"{pairs})'
        return Group(Text("\nLoad", style="bold"), Text(call))

    def __str__(self) -> str:
        out = io.StringIO()
        console = Console(file=out, width=_WIDTH, color_system=None, force_terminal=False)
        console.print(self.page())
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def __repr__(self) -> str:
        splits = ", ".join(f"{name!r}: {size}" for name, size in self.splits.sizes.items())
        return (
            f"DatasetInfo(name={self.full_name!r}, splits={{{splits}}}, "
            f"features={self.features!r}, supervised_keys={self.supervised_keys})"
        )


def shown_size(nbytes: int) -> str:
    """Return a number of bytes for people: ``"1.5 MiB"``."""
    size, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        del units[0]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
