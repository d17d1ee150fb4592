"""`GradientTape`: gradients of what a block of code computed, and the checks of its arguments."""

from __future__ import annotations

import contextlib
import enum
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.training.tape.pullback import Pullback, pullback, replayed_pullback
from drumline.training.tape.recording import Recording
from drumline.training.tape.session import Reads, TapeSession


class UnconnectedGradients(enum.Enum):
    """As ``tf.UnconnectedGradients``.

    Attributes:
        NONE: the gradient is None.
        ZERO: it is an array of zeros, of the source's shape and dtype.
    """

    NONE = "none"
    ZERO = "zero"

    @classmethod
    def of(cls, choice: UnconnectedGradients | str) -> UnconnectedGradients:
        """The member that `choice` is or names.

        Raises:
            ValueError: if there is none.
        """
        try:
            return cls(choice)
        except ValueError:
            raise ValueError(
                f"unconnected_gradients must be 'none' or 'zero', not {choice!r}."
            ) from None


def cotangents(targets: Sequence[Any], structure: Any, output_gradients: Any) -> list[Any]:
    """For each target an array of its shape: its output gradient, or ones.

    Raises:
        ValueError: if an output gradient has another shape, or there are not as many as targets.
    """
    if output_gradients is None:
        return [_ones(target) for target in targets]
    weights, given = jax.tree.flatten(output_gradients, is_leaf=lambda leaf: leaf is None)
    if len(weights) != len(targets):
        raise ValueError(
            f"output_gradients must have the structure of the target, {structure}, not {given}."
        )
    return [_weight(*pair) for pair in zip(targets, weights, strict=True)]


def _weight(target: Any, weight: Any) -> Any:
    if weight is None:
        return _ones(target)
    weight = jnp.asarray(weight, target.dtype)
    if weight.shape != tuple(target.shape):
        raise ValueError(
            f"An output gradient of shape {weight.shape} was given for a target of shape "
            f"{tuple(target.shape)}; they must be equal."
        )
    return weight * _ones(target)


def _ones(target: Any) -> Any:
    # Within jax.shard_map the ones vary over the replicas as the target does.
    is_array = isinstance(target, jax.Array)
    return jnp.ones_like(target) if is_array else jnp.ones(target.shape, target.dtype)


def filled(
    gradients: Sequence[Any],
    sources: Sequence[Any],
    unconnected: UnconnectedGradients,
    leading: tuple[int, ...] = (),
) -> list[Any]:
    """`gradients`, with zeros for None if `unconnected` says so; `leading` is their first shape."""
    if unconnected is UnconnectedGradients.NONE:
        return list(gradients)
    return [
        jnp.zeros(leading + tuple(source.shape), source.dtype) if gradient is None else gradient
        for gradient, source in zip(gradients, sources, strict=True)
    ]


def has_gradient(leaf: Any, role: str, stacklevel: int) -> bool:
    """Whether `leaf` is floating or complex; a warning, at that level, if it is not."""
    if jnp.issubdtype(leaf.dtype, jnp.inexact):
        return True
    warnings.warn(
        f"A {role} of a GradientTape should be floating, but one is of dtype {leaf.dtype}; it has "
        "no gradient.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return False


def flatten(structure: Any) -> tuple[list[Any], Any]:
    """The leaves of a structure and its shape; subclasses of list and dict count as those."""
    return jax.tree.flatten(_plain(structure))


def is_variable(leaf: Any) -> bool:
    """Whether a leaf is a variable, and not an array."""
    return isinstance(leaf, keras.Variable)


def check_leaf(leaf: Any, role: str) -> None:
    """Refuse what can be neither watched nor computed from something watched.

    Raises:
        TypeError: if `leaf` is not a JAX array or a variable.
    """
    if not is_variable(leaf) and not isinstance(leaf, jax.Array):
        raise TypeError(
            f"The {role} of a GradientTape must be JAX arrays or variables, not "
            f"{type(leaf).__name__}; convert it with jax.numpy.asarray before it is used."
        )


def _plain(structure: Any) -> Any:
    """Keras keeps layers' variables in subclasses of list and dict, which JAX takes for leaves."""
    if isinstance(structure, list):
        return [_plain(each) for each in structure]
    if type(structure) is tuple:
        return tuple(_plain(each) for each in structure)
    if isinstance(structure, dict) and type(structure).__module__.startswith("keras."):
        return {key: _plain(each) for key, each in structure.items()}
    return structure


def unit_cotangents(target: jax.Array) -> jax.Array:
    """For each element of `target`, an array of its shape that is one there and zero otherwise."""
    size = math.prod(target.shape)
    return jnp.eye(size, dtype=target.dtype).reshape(size, *target.shape)


def batch_unit_cotangents(target: jax.Array) -> jax.Array:
    """As `basis` for the elements of one example, the same for every example of the batch."""
    size = math.prod(target.shape[1:])
    rows = jnp.eye(size, dtype=target.dtype).reshape(size, 1, *target.shape[1:])
    return jnp.broadcast_to(rows, (size, *target.shape))


def stacked_gradients(
    gradients: Callable[[jax.Array], list[Any]], cotangents: jax.Array, together: bool
) -> list[Any]:
    """`gradients` of every cotangent, stacked along a first axis; None where they are None."""
    if together:
        return jax.vmap(gradients)(cotangents)
    each = [gradients(cotangent) for cotangent in cotangents]
    return [None if parts[0] is None else jnp.stack(parts) for parts in zip(*each, strict=True)]


def check_batch(target: jax.Array, source: jax.Array) -> None:
    """Raise ``ValueError`` unless both arrays have the same batch dimension."""
    if not (target.shape and source.shape) or target.shape[0] != source.shape[0]:
        raise ValueError(
            "batch_jacobian needs a target and a source with the same first dimension, the "
            f"batch, but their shapes are {tuple(target.shape)} and {tuple(source.shape)}."
        )


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
    An eager block runs operation by operation, functions compiled by ``jax.jit`` included; one
    compiled by `drumline.function` is a single operation, unless it has a loop of unknown length or
    closes over what the tape watches.

    The gradient of a complex array follows ``jax.grad``: it is the conjugate of TensorFlow's.

    Args:
        persistent: allow several gradients to be asked for. The tape then keeps all it recorded
            until it is deleted or reset.
        watch_accessed_variables: watch trainable variables by themselves.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._session = TapeSession(keep_operations=persistent, automatic=watch_accessed_variables)
        self._was_entered = False
        self._was_used = False
        self._watched: dict[int, Any] = {}

    def __enter__(self) -> GradientTape:
        """Begin recording, or resume it with what was recorded before.

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
        """Discard all that was recorded and watched; the tape continues as if newly entered.

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
            basis = unit_cotangents(target)
            rows = stacked_gradients(lambda row: pulled([row]), basis, experimental_use_pfor)
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
        check_batch(target, source)
        pulled = self._pulled([target], [source])
        rest = target.shape[1:]
        found = None
        if pulled is not None:
            basis = batch_unit_cotangents(target)
            (rows,) = stacked_gradients(lambda row: pulled([row]), basis, experimental_use_pfor)
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
