"""Errors, as ``tf.errors``: each with TensorFlow's code and the built-in error it is closest to."""

from __future__ import annotations

from typing import Any


class OpError(Exception):
    """An operation failed, as ``tf.errors.OpError``.

    Args:
        node_def: of a graph; None here.
        op: of a graph; None here.
        message: what happened.
        error_code: TensorFlow's number.
    """

    code = 2

    def __init__(
        self, node_def: Any = None, op: Any = None, message: str = "", error_code: int | None = None
    ):
        if isinstance(node_def, str) and op is None and not message:
            node_def, message = None, node_def  # Keras makes errors of their messages alone
        super().__init__(message)
        self.node_def = node_def
        self.op = op
        self.message = message
        self.error_code = self.code if error_code is None else error_code

    def __str__(self) -> str:
        return self.message

    @property
    def experimental_payloads(self) -> dict[str, bytes]:
        """Nothing."""
        return {}


class CancelledError(OpError):
    """An operation was cancelled."""

    code = 1


class UnknownError(OpError):
    """The cause is not known."""


class InvalidArgumentError(OpError, ValueError):
    """An operation got an argument that is invalid."""

    code = 3


class DeadlineExceededError(OpError, TimeoutError):
    """An operation took longer than it was allowed to."""

    code = 4


class NotFoundError(OpError, FileNotFoundError):
    """What was asked for is not there."""

    code = 5


class AlreadyExistsError(OpError, FileExistsError):
    """What was to be created is there."""

    code = 6


class PermissionDeniedError(OpError, PermissionError):
    """The caller may not do this."""

    code = 7


class ResourceExhaustedError(OpError):
    """Memory, disk space or the like ran out."""

    code = 8


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs."""

    code = 9


class AbortedError(OpError):
    """An operation was aborted."""

    code = 10


class EndOfSequenceError(OpError, IndexError):
    """An iteration is past its end."""

    code = 11


class UnimplementedError(OpError, NotImplementedError):
    """An operation is not implemented."""

    code = 12


class InternalError(OpError):
    """Something that should not happen happened."""

    code = 13


class UnavailableError(OpError, ConnectionError):
    """A service cannot be reached."""

    code = 14


class TensorDataLossError(OpError):
    """Data are lost or corrupted."""

    code = 15


class UnauthenticatedError(OpError):
    """The caller is not known."""

    code = 16


EndOfSequenceError.__name__ = EndOfSequenceError.__qualname__ = "OutOfRangeError"
TensorDataLossError.__name__ = TensorDataLossError.__qualname__ = "DataLossError"

(
    OK,
    CANCELLED,
    UNKNOWN,
    INVALID_ARGUMENT,
    DEADLINE_EXCEEDED,
    NOT_FOUND,
    ALREADY_EXISTS,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION,
    ABORTED,
    OUT_OF_RANGE,
    UNIMPLEMENTED,
    INTERNAL,
    UNAVAILABLE,
    DATA_LOSS,
    UNAUTHENTICATED,
) = range(17)


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of errors with a code.

    Raises:
        KeyError: there is none.
    """
    kinds: list[type[OpError]] = OpError.__subclasses__()
    return {kind.code: kind for kind in kinds}[error_code]


def error_code_from_exception_type(cls: type) -> int:
    """The code of a class of errors; that of unknown ones for other classes."""
    return int(getattr(cls, "code", UNKNOWN))
