"""Sums and gathers of replicas that run in turn, within functions that are differentiated.

Replicas that run in turn meet as Python: each waits until all have brought their values. Within
`jax.grad` or a tape a value is an object of that transformation, which is of no use to another
replica. So the replicas meet with the values below the transformation; the derivative of a sum or
a gather is the same sum or gather of tangents, and its transposition lets the replicas meet again
on the way back.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from drumline.training import jax_internals

if TYPE_CHECKING:
    from drumline.distribute.replica_barrier import Combine, Rendezvous


class LinearMeeting(abc.ABC):
    """A linear function of what all replicas bring: of each array one comes out.

    Args:
        rendezvous: where they meet.
        call: what the user called, as errors name it.
    """

    def __init__(self, rendezvous: Rendezvous, call: str) -> None:
        self.rendezvous = rendezvous
        self.call = call

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Meet the other replicas, from within any transformation; all of them call this.

        Raises:
            RuntimeError: if a function is traced as a whole here, as by jax.jit or jax.lax.scan.
        """
        floating = [jax_internals.is_inexact(array) for array in arrays]
        outputs: list[Any] = [None] * len(arrays)
        for kind in (True, False):
            places = [place for place, each in enumerate(floating) if each is kind]
            if places:
                met = _meeting.bind(*(arrays[p] for p in places), meeting=self, tangents=False)
                for place, output in zip(places, met, strict=True):
                    outputs[place] = output
        return outputs

    @abc.abstractmethod
    def met(self, arrays: Sequence[Any]) -> list[Any]:
        """Meet with values as they are below every transformation."""

    @abc.abstractmethod
    def types(self, arrays: Sequence[Any]) -> list[Any]:
        """The types of what comes of arrays of these types, once replicas have met with such."""

    @abc.abstractmethod
    def transposed(self, cotangents: Sequence[Any]) -> list[Any]:
        """From the cotangents of what came out to those of what this replica brought."""


class Reduction(LinearMeeting):
    """The sum or mean over the replicas: each is its own transposition.

    Args:
        rendezvous: where they meet.
        call: what the user called.
        combine: makes the list of results from the replicas' lists.
    """

    def __init__(self, rendezvous: Rendezvous, call: str, combine: Combine) -> None:
        super().__init__(rendezvous, call)
        self._combine = combine

    def met(self, arrays: Sequence[Any]) -> list[Any]:
        return list(self.rendezvous.meet(self.call, list(arrays), self._combine))

    def types(self, arrays: Sequence[Any]) -> list[Any]:
        return list(arrays)

    def transposed(self, cotangents: Sequence[Any]) -> list[Any]:
        return self(cotangents)


class Gathering(LinearMeeting):
    """What the replicas bring, one after another; its transposition is a part of the sum.

    Args:
        rendezvous: where they meet.
        axis: along which.
        index: this replica's number.
    """

    def __init__(self, rendezvous: Rendezvous, axis: int, index: int) -> None:
        super().__init__(rendezvous, f"all_gather(axis={axis})")
        self._axis = axis
        self._index = index
        self._sizes: list[dict[int, int]] = []
        self._own_shapes: list[tuple[int, ...]] = []

    def met(self, arrays: Sequence[Any]) -> list[Any]:
        combine = functools.partial(_gathered, self._axis)
        brought = self._index, list(arrays)
        self._own_shapes = [jnp.shape(array) for array in arrays]
        gathered, self._sizes = self.rendezvous.meet(self.call, brought, combine)
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


def _refuse_staging(meeting: LinearMeeting) -> None:
    raise RuntimeError(
        f"The replicas of this step run in turn, because their shares of the batch differ in size "
        f"or functions run eagerly, and {meeting.call} was called inside a function that "
        "JAX traces as a whole (jax.jit, jax.lax.scan, jax.checkpoint or another). Call it "
        "outside of that function, or drop what is left over: `.batch(n, drop_remainder=True)`."
    )


def _meet_below(trace: Any, arrays: Sequence[Any], meeting: LinearMeeting) -> list[Any] | None:
    return meeting.met(arrays) if trace is meeting.rendezvous.trace else None


_meeting = jax_internals.linear_primitive(
    "replicas_meet",
    below=_meet_below,
    types=lambda arrays, meeting: meeting.types(arrays),
    transposed=lambda cotangents, meeting: meeting.transposed(cotangents),
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
