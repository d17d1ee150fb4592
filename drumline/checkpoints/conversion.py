"""Writing the tensors of one checkpoint as another, tensor by tensor.

What is wrong with names and dtypes is found before anything is written. A destination is written
beside its place, under another name, and takes it when all is on the disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from drumline import _safetensors
from drumline._local_path import local_path, sync
from drumline._safetensors import SUFFIX, ArrayLayout
from drumline.checkpoints import orbax_files
from drumline.checkpoints.formats import open_checkpoint, renamed
from drumline.checkpoints.orbax_files import OrbaxWriter
from drumline.checkpoints.reader import (
    CheckpointFormat,
    SavedTensors,
    TensorEntry,
    dtype_of,
    is_floating,
)
from drumline.checkpoints.safetensors_files import (
    INDEX_SUFFIX,
    DrumlineReader,
    SafetensorsReader,
    split_into_shards,
)

SHARD_BYTES = 5_000_000_000
"""Of a file of a set of safetensors files, where nothing else is said."""

Progress = Callable[[str, int, int], None]
"""Takes the name of a tensor, and the bytes that are written and that will be."""

_RESERVED = "__metadata__"


class ConversionError(ValueError):
    """A checkpoint cannot be written as it was asked for; nothing was written."""


class _Planned(NamedTuple):
    """A tensor of the destination: where it comes from, its name and its dtype."""

    source: TensorEntry
    name: str
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return self.source.size * self.dtype.itemsize


def convert_checkpoint(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    to: str = CheckpointFormat.SAFETENSORS,
    *,
    dtype: str | None = None,
    rename: Mapping[str, str] | None = None,
    shard_size: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a checkpoint in another format, under other names, or with another dtype.

    It is written tensor by tensor, of which one is in memory at a time, or 32 MiB of it. The
    destination appears whole or not at all.

    Args:
        source: as of `open_checkpoint`.
        destination: for ``"safetensors"`` a file, if it ends with ``.safetensors``, and else a
            directory with ``model.safetensors``, or with several files and their index; for
            ``"drumline"`` what `Checkpoint.read` takes, with or without ``.safetensors``; for
            ``"orbax"`` a directory.
        to: ``"safetensors"``, ``"drumline"`` or ``"orbax"``.
        dtype: of floating-point tensors, such as ``"bfloat16"``; others stay as they are. By
            default all do.
        rename: new names by old ones. A ``*`` in an old name stands for any characters, and a
            ``*`` in the new one for what it stood for there.
        shard_size: bytes of one safetensors file in a directory, 5 GB by default; a larger tensor
            has a file of its own.
        force: whether to replace what is at the destination.
        progress: is called with the name of a tensor, the bytes that are written, and how many
            there will be, when some more are.

    Returns:
        The path of what was written.

    Raises:
        ConversionError: names or dtypes cannot be in the destination's format, a value is too large
            for `dtype`, or a rule of `rename` matches nothing.
        CheckpointFileError: the source is damaged.
        FileExistsError: there is something at the destination.
        OSError: it cannot be written; what was there before is still there.
        MissingExtraError: it is of Orbax's format, and TensorStore is not installed.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> saved = dl.train.Checkpoint(v=dl.Variable([1.0, 2.0])).write(f"{folder}/ckpt")
        >>> file = dl.train.convert_checkpoint(
        ...     saved, f"{folder}/v.safetensors", rename={"*/variables/0": "*"}, dtype="bfloat16"
        ... )
        >>> dl.train.open_checkpoint(file).read("v")
        array([1, 2], dtype=bfloat16)
    """
    final = Path(local_path(destination, "convert_checkpoint", "a checkpoint"))
    form = _writable(to)
    reader = open_checkpoint(source)
    try:
        plan = _plan(reader, dtype, rename or {})
        if shard_size is not None and (
            shard_size < 1 or form is not CheckpointFormat.SAFETENSORS or final.suffix == SUFFIX
        ):
            raise ValueError(
                "shard_size is a number of bytes, for a directory of safetensors files."
            )
    except ValueError as error:
        raise ConversionError(str(error)) from error
    _refuse_what_cannot_be_in(form, plan)
    if form is CheckpointFormat.DRUMLINE and final.suffix != SUFFIX:
        final = final.with_name(final.name + SUFFIX)
    if os.path.lexists(final) and not force:
        raise FileExistsError(
            17, "it is there already, and would be replaced with --force (force=True)", str(final)
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    values = _CastTensors(reader, plan, progress)
    if form is CheckpointFormat.ORBAX:
        with _new_directory(final) as directory:
            writer = OrbaxWriter(directory, orbax_files.keys_of(each.name for each in plan))
            for each in plan:
                writer.write(each.name, each.source.shape, each.dtype, values.of(each))
            writer.finish()
    elif form is CheckpointFormat.DRUMLINE:
        with _new_file(final) as file:
            _write_drumline(file, reader, plan, values)
    elif final.suffix == SUFFIX:
        with _new_file(final) as file:
            _write_plain(file, plan, values, _texts(reader))
    else:
        with _new_directory(final) as directory:
            _write_set(directory, plan, values, _texts(reader), shard_size or SHARD_BYTES)
    return final


def left_out_of(reader: SavedTensors, to: str) -> list[str]:
    """What of a checkpoint is no tensor, and not in one of the format `to`."""
    is_kept = reader.format is CheckpointFormat.DRUMLINE and to == CheckpointFormat.DRUMLINE
    return [] if is_kept else reader.left_out


class _CastTensors:
    """Reads the values that are written, with their new dtypes."""

    def __init__(
        self, reader: SavedTensors, plan: Sequence[_Planned], progress: Progress | None
    ) -> None:
        self._reader = reader
        self._progress = progress
        self._total = sum(each.nbytes for each in plan)
        self._done = 0

    def of(self, planned: _Planned) -> Iterator[np.ndarray]:
        """Read a tensor's values, in order."""
        for piece in self._reader.pieces(planned.source.name):
            value = _cast(piece, planned)
            yield value
            self._done += value.nbytes
            if self._progress is not None:
                self._progress(planned.name, self._done, self._total)


def _cast(piece: np.ndarray, planned: _Planned) -> np.ndarray:
    if piece.dtype == planned.dtype:
        return piece
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        value = piece.astype(planned.dtype)
        lost = np.isfinite(piece) & ~np.isfinite(value)
    if lost.any():
        raise ConversionError(
            f"{planned.source.name!r} has {piece[int(np.argmax(lost))]!s}, which {planned.dtype} "
            "cannot hold."
        )
    return value


def _writable(to: str) -> CheckpointFormat:
    formats = [each for each in CheckpointFormat if each is not CheckpointFormat.KERAS]
    if to not in formats:
        names = ", ".join(map(repr, map(str, formats)))
        raise ConversionError(f"Checkpoints are written as {names}, got {to!r}.")
    return CheckpointFormat(to)


def _plan(reader: SavedTensors, dtype: str | None, rename: Mapping[str, str]) -> list[_Planned]:
    """What is to be written: tensors of large elements first, so that all lie aligned."""
    wanted = None if dtype is None else dtype_of(dtype)
    if wanted is not None and not is_floating(wanted):
        raise ValueError(f"{dtype!r} is no dtype of floating-point numbers.")
    names = renamed(reader.tensors, rename)
    plan = [
        _Planned(
            entry,
            names[entry.name],
            wanted if wanted is not None and is_floating(entry.dtype) else entry.dtype,
        )
        for entry in reader.tensors.values()
    ]
    return sorted(plan, key=lambda each: -each.dtype.itemsize)


def _refuse_what_cannot_be_in(form: CheckpointFormat, plan: Sequence[_Planned]) -> None:
    """Raise for names and dtypes that a format does not have.

    Raises:
        ConversionError: there are some; all of them are named.
    """
    wrong = []
    for each in plan:
        if form is CheckpointFormat.ORBAX:
            if not each.source.size:
                wrong.append(f"{each.name!r} has no values, and Orbax stores none such")
            if not orbax_files.holds(each.dtype):
                wrong.append(f"{each.name!r} has the dtype {each.dtype}")
        else:
            if not _safetensors.holds(each.dtype):
                wrong.append(f"{each.name!r} has the dtype {each.dtype}")
            if each.name == _RESERVED:
                wrong.append(f"{each.name!r} is what the header is called")
    if form is CheckpointFormat.ORBAX:
        try:
            orbax_files.keys_of(each.name for each in plan)
        except ValueError as error:
            wrong.append(str(error))
    for each in plan:
        try:
            each.name.encode()
        except UnicodeEncodeError:
            wrong.append(f"{each.name!r} is no text in UTF-8")
    if wrong:
        raise ConversionError(f"A checkpoint of {form} cannot have: {'; '.join(wrong)}.")


def _specs(plan: Iterable[_Planned]) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    return {each.name: (each.source.shape, each.dtype) for each in plan}


def _texts(reader: SavedTensors) -> dict[str, str]:
    """The metadata of a file for other programs."""
    if isinstance(reader, SafetensorsReader) and not isinstance(reader, DrumlineReader):
        return reader.texts
    # Hugging Face's libraries refuse a file that does not say for which framework it is; what they
    # do with "pt" is right for any.
    return {"format": "pt"}


def _write_plain(
    file: IO[bytes], plan: Sequence[_Planned], values: _CastTensors, texts: Mapping[str, str]
) -> None:
    file.write(_safetensors.plain_header(_specs(plan), texts))
    for each in plan:
        for piece in values.of(each):
            file.write(_safetensors.bytes_of(piece).data)


def _write_set(
    directory: Path,
    plan: Sequence[_Planned],
    values: _CastTensors,
    texts: Mapping[str, str],
    shard_size: int,
) -> None:
    """Write a file, or several and their index, to a directory."""
    by_name = {each.name: each for each in plan}
    shards = split_into_shards({each.name: each.nbytes for each in plan}, shard_size)
    files: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = (
            f"model-{number:05}-of-{len(shards):05}{SUFFIX}"
            if len(shards) > 1
            else f"model{SUFFIX}"
        )
        with open(directory / name, "xb") as file:
            _write_plain(file, [by_name[each] for each in shard], values, texts)
        files |= dict.fromkeys(shard, name)
    if len(shards) > 1:
        total = sum(each.nbytes for each in plan)
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(files.items()))}
        (directory / f"model{INDEX_SUFFIX}").write_text(json.dumps(index, indent=2) + "\n")


