"""Replicas that run as plain Python, one at a time, and wait for each other at collectives.

A replica waits at each collective until all have brought their values. Within `jax.grad` or a tape
a value is an object of that transformation, which is of no use to another replica. So a collective
takes the values below the transformation; the derivative of a sum or a gather is the same sum or
gather of tangents, and its transposition is a collective again on the way back.
"""

from __future__ import annotations

import abc
import contextvars
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from drumline.data.elements.precision import bits_of_this_thread
from drumline.training import jax_internals
from drumline.training.jax_internals import current_trace, under
from drumline.training.keras_internals import thread_state

Combine = Callable[[list[Any]], Any]

carried_to_replicas: list[Callable[[], Callable[[], None]]] = []
"""What is kept for each thread and is to hold in the replicas' threads, too.

Each is called in the thread that starts the replicas, and what it returns in theirs.
"""

END = "the end of the step"
"""The call by which a replica says that it has made its last."""


@dataclass
class CollectiveCall:
    """Why a replica waits.

    Attributes:
        call: what it called; the others must call the same.
        value: what it brings.
        combine: makes one result of what all bring.
    """

    call: str
    value: Any
    combine: Combine


class _Abandoned(BaseException):
    """Unwinds a replica that no other will wait for any more."""


class CannotFollow(Exception):
    """A replica without rows cannot know what it would hold; the message says why."""


