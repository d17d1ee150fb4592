"""What can be wrong with a step that is to run on workers, and with a program that was sent."""

from __future__ import annotations


class StepError(ValueError):
    """A step does something that cannot be done on workers with parameter servers."""


class WholeTableReadError(StepError):
    """A step needs more of a table than the rows it looks up.

    Attributes:
        key: the table's key.
        path: what its user calls it.
        primitive: the operation that needs it, as JAX names it.
        line: where the user wrote it.
    """

    def __init__(self, key: str, path: str, primitive: str, line: str) -> None:
        super().__init__(
            f"The table {path!r} is used by `{primitive}` at {line}, which needs all of its rows; "
            "workers fetch only the rows that a step looks up, as in keras.layers.Embedding or "
            "keras.ops.take(table, ids, axis=0). Look rows up first and compute with those (an "
            "activity regularizer in the place of a regularizer of the table), or let the variable "
            "be no table."
        )
        self.key, self.path, self.primitive, self.line = key, path, primitive, line


class OptimizerError(StepError):
    """An optimizer cannot update variables on parameter servers."""


class ProgramError(RuntimeError):
    """A program cannot be made or cannot be loaded here."""


class CorruptProgramError(ProgramError):
    """The bytes of a program are not what was written."""