def _write_drumline(
    file: IO[bytes], reader: SavedTensors, plan: Sequence[_Planned], values: _CastTensors
) -> None:
    """Write what `Checkpoint.read` reads; the header, with the checksums, is written last."""
    own = reader.own if isinstance(reader, DrumlineReader) else {}
    new = {each.source.name: each.name for each in plan}
    aliases = {name: new.get(target, target) for name, target in own.get("aliases", {}).items()}
    metadata = {
        "states": own.get("states", {}),
        "aliases": aliases,
        "save_counter": reader.step or 0,
        "numbered": False,
        "saved_at": time.time_ns(),
        "token": secrets.token_hex(8),
        "kept": None,
    }
    layout = ArrayLayout(_specs(plan))
    checksums = dict.fromkeys(layout.places, 0)

    def header() -> bytes:
        digits = {name: f"{value:08x}" for name, value in checksums.items()}
        return layout.header({**metadata, _safetensors.CHECKSUMS: digits})

    file.write(header())
    for each in plan:
        for piece in values.of(each):
            content = _safetensors.bytes_of(piece)
            checksums[each.name] = _safetensors.checksum(content, checksums[each.name])
            file.write(content.data)
    file.seek(0)
    file.write(header())


@contextlib.contextmanager
def _new_file(final: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `final` when it is on the disk."""
    # It takes JAX and Keras along, which showing and checking checkpoints need not.
    from drumline.training.checkpoint.file_format import replacing

    if final.is_dir():
        raise IsADirectoryError(21, "it is a directory, which no file replaces", str(final))
    with replacing(final) as file:
        yield file


@contextlib.contextmanager
def _new_directory(final: Path) -> Iterator[Path]:
    """A directory that takes the place of `final` when it is on the disk.

    What is there is put aside before, and removed then: a program that is killed between the two
    renames leaves it beside its place, under a name that ends with ``.replaced``.
    """
    token = secrets.token_hex(6)
    directory = final.with_name(f"{final.name}.{token}.unfinished")
    directory.mkdir()
    aside = final.with_name(f"{final.name}.{token}.replaced")
    try:
        yield directory
        for each in [*directory.rglob("*"), directory]:
            sync(each)
        if os.path.lexists(final):
            os.rename(final, aside)
        try:
            os.rename(directory, final)
        except OSError:
            if os.path.lexists(aside):
                os.rename(aside, final)
            raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    sync(final.parent)
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside)
    else:
        aside.unlink(missing_ok=True)


def with_rules(pairs: Iterable[str], file: Path | None) -> dict[str, str]:
    """The rules of ``--rename`` and ``--rename-file``, in this order.

    Raises:
        ConversionError: one is not written ``OLD=NEW``, or the file is no JSON object of texts.
    """
    rules: dict[str, str] = {}
    for pair in pairs:
        old, separator, new = pair.partition("=")
        if not separator or not old or not new:
            raise ConversionError(f"--rename takes OLD=NEW, got {pair!r}.")
        rules[old] = new
    if file is not None:
        try:
            found = json.loads(file.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ConversionError(f"{str(file)!r} is no JSON: {error}") from error
        if not isinstance(found, dict) or not all(isinstance(new, str) for new in found.values()):
            raise ConversionError(f"{str(file)!r} is no JSON object with new names by old ones.")
        rules = {**rules, **{old: new for old, new in found.items() if old not in rules}}
    return rules
