"""What drumline replaces in Keras's layers.

* `BatchNormalization`: moments over the global batch, for ``synchronized=True``.
* `Layer.add_loss` and stateful RNNs: refused in a per-replica step, which then runs on the global
  batch.
* `Normalization.adapt` and `Discretization.adapt`: they take datasets.
* `SeedGenerator.next`: each replica, and each element of a dataset, draws from a seed of its own.
* `RandomCrop.transform_images`: windows that are drawn in a trace.
* `Normalization.build`: its constants are computed at once, also where a function is traced.
* `Variable.assign` and the like: constants are the same on all replicas and not merged.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.data import Dataset
from drumline.data.functions.trace import drawn, in_dataset_function
from drumline.distribute import ReplicaContext, get_strategy, in_cross_replica_context
from drumline.distribute.replica import is_constant, merging_replica, running_replica, whole_batch
from drumline.distribute.step.replica_scope import ReplicaScope
from drumline.keras.layers.host_layer import is_string, require_an_end
from drumline.keras.step.reductions import NeedsGlobalBatch, current_trace
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.optimizer_hooks import note_draw


def accept_synchronized(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``BatchNormalization.__init__``: ``synchronized=True`` is not refused.

    Keras takes it on its TensorFlow backend alone.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def init_synchronized(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        synchronized = bool(bound.arguments.pop("synchronized", False))
        init(*bound.args, **bound.kwargs)
        self.synchronized = synchronized

    # Keras reads the arguments of a layer's __init__, for its configuration.
    init_synchronized.__signature__ = signature  # type: ignore[attr-defined]
    return init_synchronized


def synchronize_moments(moments: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the backend's ``moments``, behind ``keras.ops.moments``: take ``synchronized=True``."""

    @functools.wraps(moments)
    def moments_over_all(
        x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
    ) -> Any:
        context = _several_replicas()
        if not synchronized or context is None:
            return moments(x, axes, keepdims=keepdims)
        dtype = keras.backend.standardize_dtype(x.dtype)
        half = dtype in ("float16", "bfloat16")
        axes = tuple(axis % x.ndim for axis in ([axes] if isinstance(axes, int) else axes))
        values = x.astype("float32") if half else x
        mean, variance = _global_moments(context, values, None, axes)
        if not keepdims:
            mean, variance = jnp.squeeze(mean, axes), jnp.squeeze(variance, axes)
        if half:  # as Keras does
            limits = jnp.finfo(jnp.float16)
            mean, variance = (
                jnp.clip(each, limits.min, limits.max).astype(dtype) for each in (mean, variance)
            )
        return mean, variance

    return moments_over_all


