"""What can go wrong between the tasks of a parameter-server job."""

from __future__ import annotations


class ParameterServerLostError(RuntimeError):
    """A parameter server is gone, and what it kept with it.

    Attributes:
        task_index: the server's number in the cluster.
        address: where it listened.
        reason: what was observed.
    """

    def __init__(self, task_index: int, address: str, reason: str) -> None:
        super().__init__(
            f"Parameter server ps:{task_index} at {address} is lost: {reason}. The variables it "
            "kept are gone with it. Start the job again; it goes on from the last checkpoint, if "
            "it has one (`drumline launch --max-restarts` does both)."
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
    """A worker or a parameter server has waited in vain for its chief to come back."""

    def __init__(self, task: str, reason: str, seconds: float) -> None:
        super().__init__(
            f"{task} has lost its chief ({reason}), which did not come back within {seconds:g} s. "
            "See what ended the chief, and start the job again."
        )
