"""Restoring some variables of a checkpoint, whatever servers wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drumline.distribute.parameter_server.server.part import Part
from drumline.distribute.parameter_server.server.parts import Parts
from drumline.distribute.parameter_server.server.restoring import (
    Piece,
    assign,
    check,
    pieces_of,
)
from drumline.distribute.parameter_server.server.shard_set import ShardSet


@dataclass(frozen=True)
class Wanted:
    """What to take of a variable.

    Attributes:
        key: what the checkpoint's files call it.
        value: whether its value is taken.
        state: whether its slots and its number of updates are.
    """

    key: str
    value: bool
    state: bool


def key_of(part: Part) -> str:
    """The key of the variable of which it is a part."""
    return part.name.rpartition("/")[0]


def restore_chosen(
    parts: Parts, shards: ShardSet, wanted: Mapping[str, Wanted], only_check: bool
) -> None:
    """Restore the parts here of some variables, or check that it can be done.

    Args:
        parts: those of this server.
        shards: what was saved.
        wanted: by the variables' keys here.
        only_check: whether to read and compare only; what was checked is not read twice.

    Raises:
        RestoreError: if rows of a part are in no file, or the part is another one there.
        RuleMismatchError: if a part has other slots there.
        DamagedCheckpointError: if what is taken of a file is damaged.
    """
    files = shards.all()
    for part in parts:
        each = wanted.get(key_of(part))
        if each is None:
            continue
        pieces = pieces_of(part, files, each.key)
        if not only_check:
            assign(part, pieces, each.value, each.state)
            continue
        check(part, pieces, whole=False, with_state=each.state)
        for piece in pieces:
            piece.file.verify(_names(piece, each))


def _names(piece: Piece, wanted: Wanted) -> list[str]:
    slots = [f"{piece.name}#{slot.name}" for slot in piece.slots] if wanted.state else []
    return [piece.name, *slots]
