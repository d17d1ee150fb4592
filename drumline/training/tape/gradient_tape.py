"""Gradients of what a block of code computed, with respect to anything it started from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp

from drumline.training.tape import jacobians
from drumline.training.tape.arguments import cotangents, filled, has_gradient
from drumline.training.tape.pullback import Pullback, pullback
from drumline.training.tape.reads import Reads
from drumline.training.tape.recording import Recording
from drumline.training.tape.replay import replayed_pullback
from drumline.training.tape.session import Session
from drumline.training.tape.structures import check_leaf, flatten, is_variable
from drumline.training.tape.unconnected import UnconnectedGradients


class GradientTape:
    """Records what its block computes, for gradients; as ``tf.GradientTape``.

    ::

        with dl.GradientTape() as tape:
            loss = loss_fn(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)

    Trainable variables are watched when they are read; arrays are watched by `watch`. Values stay
    what they are and can be used freely in and after the block. The tape works eagerly, within
    ``jax.jit``, ``jax.shard_map`` and the bodies of ``jax.lax`` loops, and within other tapes.
    An eager block runs operation by operation, functions compiled by ``jax.jit`` included.

    The gradient of a complex array follows ``jax.grad``: it is the conjugate of TensorFlow's.

    Args:
        persistent: allow several gradients to be asked for. The tape then keeps all it recorded
            until it is deleted or reset.
        watch_accessed_variables: watch trainable variables by themselves.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._session = Session(keep_operations=persistent, automatic=watch_accessed_variables)
        self._was_entered = False
        self._was_used = False
        self._watched: dict[int, Any] = {}

    def __enter__(self) -> GradientTape:
        """Begin or, with what was recorded before, go on recording.

        Raises:
            RuntimeError: if the block is open already.
        """
        if self._session.is_open:
            raise RuntimeError("This GradientTape is still recording; leave its block first.")
        self._was_entered = True
        self._was_used = False
        self._session.open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop recording.

        Raises:
            RuntimeError: if a tape or a JAX function begun within the block is still open.
        """
        in_order = self._session.close()
        if not in_order and exc_type is None:
            raise RuntimeError(
                "GradientTapes must be left in the reverse order in which they were entered, and "
                "in the function in which they were."
            )

    def watch(self, tensor: Any) -> None:
        """Let gradients with respect to `tensor` be possible.

        Args:
            tensor: a floating array or a variable, or a nested structure of them. Uses of the
                array count that come after, and reads of the variable that come after.
                Integer leaves are passed over, with a warning, since they have no gradient.

        Raises:
            RuntimeError: if the tape is not recording, or an array belongs to a function that
                JAX traces within the tape's block.
            TypeError: if a leaf is not an array or a variable.
        """
        self._check_recording()
        for leaf in flatten(tensor)[0]:
            check_leaf(leaf, "watched tensors")
            if not has_gradient(leaf, "watched tensor", stacklevel=3):
                continue
            if is_variable(leaf):
                self._session.asked[id(leaf)] = leaf
                continue
            if not self._session.sees(leaf):
                raise RuntimeError(
                    "This array belongs to a function that JAX traces within the GradientTape's "
                    "block, so the tape cannot watch it. Enter the tape inside that function."
                )
            self._session.recording.watch(leaf)

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables watched so far, also when the tape was used."""
        if not self._was_used:
            self._watched = {**self._session.asked, **self._session.reads.variables()}
        return tuple(self._watched.values())

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Record nothing until the block ends, as for computations that need no gradient.

        Raises:
            RuntimeError: if the tape is not recording.
        """
        self._check_recording()
        recording = self._session.recording
        recording.on = False
        try:
            yield
        finally:
            recording.on = True

    def reset(self) -> None:
        """Forget all that was recorded and watched; the tape goes on as if newly entered.

        Raises:
            RuntimeError: if the tape is not recording.
        """
        self._check_recording()
        self._session.forget()

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradients of the sum of all elements of `target`.

        Args:
            target: a floating array, or a nested structure of them, computed in the block.
            sources: arrays and variables, in a nested structure: watched ones, or values
                computed from them in the block.
            output_gradients: for each leaf of `target`, an array of its shape by which its
                elements are weighted; None weighs them by one.
            unconnected_gradients: what to give for sources that `target` does not depend on.

        Returns:
            The structure of `sources`, with for each an array of its shape and dtype, or None.

        Raises:
            RuntimeError: if the tape was never entered, or is not persistent and was used.
            TypeError, ValueError: if the arguments do not fit together.
        """
        unconnected = UnconnectedGradients.of(unconnected_gradients)
        targets, shape = flatten(target)
        weights = cotangents(targets, shape, output_gradients)
        leaves, structure = flatten(sources)
        pulled = self._pulled(targets, leaves)
        results = [None] * len(leaves) if pulled is None else pulled(weights)
        return jax.tree.unflatten(structure, filled(results, leaves, unconnected))

    def jacobian(
        self,
        target: jax.Array,
        sources: Any,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivatives of every element of `target`.

        Args:
            target: a floating array computed in the block.
            sources: as for `gradient`.
            unconnected_gradients: as for `gradient`.
            experimental_use_pfor: compute all rows at once; otherwise one after another, which
                takes less memory.

        Returns:
            The structure of `sources`, with for each an array whose shape is that of `target`
            followed by the source's, or None.

        Raises:
            RuntimeError, TypeError, ValueError: as `gradient`.
        """
        unconnected = UnconnectedGradients.of(unconnected_gradients)
        leaves, structure = flatten(sources)
        pulled = self._pulled([target], leaves)
        if pulled is None:
            rows: list[Any] = [None] * len(leaves)
        else:
            basis = jacobians.unit_cotangents(target)
            rows = jacobians.stacked_gradients(
                lambda row: pulled([row]), basis, experimental_use_pfor
            )
        shaped = [
            None if row is None else row.reshape(target.shape + row.shape[1:]) for row in rows
        ]
        return jax.tree.unflatten(structure, filled(shaped, leaves, unconnected, target.shape))

    def batch_jacobian(
        self,
        target: jax.Array,
        source: jax.Array,
        unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivatives of each example's `target` by the same example's `source`.

        It is right only if no example's target depends on another's source.

        Args:
            target: a floating array of shape (batch, ...), computed in the block.
            source: an array of shape (batch, ...).
            unconnected_gradients: as for `gradient`.
            experimental_use_pfor: as for `jacobian`.

        Returns:
            An array of shape (batch, target's ..., source's ...), or None.

        Raises:
            ValueError: if the arrays have no batch dimension, or different ones.
            RuntimeError, TypeError: as `gradient`.
        """
        unconnected = UnconnectedGradients.of(unconnected_gradients)
        jacobians.check_batch(target, source)
        pulled = self._pulled([target], [source])
        rest = target.shape[1:]
        found = None
        if pulled is not None:
            basis = jacobians.batch_unit_cotangents(target)
            (rows,) = jacobians.stacked_gradients(
                lambda row: pulled([row]), basis, experimental_use_pfor
            )
            if rows is not None:
                found = jnp.moveaxis(rows, 0, 1).reshape(source.shape[:1] + rest + source.shape[1:])
        if found is None and unconnected is UnconnectedGradients.ZERO:
            found = jnp.zeros(source.shape[:1] + rest + source.shape[1:], source.dtype)
        return found

    def _check_recording(self) -> None:
        if not self._session.is_recording:
            raise RuntimeError(
                "This GradientTape is not recording. Call it within its `with` block, and not in "
                "stop_recording()."
            )

    def _check_usable(self) -> None:
        if not self._was_entered:
            raise RuntimeError(
                "This GradientTape has recorded nothing: compute the target within "
                "`with GradientTape() as tape:`."
            )
        if self._was_used:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                "(or jacobians). Use GradientTape(persistent=True) for more."
            )

    def _pulled(self, targets: Sequence[Any], sources: Sequence[Any]) -> Pullback | None:
        """From a cotangent for each target to one for each source; None if all would be None."""
        self._check_usable()
        for leaf in targets:
            check_leaf(leaf, "targets")
            has_gradient(leaf, "target", stacklevel=4)
        for leaf in sources:
            check_leaf(leaf, "sources")
            has_gradient(leaf, "source", stacklevel=4)
        session = self._session
        recording, reads = session.recording, session.reads
        is_differentiating_itself = self._persistent and session.is_recording
        if not self._persistent:
            self.watched_variables()
            recording.on = False
            self._was_used = True
            session.forget()
            session.recording.on = False
        ends = [_active(recording, reads, leaf)[-1:] for leaf in targets]
        starts = [_active(recording, reads, leaf) for leaf in sources]
        if not any(ends) or not any(starts):
            return None
        make = replayed_pullback if is_differentiating_itself else pullback
        return _grouped(make, recording, ends, starts)


def _active(recording: Recording, reads: Reads, leaf: Any) -> list[Any]:
    values = reads.of(leaf) if is_variable(leaf) else [leaf]
    return [value for value in values if recording.is_active(value)]


def _grouped(
    make: Callable[[Recording, list[Any], list[Any]], Pullback],
    recording: Recording,
    ends: Sequence[list[Any]],
    starts: Sequence[list[Any]],
) -> Pullback:
    """A pullback where a source may have several values, and a target none."""
    pull = make(
        recording,
        [value for group in ends for value in group],
        [value for group in starts for value in group],
    )

    def grouped(cotangents: Sequence[Any]) -> list[Any]:
        known = [ct for ct, group in zip(cotangents, ends, strict=True) if group]
        found = iter(pull(known))
        return [_sum([next(found) for _ in group]) for group in starts]

    return grouped


def _sum(parts: Sequence[Any]) -> Any:
    present = [part for part in parts if part is not None]
    return sum(present[1:], start=present[0]) if present else None