def synchronize_masked_moments(moments: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``BatchNormalization._moments``, which sums up the entries that a mask leaves itself."""

    @functools.wraps(moments)
    def moments_of_layer(self: Any, inputs: Any, mask: Any) -> Any:
        context = _several_replicas()
        if mask is None or not self.synchronized or context is None:
            return moments(self, inputs, mask)
        present = jnp.broadcast_to(jnp.expand_dims(mask, -1), inputs.shape)
        axes = tuple(self._reduction_axes)
        mean, variance = _global_moments(context, inputs, present, axes)
        return jnp.squeeze(mean), jnp.squeeze(variance)

    return moments_of_layer


def _several_replicas() -> ReplicaContext | None:
    context = running_replica()
    return None if context is None or context.num_replicas_in_sync == 1 else context


def _global_moments(
    context: ReplicaContext, x: jax.Array, present: jax.Array | None, axes: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """The mean and variance over `axes` of all replicas' `x`, with the reduced dimensions kept.

    Each replica's moments are combined by the number of entries they are of: nothing large is
    subtracted from something large, as where the mean of the squares is taken (Chan, Golub and
    LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).

    Args:
        context: the replica's.
        x: this replica's values.
        present: which of them count; None for all.
        axes: over which to reduce.
    """
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    if present is None:
        count = jnp.full(kept, x.size // math.prod(kept), x.dtype)
        epsilon = 0.0
    else:
        x = jnp.where(present, x, 0)
        count = jnp.sum(present, axes, dtype=x.dtype, keepdims=True)
        epsilon = keras.backend.epsilon()  # Keras adds it to the number of entries
    mean = jnp.sum(x, axes, keepdims=True) / jnp.maximum(count, 1)
    deviations = x - mean if present is None else jnp.where(present, x - mean, 0)
    squares = jnp.sum(deviations**2, axes, keepdims=True)
    counts, means, squares = context.all_gather(jnp.stack([count, mean, squares])[:, None], axis=1)
    total = jnp.sum(counts, 0) + epsilon
    mean = jnp.sum(counts * means, 0) / total
    squares = jnp.sum(squares, 0) + jnp.sum(counts * (means - mean) ** 2, 0)
    return mean, squares / total


def refuse_added_losses(add_loss: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.add_loss``: a loss added on activations may be a mean over the batch, a sum,
    or neither, and its value does not say; only the whole batch gives it as on one device.
    """

    def add_loss_or_refuse(self: Any, loss: Any) -> Any:
        if current_trace() is not None:
            raise NeedsGlobalBatch(
                f"layer {self.path!r} adds a loss on its activations, so the step is partitioned "
                "over the replicas by the compiler, not run once on each"
            )
        return add_loss(self, loss)

    return add_loss_or_refuse


def refuse_sharded_state(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.call``: a stateful layer keeps a state for each row, so it must see all rows."""

    def call_or_refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.stateful:
            return call(self, *args, **kwargs)
        if current_trace() is not None:
            raise NeedsGlobalBatch(
                f"layer {self.path!r} is stateful, with a state for each row of the batch, so the "
                "step is partitioned over the replicas by the compiler, not run once on each"
            )
        try:
            return call(self, *args, **kwargs)
        except ValueError as error:
            context = running_replica()
            if context is None or context.num_replicas_in_sync == 1:
                raise
            raise ValueError(  # not a note: Keras makes another exception of it
                f"{error}\nLayer {self.path!r} is stateful, and each of "
                f"{context.num_replicas_in_sync} replicas gets its share of the batch alone. Train "
                "it with `fit`, which runs such a model on whole batches, or under a strategy of "
                "one replica."
            ) from error

    return call_or_refuse


def enter_replica_context(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__call__``: a layer that reduces over the replicas may do so everywhere.

    In cross-replica context, as where a model is built or called in a scope, it is given all rows
    that there are: `get_replica_context` is a context of a single replica, and not None.
    """

    def call_with_a_context(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not in_cross_replica_context() or merging_replica() is not None:
            return call(self, *args, **kwargs)
        with whole_batch(get_strategy()):
            return call(self, *args, **kwargs)

    return call_with_a_context


def build_at_once(build: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Normalization.build``: a layer that is first called in a trace keeps no tracers.

    With a ``mean`` and a ``variance`` it keeps arrays made of them, of which others are made.
    """

    @functools.wraps(build)
    def built(self: Any, input_shape: Any) -> None:
        with jax.ensure_compile_time_eval():
            build(self, input_shape)

    return built


def crop_in_trace(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RandomCrop.transform_images``, which slices by numbers that must be known.

    Where they are drawn in a trace, each image is larger than the window, which is cut out of it.
    """

    @functools.wraps(transform)
    def transformed(self: Any, images: Any, transformation: Any, training: bool = True) -> Any:
        if not training or not isinstance(transformation[0], jax.core.Tracer):
            return transform(self, images, transformation, training=training)
        images = self.backend.cast(images, self.compute_dtype)
        sizes = (self.height, self.width)
        axes = (self.height_axis, self.width_axis)
        for start, size, axis in zip(transformation, sizes, axes, strict=True):
            images = jax.lax.dynamic_slice_in_dim(images, start, size, axis % images.ndim)
        return images

    return transformed


_UNBATCHED = 128


def adapt_normalization(adapt: Callable[..., None]) -> Callable[..., None]:
    """``Normalization.adapt``, which without TensorFlow takes arrays alone, of datasets too.

    The layer is given two rows that have the mean and the variance of the dataset's.
    """

    @functools.wraps(adapt)
    def adapted(layer: Any, data: Any) -> None:
        adapt(layer, _two_rows(layer, data) if isinstance(data, Dataset) else data)

    return adapted


def adapt_discretization(adapt: Callable[..., None]) -> Callable[..., None]:
    """``Discretization.adapt``, of arrays and datasets; Keras's needs TensorFlow for any."""

    @functools.wraps(adapt)
    def adapted(layer: Any, data: Any, steps: int | None = None) -> None:
        if layer.num_bins is None:
            raise ValueError("Discretization.adapt: the layer has bin_boundaries; give num_bins")
        if isinstance(data, Dataset):
            batches: Any = _batches(layer, data if steps is None else data.take(steps))
        elif hasattr(data, "shape"):
            batches = [data]
        else:
            batches = itertools.islice(data, steps)
        layer.reset_state()
        for batch in batches:
            layer.update_state(batch)
        layer.finalize_state()

    return adapted


def _two_rows(layer: Any, dataset: Dataset) -> np.ndarray:
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    reduced: tuple[int, ...] = ()
    for batch in _batches(layer, dataset):
        rows = batch.astype(np.float64)
        if not count:
            if not layer.built:
                layer.build((None, *rows.shape[1:]))
            kept = {axis % rows.ndim for axis in layer.axis}
            reduced = tuple(axis for axis in range(rows.ndim) if axis not in kept)
        here = rows.mean(reduced, keepdims=True)
        size = rows.size // here.size
        # Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
        # variances", 1979: no large numbers are subtracted from one another.
        squares = squares + ((rows - here) ** 2).sum(reduced, keepdims=True)
        squares = squares + (here - mean) ** 2 * (count * size / (count + size))
        mean = mean + (here - mean) * (size / (count + size))
        count += size
    if not count:
        raise ValueError("Normalization.adapt: the dataset has no element")
    deviation = np.sqrt(squares / count)
    return np.concatenate([mean - deviation, mean + deviation])


def _batches(layer: Any, dataset: Dataset) -> Iterator[np.ndarray]:
    """What a layer sees of each batch: all, or the first of a tuple."""
    name = type(layer).__name__
    require_an_end(name, dataset, None, takes_steps=name != "Normalization")
    spec = dataset.element_spec
    first = spec[0] if isinstance(spec, tuple) else spec
    shape = getattr(first, "shape", None)
    if shape is None:
        raise ValueError(
            f"{name}.adapt: batches must be arrays, or tuples that begin with one; got {spec}. "
            "Take the array out in a map, and batch"
        )
    if is_string(first):
        raise ValueError(
            f"{name}.adapt: expected numbers, got strings; use dl.strings.to_number in a map first"
        )
    if not shape or (len(shape) == 1 and name == "Normalization"):
        dataset = dataset.batch(_UNBATCHED)
    for element in dataset:
        yield np.asarray(element[0] if isinstance(spec, tuple) else element)


def seed_of_place(next_seed: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``SeedGenerator.next``: what it gives depends on where it is called, where it must.

    In a dataset's function it depends on the element's position, as the draws of ``dl.random``
    with the generator's seed: the generator's state does not advance, so that elements do not
    depend on which were computed before. While a replica's step is traced, its number is folded in:
    the state advances alike on all replicas; only the seeds drawn differ.
    """

    def next_for_place(self: Any, ordered: bool = True) -> Any:
        if in_dataset_function():
            return jnp.asarray(drawn(jax.random.key_data, self._initial_seed))
        note_draw(self.state)
        seed = _alike(self.state, functools.partial(next_seed, self, ordered))
        context = running_replica()
        if context is None or not context.draws_differ or context.num_replicas_in_sync == 1:
            return seed
        key = jax.random.wrap_key_data(seed.astype("uint32"), impl="threefry2x32")
        folded = jax.random.fold_in(key, context.replica_id_in_sync_group)
        return jax.random.key_data(folded).astype(seed.dtype)

    return next_for_place


def write_constants_alike(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Variable.assign``, ``assign_add`` or ``assign_sub``: constants need not be merged.

    Counters of steps are advanced so. What replicas add to a sum is merged all the same.
    """

    def write(self: Any, value: Any) -> Any:
        context = running_replica()
        if context is None:
            return method(self, value)
        if self.aggregation != "sum" and is_constant(value):
            return _alike(self, functools.partial(method, self, value))
        trace = current_trace()
        if trace is not None:
            trace.wrote(self, alike=context.agreed)
        return method(self, value)

    return write


def _alike(variable: Any, write: Callable[[], Any]) -> Any:
    """``write()``, which gives `variable` the same value on all replicas if they had the same."""
    context = running_replica()
    if context is None or not context.traced_once or not _is_alike(variable):
        return write()
    with context.agreeing():
        return write()


def _is_alike(variable: Any) -> bool:
    scope = get_stateless_scope()
    if isinstance(scope, ReplicaScope):
        return scope.is_alike(variable)
    trace = current_trace()
    return trace is not None and not trace.may_differ(variable)
