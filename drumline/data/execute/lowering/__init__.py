"""From a plan to running stages; importing it registers the rules."""

from drumline.data.execute.lowering import (
    batches,
    checking,
    choosing,
    combining,
    distributing,
    files,
    functions,
    keeping,
    nesting,
    ordering,
    placing,
    positions,
    randomness,
    snapshots,
    sources,
)
from drumline.data.execute.lowering.lower import Lowering, fill

RULES = (
    batches,
    checking,
    choosing,
    combining,
    distributing,
    files,
    functions,
    keeping,
    nesting,
    ordering,
    placing,
    positions,
    randomness,
    snapshots,
    sources,
)

__all__ = ["RULES", "Lowering", "fill"]
