"""Writing what a server keeps, while it is trained."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.server.applied import AppliedPushes
from drumline.distribute.parameter_server.server.errors import SaveError
from drumline.distribute.parameter_server.server.part import Part
from drumline.distribute.parameter_server.server.part_snapshot import Snapshot
from drumline.distribute.parameter_server.server.shard_file import ShardWriter, Spec, shard_path


def save(
    parts: Sequence[Part],
    applied: AppliedPushes,
    directory: str | os.PathLike[str],
    server: int,
    servers: int,
    step: int | None,
) -> tuple[str, int]:
    """Write parts, each as it is at one moment after the call began.

    Args:
        parts: what is written, with the pushes that were applied to it.
        applied: these.
        directory: of the checkpoint; each server writes a file of its own there.
        server: the number of this server.
        servers: how many there are.
        step: what the checkpoint is called in messages.

    Returns:
        The file, and how many bytes it has.

    Raises:
        SaveError: if it cannot be written; the file that was there before is still there.
    """
    path = shard_path(directory, server, servers)
    with _snapshots(parts, applied) as (described, arrays, snapshots):
        metadata = {
            "step": step,
            "server": server,
            "servers": servers,
            "finished": applied.finished,
            "parts": described,
        }
        try:
            with ShardWriter(path, arrays, metadata) as writer:
                for snapshot in snapshots:
                    for name, piece in snapshot.pieces():
                        writer.append(name, piece)
                writer.finish()
        except OSError as error:
            raise SaveError(
                error.errno,
                f"Server {server} could not write its part of a checkpoint: {error}. What was "
                "there before is unchanged. Make room, or save to another directory; training "
                "can go on",
                str(path),
            ) from error
    return str(path), writer.nbytes


@contextlib.contextmanager
def _snapshots(
    parts: Sequence[Part], applied: AppliedPushes
) -> Iterator[tuple[dict[str, Any], dict[str, Spec], list[Snapshot]]]:
    described: dict[str, Any] = {}
    arrays: dict[str, Spec] = {}
    snapshots: list[Snapshot] = []
    begun: list[Part] = []
    try:
        for part in parts:
            with part.lock:
                described[part.name] = _described(part, applied)
                arrays.update(_specs(part))
                snapshots += part.begin_snapshot()
                begun.append(part)
        yield described, arrays, snapshots
    finally:
        for part in begun:
            with part.lock:
                part.end_snapshot()


def _described(part: Part, applied: AppliedPushes) -> dict[str, Any]:
    return {
        "table": part.is_table,
        "start": part.start,
        "iteration": part.iteration,
        "rule": part.rule_name,
        "slots": [slot.to_json() for slot in part.slot_list],
        "applied": applied.of_part(part.name),
    }


def _specs(part: Part) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    slots = {part.file_name(name): spec for name, spec in part.slot_specs().items()}
    return {part.file_name(): (part.shape, part.dtype), **slots}
