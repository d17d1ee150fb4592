"""Where the batches of steps come from: sent by the chief, or from the workers' own datasets."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import keras

from drumline.data import INFINITE_CARDINALITY, Dataset
from drumline.distribute import InputContext, InputOptions
from drumline.distribute.parameter_server.coordinator import ClusterCoordinator
from drumline.keras import internals
from drumline.keras.data_adapter import require_targets_alone, shape_of
from drumline.keras.parameter_server.steps import Steps
from drumline.keras.resuming.input_position import RESUMED, position_in


class DatasetCreator:
    """Makes the dataset of each worker, as ``tf.keras.utils.experimental.DatasetCreator``.

    Args:
        dataset_fn: takes an `InputContext` and returns a batched dataset. It is called on every
            worker. `fit` needs ``steps_per_epoch``, and the dataset should be repeated.
        input_options: as in TensorFlow. Its defaults only: a worker has one replica, and prefetches
            what the dataset's own `prefetch` says.

    Raises:
        TypeError: if `dataset_fn` cannot be called or `input_options` are no `InputOptions`.
        ValueError: for other options than the defaults.
    """

    def __init__(
        self, dataset_fn: Callable[[InputContext], Dataset], input_options: Any = None
    ) -> None:
        if not callable(dataset_fn):
            raise TypeError(
                "DatasetCreator takes a function that makes a dataset from an InputContext, got "
                f"{dataset_fn!r}."
            )
        if input_options is not None and not isinstance(input_options, InputOptions):
            raise TypeError(f"input_options must be dl.distribute.InputOptions: {input_options!r}.")
        if input_options not in (None, InputOptions()):
            raise ValueError(
                f"DatasetCreator knows only the default input options, not {input_options!r}: a "
                "worker has one replica. Prefetch by `dataset.prefetch`."
            )
        self.dataset_fn = dataset_fn
        self.input_options = input_options

    def __call__(self, context: InputContext) -> Dataset:
        """The dataset of one worker.

        Raises:
            TypeError: if the function returns something else.
        """
        dataset = self.dataset_fn(context)
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "The function of a DatasetCreator must return a dl.data.Dataset, and "
                f"{self.dataset_fn!r} returned {type(dataset).__name__}."
            )
        return dataset


Group = tuple[int, int, list[tuple[Any, ...]]]


class HostEpochs(internals.JAXEpochIterator):
    """Keras's epochs over its input, with batches that stay numpy arrays."""

    def _get_iterator(self) -> Any:
        position = position_in(self)
        if position is None or not position.is_kept:
            return self.data_adapter.get_numpy_iterator()
        return position.iteration(self.data_adapter.get_numpy_iterator, lambda batches: batches)


class FedSource:
    """The chief goes through the input and sends a batch with each step: every batch once.

    Args:
        iterator: over the epochs of the input.
    """

    outstanding_per_worker = 32
    class_weight: Mapping[int, float] | None = None

    def __init__(self, iterator: HostEpochs) -> None:
        self._iterator = iterator

    @property
    def num_batches(self) -> int | None:
        """The steps of an epoch, None if only its end shows it."""
        count: int | None = self._iterator.num_batches
        return count

    def build(self, model: keras.Model) -> None:
        """Give the model the shapes of a batch."""
        model._symbolic_build(iterator=self._iterator)
        self._iterator.reset()

    def first_batch(self) -> Any:
        """A batch of the input, which is then gone through from its start."""
        for _, _, iterator in self._iterator:
            batch = next(iterator)
            self._iterator.reset()
            return batch
        raise ValueError("The input has no batches.")

    def restart(self) -> None:
        """Go through the input from its start."""
        self._iterator.reset()

    def epoch(self, done: int = 0) -> Iterator[Group]:
        """For each execution its first and last step, and the arguments of each of its steps.

        Args:
            done: how many steps of the epoch are done; the iterator has been given its position.
        """
        with self._iterator.catch_stop_iteration():
            for first, last, iterator in self._iterator:
                if iterator is RESUMED:
                    continue
                batches = list(itertools.islice(iterator, last - first + 1))
                if not batches:
                    raise StopIteration
                yield first, last, [(batch,) for batch in batches]

    def function(self, steps: Steps) -> Callable[..., Any]:
        """The form of the steps that takes these arguments."""
        return steps.on_batch


