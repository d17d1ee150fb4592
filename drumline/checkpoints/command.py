"""The command ``drumline checkpoint``: show, verify and convert checkpoints of any format."""

from __future__ import annotations

import contextlib
import enum
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from drumline.checkpoints.reader import SavedTensors

app = typer.Typer(
    help="Checkpoints of drumline, Orbax, Hugging Face (safetensors) and Keras: what is in them, "
    "whether they are whole, and writing them in another format.",
    no_args_is_help=True,
)

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

_Path = Annotated[Path, typer.Argument(help="A checkpoint: a file, a prefix or a directory.")]


class Target(enum.StrEnum):
    """The formats that are written."""

    safetensors = "safetensors"
    drumline = "drumline"
    orbax = "orbax"


@app.command()
def show(
    path: _Path,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show names, shapes and dtypes of all tensors; no values are read."""
    from drumline.checkpoints.formats import open_checkpoint

    with _failing() as console:
        reader = open_checkpoint(path)
        if as_json:
            typer.echo(json.dumps(described(reader), indent=1))
        else:
            _print_table(reader, console)


@app.command()
def verify(
    path: _Path,
    finite: Annotated[
        bool, typer.Option("--finite", help="Values that are infinite or NaN are defects, too.")
    ] = False,
) -> None:
    """Read everything; print a line for each defect, and end with 1 if there is one."""
    from drumline.checkpoints.formats import verify_checkpoint

    with _failing():
        count = 0
        for defect in verify_checkpoint(path, finite=finite):
            typer.echo(str(defect))
            count += 1
    if count:
        raise typer.Exit(1)
    typer.echo(f"{path}: no defect was found")


@app.command()
def convert(
    source: _Path,
    destination: Annotated[Path, typer.Argument(help="What to write; see the documentation.")],
    to: Annotated[Target, typer.Option(help="The format to write.")] = Target.safetensors,
    dtype: Annotated[
        str | None, typer.Option(help="Of floating-point tensors, as bfloat16 or float8_e4m3fn.")
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rename a tensor; * stands for any characters."),
    ] = None,
    rename_file: Annotated[
        Path | None, typer.Option(help="A JSON object with new names by old ones.")
    ] = None,
    shard_size: Annotated[
        str | None, typer.Option(help="Of each safetensors file in a directory: 5GB, 500MiB.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a checkpoint in another format, under other names or with another dtype."""
    from drumline.checkpoints.conversion import convert_checkpoint, left_out_of, with_rules
    from drumline.checkpoints.formats import open_checkpoint

    with _failing() as console, _progress(console) as progress:
        left_out = left_out_of(open_checkpoint(source), to.value)
        written = convert_checkpoint(
            source,
            destination,
            to.value,
            dtype=dtype,
            rename=with_rules(rename or [], rename_file),
            shard_size=None if shard_size is None else bytes_in(shard_size),
            force=force,
            progress=progress,
        )
    for each in left_out:
        typer.echo(f"left out: {each}")
    typer.echo(f"wrote {written}")


def bytes_in(text: str) -> int:
    """A number of bytes, as ``5GB`` (powers of 1000) or ``500MiB`` (of 1024).

    Raises:
        typer.BadParameter: it is none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size, such as 5GB or 500MiB.")
    number, unit, binary = match.groups()
    if binary and not unit:
        raise typer.BadParameter(f"{text!r} is no size, such as 5GB or 500MiB.")
    size = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    if size < 1:
        raise typer.BadParameter("a size is positive")
    return size


def described(reader: SavedTensors) -> dict[str, Any]:
    """What is shown, as objects that JSON has."""
    return {
        "path": str(reader.path),
        "format": str(reader.format),
        "step": reader.step,
        "processes": reader.writers,
        "files": {str(file): file.stat().st_size for file in reader.files},
        "values": sum(entry.size for entry in reader.tensors.values()),
        "bytes": sum(entry.nbytes for entry in reader.tensors.values()),
        "tensors": [
            {
                "name": entry.name,
                "shape": list(entry.shape),
                "dtype": str(entry.dtype),
                "bytes": entry.nbytes,
                "file": str(entry.file),
                "offset": entry.offset,
                "parts": entry.parts,
            }
            for entry in reader.tensors.values()
        ],
        "about": reader.about,
        "left_out": reader.left_out,
    }


def _print_table(reader: SavedTensors, console: Console) -> None:
    from rich.filesize import decimal
    from rich.markup import escape
    from rich.table import Table

    tensors = reader.tensors.values()
    is_cut = len({(entry.file, entry.parts) for entry in tensors}) > 1
    table = Table(box=None, title=escape(str(reader.path)), title_justify="left")
    table.add_column("name", overflow="fold")
    for column in ("shape", "dtype"):
        table.add_column(column)
    table.add_column("size", justify="right")
    if is_cut:
        table.add_column("where", overflow="fold")
    for entry in tensors:
        shape = " x ".join(map(str, entry.shape)) or "scalar"
        where = entry.file.name + (f", {entry.parts} parts" if entry.parts > 1 else "")
        cells = [escape(entry.name), shape, str(entry.dtype), decimal(entry.nbytes)]
        table.add_row(*cells, *([escape(where)] if is_cut else []))
    console.print(table)
    on_disk = sum(file.stat().st_size for file in reader.files)
    dtypes = Counter[str]()
    for entry in tensors:
        dtypes[str(entry.dtype)] += entry.nbytes
    facts = {
        "format": str(reader.format),
        "step": None if reader.step is None else f"{reader.step:,}",
        "tensors": f"{len(tensors):,}, {sum(entry.size for entry in tensors):,} values, "
        f"{decimal(sum(entry.nbytes for entry in tensors))}",
        "dtypes": ", ".join(f"{name} {decimal(size)}" for name, size in dtypes.most_common()),
        "files": f"{len(reader.files):,}, {decimal(on_disk)} on the disk",
        "processes": f"{reader.writers:,}",
        "about": reader.about,
        "besides": "; ".join(reader.left_out),
    }
    console.print()
    for name, fact in facts.items():
        if fact:
            console.print(f"[bold]{name}[/]: {escape(fact)}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _failing() -> Iterator[Console]:
    """Print what went wrong, and end with 1."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    try:
        yield console
    except (OSError, ValueError, ImportError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        console.print(f"[bold red]Failed:[/] {escape(text)}", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        console.print("\nInterrupted.")
        raise typer.Exit(_INTERRUPTED) from None


@contextlib.contextmanager
def _progress(console: Console) -> Iterator[Any]:
    """A bar on a terminal, for what takes long; nothing else."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("")

        def advance(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield advance
