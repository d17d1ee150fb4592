"""What a parameter server refuses, and why. A refused request has changed nothing."""

from __future__ import annotations


class RequestError(ValueError):
    """A request lacks a field or an array, or has one that does not belong there."""


class UnknownPartError(LookupError):
    """A request names a part that this server does not keep."""


class PartMismatchError(ValueError):
    """A value, a gradient or a rule does not fit the part that it is meant for."""


class UnknownRuleError(LookupError):
    """A part is to be updated by a rule that this server was not given."""


class RuleMismatchError(ValueError):
    """A rule is not the one that was given under its name before."""


class RowIndexError(IndexError):
    """A row is asked for that the part does not have."""


class RepeatedRowError(ValueError):
    """A push of rows names a row more than once."""


class RoundError(RuntimeError):
    """A synchronous round does not take this push: it is over, or of another size."""


class RoundAbandonedError(RuntimeError):
    """A synchronous round ended before all of its workers had pushed; nothing was applied."""


class PartLostError(RuntimeError):
    """A part's update failed half way, and its value is gone."""


class SaveError(OSError):
    """A server could not write its part of a checkpoint; the one before is still there."""


class RestoreError(ValueError):
    """A checkpoint does not fit the parts that this server keeps; nothing was restored."""