class DrawnSource:
    """Each worker draws batches from a dataset of its own.

    Args:
        coordinator: of the workers.
        dataset_fn: makes a worker's dataset from its `InputContext`.
        steps: how many steps make an epoch.
        steps_per_execution: how many of them the callbacks see as one.
        class_weight: weights by class.
    """

    outstanding_per_worker = 512

    def __init__(
        self,
        coordinator: ClusterCoordinator,
        dataset_fn: Callable[[InputContext], Dataset],
        steps: int,
        steps_per_execution: int,
        class_weight: Mapping[int, float] | None,
    ) -> None:
        self.num_batches = steps
        self.class_weight = class_weight
        self._steps_per_execution = steps_per_execution
        self._dataset_fn = dataset_fn
        self._context = InputContext(coordinator.strategy.num_workers, 0, 1)
        self._dataset = coordinator.create_per_worker_dataset(dataset_fn)
        if class_weight:
            require_targets_alone(self._dataset.element_spec)
        self._coordinator = coordinator
        self._iterator = iter(self._dataset)
        self._drawn = False
        # Of each worker's dataset: what was used before this epoch, and the worker's count then.
        self._used = [0] * coordinator.strategy.num_workers
        self._counts_before: list[int] | None = None

    def build(self, model: keras.Model) -> None:
        """Give the model the shapes of a batch."""
        model._symbolic_build(data_batch=self._example())

    def _example(self) -> Any:
        """A batch, or its shapes and dtypes where the specification of the dataset says them."""
        leaves, treedef = jax.tree.flatten(self._dataset.element_spec)
        if any(leaf.shape is None or not leaf.shape or None in leaf.shape[1:] for leaf in leaves):
            return next(iter(self._dataset_fn(self._context)))
        return jax.tree.unflatten(treedef, [shape_of(leaf, leaf.shape[0] or 2) for leaf in leaves])

    def restart(self) -> None:
        """Go through every worker's dataset from its start."""
        if self._drawn:
            self._iterator = iter(self._dataset)
            self._drawn = False
            self._used = [0] * len(self._used)

    def epoch(self, done: int = 0) -> Iterator[Group]:
        """For each execution its first and last step, and the arguments of each of its steps.

        Args:
            done: how many steps of the epoch are done.
        """
        self._drawn = True
        self._used = self.state()
        self._counts_before = self._counts()
        for first in range(done, self.num_batches, self._steps_per_execution):
            count = min(self._steps_per_execution, self.num_batches - first)
            yield first, first + count - 1, [(self._iterator,)] * count

    def epoch_ended(self) -> None:
        """Note what the epoch has used; what workers run until the next one counts for others."""
        self._used, self._counts_before = self.state(), None

    def state(self) -> list[int]:
        """How many batches each worker has used, when all steps that were scheduled have ended."""
        if self._counts_before is None:
            return self._used
        counts = zip(self._used, self._counts(), self._counts_before, strict=True)
        return [used + now - before for used, now, before in counts]

    def resume(self, used: list[int]) -> None:
        """Let every worker pass over the batches that it had used before."""
        if len(used) != len(self._used):
            warnings.warn(
                f"This `fit` cannot be resumed exactly: {len(used)} workers drew batches of their "
                f"own when the backup was saved, and there are {len(self._used)}, which begin with "
                "their datasets' first batches. Start as many workers, or give `fit` a "
                "dl.data.Dataset that ends: the chief sends its batches, from their position.",
                stacklevel=2,
            )
            return
        self._used = used
        self._dataset = self._coordinator.create_per_worker_dataset(Rest(self._dataset_fn, used))
        self._iterator = iter(self._dataset)

    def _counts(self) -> list[int]:
        counts: list[int] = self._coordinator.counts()["by worker"]
        return counts

    def function(self, steps: Steps) -> Callable[..., Any]:
        """The form of the steps that takes these arguments."""
        return steps.on_next


Source = FedSource | DrawnSource


def source_of(
    coordinator: ClusterCoordinator,
    x: Any,
    *,
    steps: int | None,
    steps_argument: str,
    steps_per_execution: int = 1,
    class_weight: Mapping[int, float] | None = None,
    **options: Any,
) -> Source:
    """The source of the steps that Keras was given `x` for.

    Args:
        coordinator: of the workers.
        x: arrays, a `Dataset`, a `DatasetCreator`, or a function of an `InputContext`.
        steps: how many steps make an epoch, if it was said.
        steps_argument: the name of the argument that says it.
        steps_per_execution: how many steps the callbacks see as one.
        class_weight: weights by class.
        options: ``y``, ``sample_weight``, ``batch_size`` and ``shuffle``, as Keras has them.

    Raises:
        ValueError: without `steps` for a function or a dataset without end.
    """
    dataset_fn = _dataset_function(x)
    if dataset_fn is None:
        iterator = HostEpochs(
            x,
            steps_per_epoch=steps,
            steps_per_execution=steps_per_execution,
            class_weight=class_weight,
            **options,
        )
        return FedSource(iterator)
    for name in ("y", "sample_weight"):
        if options.get(name) is not None:
            raise ValueError(
                f"`{name}` cannot be given beside {type(x).__name__}: let the dataset's elements "
                "be (x, y) or (x, y, sample_weight)."
            )
    if steps is None:
        raise ValueError(
            f"`{steps_argument}` is needed: with {_described(x)} only you know how many steps make "
            f"an epoch. Every worker draws batches of its own; {steps_argument} counts the steps "
            "of all workers."
        )
    return DrawnSource(coordinator, dataset_fn, steps, steps_per_execution, class_weight)


class Share:
    """Every worker's part of a dataset without end: each element goes to one of them.

    Args:
        dataset: the whole.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __call__(self, context: InputContext) -> Dataset:
        """The elements of the worker that the context names."""
        return self._dataset.shard(context.num_input_pipelines, context.input_pipeline_id)


class Rest:
    """What every worker has not used of its dataset.

    Args:
        dataset_fn: makes the whole from an `InputContext`.
        used: how many elements each worker has used.
    """

    def __init__(self, dataset_fn: Callable[[InputContext], Dataset], used: Sequence[int]) -> None:
        self._dataset_fn = dataset_fn
        self._used = used

    def __call__(self, context: InputContext) -> Dataset:
        """The rest of the worker that the context names."""
        return self._dataset_fn(context).skip(self._used[context.input_pipeline_id])


def _dataset_function(x: Any) -> Callable[[InputContext], Dataset] | None:
    if isinstance(x, DatasetCreator):
        return x
    if isinstance(x, Dataset):
        return Share(x) if x.cardinality() == INFINITE_CARDINALITY else None
    if callable(x) and not isinstance(x, keras.utils.PyDataset):
        return DatasetCreator(x)
    return None


def _described(x: Any) -> str:
    if isinstance(x, Dataset):
        return "a dataset that never ends"
    return "a DatasetCreator" if isinstance(x, DatasetCreator) else "a function"
