"""What an iterator's state looks like, and how damage to it is found."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from typing import Any

from drumline.data.errors import IteratorStateError

_VERSION = 4
_KEYS = {"version", "plan", "seeds", "epoch", "form", "at", "used", "digest"}

IteratorState = dict[str, Any]


def sealed(
    plan: list[str], seeds: list[int], epoch: int, form: Any, at: Any, used: int
) -> IteratorState:
    """A state with a digest of all of it, which any change to it shows.

    Args:
        plan: what tells its operations from others.
        seeds: those drawn for operations that were given none.
        epoch: its number.
        form: what the stages depend on beside the plan.
        at: the position of the last stage before its last block.
        used: how many elements of that block were delivered.
    """
    state = {
        "version": _VERSION,
        "plan": plan,
        "seeds": seeds,
        "epoch": epoch,
        "form": form,
        "at": at,
        "used": used,
    }
    return {**state, "digest": _digest(state)}


def check_sealed(state: Any, plan: list[str]) -> None:
    """Rejects what is no whole state of a plan.

    Raises:
        IteratorStateError: it is not one of this version, was changed, or is of another plan.
    """
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise IteratorStateError(
            f"not a dataset iterator's state of version {_VERSION}: {state!r:.80}. Give the "
            "dict that iterator.state() returned under this version of drumline"
        )
    if missing := _KEYS - set(state):
        raise IteratorStateError(f"the iterator's state is damaged: it lacks {sorted(missing)}")
    if state["digest"] != _digest({k: v for k, v in state.items() if k != "digest"}):
        raise IteratorStateError(
            "the iterator's state is damaged: it is not as it was when it was taken; restore "
            "another checkpoint, or begin the epoch anew"
        )
    if state["plan"] != plan:
        raise IteratorStateError(
            f"the state was taken from another dataset: {_difference(state['plan'], plan)}. Build "
            "the same operations with the same arguments and seeds before restoring"
        )


def _difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """The first operation, from the source on, that is another one."""
    pairs = itertools.zip_longest(theirs, ours, fillvalue="nothing")
    number, (there, here) = next(
        (number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1]
    )
    there, here = there.split()[0], here.split()[0]
    if there == here:
        return f"its operation {number}, {there}, has other arguments, elements or seeds"
    return f"its operation {number} is {there}, where this one's is {here}"


def _digest(state: IteratorState) -> str:
    try:
        text = json.dumps(state, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise IteratorStateError(f"the iterator's state is damaged: {error}") from error
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
