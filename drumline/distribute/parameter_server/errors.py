"""Everything that can go wrong between the tasks of a parameter-server job.

First what users catch; then why a worker or a server refuses a request, which has changed nothing
then; why a step, an optimizer or a program cannot run on workers and servers; and last what can
happen to a connection. An error of a handler arrives at the caller as a `RemoteError` with the
class's name and text; `checkpoint` and `worker_dispatcher` make their own classes of some.
"""

from __future__ import annotations

from drumline._lost_process import LostProcess
from drumline.training.checkpoint.file_format import DamagedCheckpointError


class ParameterServerLostError(RuntimeError):
    """A parameter server is gone, and what it kept with it.

    Attributes:
        task_index: the server's number in the cluster.
        address: where it listened.
        reason: what was observed.
    """

    def __init__(self, task_index: int, address: str, reason: str) -> None:
        super().__init__(
            LostProcess(f"ps:{task_index}", reason, address).report(
                "The variables of this parameter server are gone with it",
                "Start the job again; it resumes from the last checkpoint, if it has one ("
                "`drumline launch --max-restarts` does both)",
            )
        )
        self.task_index = task_index
        self.address = address
        self.reason = reason


class ClosureError(RuntimeError):
    """A scheduled function failed on a worker; the text holds the worker's traceback."""


class ClosureCancelledError(RuntimeError):
    """A scheduled function did not run to its end: another one failed before, or all was closed."""


class OutOfRangeError(RuntimeError):
    """A worker's dataset ended, as ``tf.errors.OutOfRangeError``."""


class ChiefLostError(RuntimeError):
    """A worker or a parameter server has waited in vain for its chief.

    Attributes:
        reason: what was observed.
        seconds: how long it has waited.
    """

    def __init__(self, task: str, reason: str, seconds: float) -> None:
        super().__init__(
            LostProcess("chief:0", reason).report(
                f"{task} has waited {seconds:g} s for it, and ends",
                "See what ended the chief, and start the job again",
            )
        )
        self.reason = reason
        self.seconds = seconds


class UnknownSessionError(RuntimeError):
    """A worker was started again, or serves another chief, and has nothing of this one's."""


class RequestError(ValueError):
    """A request lacks a field or an array, or has one that does not belong there."""


class UnknownShardError(LookupError):
    """A request names a part that this server does not keep."""


class ShardMismatchError(ValueError):
    """A value, a gradient or a rule does not fit the part that it is meant for."""


class UnknownUpdateError(LookupError):
    """A part is to be updated by a rule that this server was not given."""


class UpdateMismatchError(ValueError):
    """A rule is not the one that was given under its name before."""


class RowIndexError(IndexError):
    """A row is asked for that the part does not have."""


class RepeatedRowError(ValueError):
    """A push of rows names a row more than once."""


class RoundError(RuntimeError):
    """A synchronous round does not take this push: it is over, or of another size."""


class RoundAbandonedError(RuntimeError):
    """A synchronous round ended before all of its workers had pushed; nothing was applied."""


class ShardLostError(RuntimeError):
    """A part's update failed half way, and its value is gone."""


class SaveError(OSError):
    """A server could not write its part of a checkpoint; the one before is still there."""


class RestoreError(ValueError):
    """A checkpoint does not fit the parts that this server keeps; nothing was restored."""


class IncompleteCheckpointError(RestoreError, DamagedCheckpointError):
    """Files of a checkpoint are missing, or are of another save; nothing was restored."""


class StepError(ValueError):
    """A step does something that cannot be done on workers with parameter servers."""


class OptimizerError(StepError):
    """An optimizer cannot update variables on parameter servers."""


class ProgramError(RuntimeError):
    """A program cannot be made or cannot be loaded here."""


class CorruptProgramError(ProgramError):
    """The bytes of a program are not what was written."""


class TransportError(RuntimeError):
    """The base of all errors of the transport."""


class PeerUnavailableError(TransportError):
    """The process at an address cannot be reached, has ended, or does not answer.

    Attributes:
        address: its ``"host:port"``.
        reason: what was observed.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} is unavailable: {reason}")
        self.address = address
        self.reason = reason


class CallTimeoutError(TransportError, TimeoutError):
    """A process is alive, but has not answered a call within the call's time."""


class AuthenticationError(TransportError):
    """The two sides do not know the same token, or one of them has none."""


class ProtocolError(TransportError):
    """What was received is no message of this protocol."""


class RemoteError(TransportError):
    """A handler of the other process raised an exception.

    Attributes:
        type_name: the exception's class, as ``"ValueError"``.
        remote_message: its text.
        remote_traceback: its traceback, as text.
    """

    def __init__(self, address: str, type_name: str, message: str, traceback: str) -> None:
        super().__init__(f"{type_name} at {address}: {message}\n\nThere:\n{traceback}")
        self.type_name = type_name
        self.remote_message = message
        self.remote_traceback = traceback