class _Replica:
    def __init__(
        self, rendezvous: ReplicaScheduler, index: int, step: Callable[[], Any], *, follows: bool
    ) -> None:
        self.index = index
        self.follows = follows
        self.collective: CollectiveCall | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self._step = step
        self._rendezvous = rendezvous
        self._baton = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        state = dict(thread_state())
        trace = current_trace()
        context = contextvars.copy_context()
        same_bits = bits_of_this_thread()
        carried = [capture() for capture in carried_to_replicas]

        def run() -> None:
            self._baton.acquire()
            thread_state().update(state)
            for install in carried:
                install()
            try:
                if not rendezvous.abandoned:
                    with same_bits(), under(trace):
                        self.result = context.run(step)
            except BaseException as error:
                self.error = self.error or error
            finally:
                self.done = True
                self._back.release()

        self._thread = threading.Thread(target=run, name=f"replica {index}", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let it run to its next collective, or to its end."""
        self._baton.release()
        self._back.acquire()

    def wait(self, collective: CollectiveCall) -> Any:
        """Called in its own thread: wait for the others, and return the combined result."""
        self.collective = collective
        self._back.release()
        self._baton.acquire()
        if self._rendezvous.abandoned:
            raise _Abandoned()
        self.collective = None
        return self._rendezvous.outcome

    def end(self) -> None:
        """Unwind it if it has not ended, and wait for its thread."""
        if not self.done:
            self.resume()
        self._thread.join()


class ReplicaScheduler:
    """Runs one function for each replica, in turns.

    Replica 0 runs until it calls `collective` or ends, then replica 1, and so on; when all have
    called it, the result is computed and they continue. So a run is the same every time.

    A replica that follows gets the results of collectives and adds nothing to them. If it fails, or
    does not make the others' calls, it is left behind.

    Attributes:
        trace: JAX's current one; the replicas share the values of no other.
    """

    def __init__(self) -> None:
        self.trace = current_trace()
        self.abandoned = False
        self.outcome: Any = None
        self._replicas: list[_Replica] = []
        self._running: _Replica | None = None

    def run(
        self, steps: Mapping[int, Callable[[], Any]], following: Mapping[int, Callable[[], Any]]
    ) -> tuple[list[Any], dict[int, Any]]:
        """Run the steps of the replicas, by their numbers, and return what they return.

        Args:
            steps: of the replicas that take part.
            following: of those that follow, after the others each time.

        Returns:
            The results of the replicas that take part, in their order, and for each that follows
            its result, or the exception for which it was left behind.

        Raises:
            RuntimeError: if the replicas do not make the same calls.
        """
        self._replicas = [
            *(_Replica(self, index, step, follows=False) for index, step in steps.items()),
            *(_Replica(self, index, step, follows=True) for index, step in following.items()),
        ]
        try:
            while not self._advance():
                self._finish_collective()
        finally:
            self.abandoned = True
            for replica in self._replicas:
                if replica.follows and not replica.done and replica.error is None:
                    replica.error = CannotFollow("without rows it makes more calls than the others")
            for replica in self._replicas:
                replica.end()
        results = [replica.result for replica in self._replicas if not replica.follows]
        return results, {
            replica.index: replica.result if replica.error is None else replica.error
            for replica in self._replicas
            if replica.follows
        }

    def collective(self, call: str, value: Any, combine: Combine) -> Any:
        """Called by a replica: bring `value`, wait for all, and return what `combine` made."""
        if self.abandoned:
            raise _Abandoned()
        assert self._running is not None
        return self._running.wait(CollectiveCall(call, value, combine))

    def _advance(self) -> bool:
        for replica in self._replicas:
            if replica.done or replica.error is not None:  # it follows, and has ended or is behind
                continue
            self._running = replica
            replica.resume()
            if replica.error is not None and not (
                replica.follows and isinstance(replica.error, Exception)
            ):
                raise replica.error
        leading = [replica for replica in self._replicas if not replica.follows]
        ended = [replica for replica in leading if replica.done]
        if ended and len(ended) < len(leading):
            waiting = next(replica for replica in leading if not replica.done)
            assert waiting.collective is not None
            raise RuntimeError(
                f"Replica {ended[0].index} ended its step, but replica {waiting.index} waits for "
                f"it in {waiting.collective.call}. All replicas must make the same calls."
            )
        return bool(ended)

    def _finish_collective(self) -> None:
        leading = [replica for replica in self._replicas if not replica.follows]
        collectives = [replica.collective for replica in leading]
        calls = [collective.call for collective in collectives if collective is not None]
        for replica, call in zip(leading, calls, strict=True):
            if END in (call, calls[0]) and call != calls[0]:
                first, index = leading[0].index, replica.index
                ended, other = (first, index) if calls[0] == END else (index, first)
                missed = call if calls[0] == END else calls[0]
                raise RuntimeError(
                    f"Replica {ended} ended its step, but replica {other} waits for it in "
                    f"{missed}. All replicas must make the same calls."
                )
            if call != calls[0]:
                raise RuntimeError(
                    f"Replica {leading[0].index} called {calls[0]}, but replica {replica.index} "
                    f"called {call}. All replicas must make the same calls, in the same order."
                )
        for replica in self._replicas:
            if replica.follows and not replica.done and replica.error is None:
                self._leave_behind_if_elsewhere(replica, calls[0])
        first_call = collectives[0]
        assert first_call is not None
        self.outcome = first_call.combine([m.value for m in collectives if m is not None])

    def _leave_behind_if_elsewhere(self, replica: _Replica, call: str) -> None:
        own = None if replica.collective is None else replica.collective.call
        if own != call:
            replica.error = CannotFollow(
                f"without rows it makes other calls than the others: {own} instead of {call}"
            )


class LinearCollective(abc.ABC):
    """A linear function of what all replicas bring: of each array one comes out.

    Args:
        rendezvous: the scheduler that combines their values.
        call: what the user called, as errors name it.
    """

    def __init__(self, rendezvous: ReplicaScheduler, call: str) -> None:
        self.rendezvous = rendezvous
        self.call = call

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Combine with the other replicas, from within any transformation; all of them call this.

        Raises:
            RuntimeError: if a function is traced as a whole here, as by jax.jit or jax.lax.scan.
        """
        floating = [jax_internals.is_inexact(array) for array in arrays]
        outputs: list[Any] = [None] * len(arrays)
        for kind in (True, False):
            places = [place for place, each in enumerate(floating) if each is kind]
            if places:
                results = _collective.bind(
                    *(arrays[p] for p in places), collective=self, tangents=False
                )
                for place, output in zip(places, results, strict=True):
                    outputs[place] = output
        return outputs

    @abc.abstractmethod
    def evaluate(self, arrays: Sequence[Any]) -> list[Any]:
        """Combine values as they are below every transformation."""

    @abc.abstractmethod
    def types(self, arrays: Sequence[Any]) -> list[Any]:
        """The types of what comes of arrays of these types, once replicas have combined such."""

    @abc.abstractmethod
    def transposed(self, cotangents: Sequence[Any]) -> list[Any]:
        """From the cotangents of what came out to those of what this replica brought."""


class Reduction(LinearCollective):
    """The sum or mean over the replicas: each is its own transposition.

    Args:
        rendezvous: the scheduler that combines their values.
        call: what the user called.
        combine: makes the list of results from the replicas' lists.
    """

    def __init__(self, rendezvous: ReplicaScheduler, call: str, combine: Combine) -> None:
        super().__init__(rendezvous, call)
        self._combine = combine

    def evaluate(self, arrays: Sequence[Any]) -> list[Any]:
        return list(self.rendezvous.collective(self.call, list(arrays), self._combine))

    def types(self, arrays: Sequence[Any]) -> list[Any]:
        return list(arrays)

    def transposed(self, cotangents: Sequence[Any]) -> list[Any]:
        return self(cotangents)


class CollectiveGather(LinearCollective):
    """What the replicas bring, one after another; its transposition is a part of the sum.

    Args:
        rendezvous: the scheduler that combines their values.
        axis: along which.
        index: this replica's number.
    """

    def __init__(self, rendezvous: ReplicaScheduler, axis: int, index: int) -> None:
        super().__init__(rendezvous, f"all_gather(axis={axis})")
        self._axis = axis
        self._index = index
        self._sizes: list[dict[int, int]] = []
        self._own_shapes: list[tuple[int, ...]] = []

    def evaluate(self, arrays: Sequence[Any]) -> list[Any]:
        combine = functools.partial(_gathered, self._axis)
        brought = self._index, list(arrays)
        self._own_shapes = [jnp.shape(array) for array in arrays]
        gathered, self._sizes = self.rendezvous.collective(self.call, brought, combine)
        return list(gathered)

    def types(self, arrays: Sequence[Any]) -> list[Any]:
        return [
            array.update(shape=_with_size(array.shape, self._axis, sum(sizes.values())))
            for array, sizes in zip(arrays, self._sizes, strict=True)
        ]

    def transposed(self, cotangents: Sequence[Any]) -> list[Any]:
        sizes_of_all = self._sizes
        summed = Reduction(self.rendezvous, f"the gradient of {self.call}", _summed)
        parts = []
        wholes = summed(cotangents)
        for whole, sizes, own in zip(wholes, sizes_of_all, self._own_shapes, strict=True):
            if self._index not in sizes:  # it has no rows, and what it brought was left out
                parts.append(jnp.zeros(own, whole.dtype))
                continue
            first = sum(size for index, size in sizes.items() if index < self._index)
            last = first + sizes[self._index]
            parts.append(jax.lax.slice_in_dim(whole, first, last, axis=self._axis))
        return parts


def _refuse_staging(collective: LinearCollective) -> None:
    raise RuntimeError(
        f"The replicas of this step run in turn, because their shares of the batch differ in size "
        f"or functions run eagerly, and {collective.call} was called inside a function that "
        "JAX traces as a whole (jax.jit, jax.lax.scan, jax.checkpoint or another). Call it "
        "outside of that function, or drop what is left over: `.batch(n, drop_remainder=True)`."
    )


def _evaluate_below(
    trace: Any, arrays: Sequence[Any], collective: LinearCollective
) -> list[Any] | None:
    return collective.evaluate(arrays) if trace is collective.rendezvous.trace else None


_collective = jax_internals.linear_primitive(
    "replica_collective",
    below=_evaluate_below,
    types=lambda arrays, collective: collective.types(arrays),
    transposed=lambda cotangents, collective: collective.transposed(cotangents),
    refuse_staging=_refuse_staging,
)


def _gathered(axis: int, brought: Sequence[tuple[int, list[Any]]]) -> Any:
    columns = list(zip(*(arrays for _, arrays in brought), strict=True))
    sizes = [
        {index: jnp.shape(array)[axis] for (index, _), array in zip(brought, column, strict=True)}
        for column in columns
    ]
    return [jnp.concatenate(column, axis) for column in columns], sizes


def _with_size(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    changed = list(shape)
    changed[axis] = size
    return tuple(changed)


def _summed(brought: Sequence[list[Any]]) -> list[Any]:
    return [functools.reduce(jnp.add, each) for each in zip(*brought, strict=True)]
