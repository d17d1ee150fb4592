"""What ``drumline datasets`` does: list, info, prepare and verify."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drumline.data.elements.errors import DataLossError
from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.info import shown_size
from drumline.datasets.prepared.builder import PreparedBuilder
from drumline.datasets.prepared.directories import Folder, places_to_look, versions_in
from drumline.datasets.prepared.generator import GeneratorBasedBuilder
from drumline.datasets.registry import builder, builder_class, list_builders

_FAULTS = (OSError, ValueError, NotImplementedError, ImportError, DataLossError)


class CommandError(Exception):
    """A command failed; the message is what the user is shown."""


def show_list(data_dir: Path | None, console: Console) -> None:
    """Print the datasets that can be made, and those that are prepared."""
    table = Table(box=None, title="Datasets", title_justify="left", title_style="bold")
    for column in ("name", "what it is", "prepared"):
        table.add_column(column, overflow="fold")
    prepared = _prepared(data_dir)
    for name in sorted({*list_builders(), *prepared}):
        found = builder_class(name)
        about = ((found.__doc__ if found else "") or "").strip().split("\n")[0]
        table.add_row(name, escape(about), ", ".join(prepared.get(name, [])))
    console.print(table)


def _prepared(data_dir: Path | None) -> dict[str, list[str]]:
    """Return configurations and versions that are prepared, by the datasets' names."""
    found: dict[str, list[str]] = {}
    for place in places_to_look(data_dir):
        root = Folder(place)
        for name in root.names():
            folder = root.join(name)
            variants = [
                (each, folder.join(each)) for each in folder.names() if not each.startswith(".")
            ]
            here = [version for version in versions_in(folder) if folder.join(version).is_prepared]
            for variant, inner in variants:
                here += [
                    f"{variant}/{version}"
                    for version in versions_in(inner)
                    if inner.join(version).is_prepared
                ]
            if here:
                found.setdefault(name, []).extend(here)
    return found


def show_info(name: str, data_dir: Path | None, console: Console) -> None:
    """Print what is known of a dataset.

    Raises:
        CommandError: there is none.
    """
    try:
        made = _open(name, data_dir)
        console.print(made.info.page())
        configs = getattr(made, "BUILDER_CONFIGS", ())
        if configs:
            names = ", ".join(sorted(config.name for config in configs))
            console.print(f"\n[bold]Configurations[/]: {escape(names)}", soft_wrap=True)
    except _FAULTS as error:
        raise CommandError(str(error)) from error


def prepare(
    name: str,
    data_dir: Path | None,
    manual_dir: Path | None,
    file_format: str,
    console: Console,
) -> None:
    """Download and prepare a dataset, and print where it is.

    Raises:
        CommandError: that failed.
    """
    try:
        made = _open(name, data_dir)
        made.download_and_prepare(manual_dir=manual_dir, file_format=file_format)
        info = made.info
    except _FAULTS as error:
        raise CommandError(str(error)) from error
    place = info.data_dir or str(made.data_dir)
    console.print(
        f"[bold]{escape(info.full_name)}[/]: {info.splits.total_num_examples:,} examples, "
        f"{shown_size(info.dataset_size)} in {escape(place)}",
        soft_wrap=True,
    )


def verify(name: str, data_dir: Path | None, console: Console) -> None:
    """Read and decode all examples of a prepared dataset, and print what was found.

    Raises:
        CommandError: a file is missing or damaged, or has fewer examples than described.
    """
    try:
        made = _open(name, data_dir)
        if isinstance(made, PreparedBuilder | GeneratorBasedBuilder):
            missing = made.reader.missing()
            if missing:
                raise CommandError(f"missing: {', '.join(missing)}")
        for split, known in made.info.splits.items():
            count = sum(1 for _ in made.as_dataset(split))
            if count != known.num_examples:
                raise CommandError(
                    f"{split}: {count:,} examples were read, and {known.num_examples:,} are "
                    "described"
                )
            console.print(f"{escape(split)}: {count:,} examples, all of them whole")
    except _FAULTS as error:
        raise CommandError(str(error)) from error


def _open(name: str, data_dir: Path | None) -> DatasetBuilder:
    return builder(name, data_dir=data_dir)
