"""A function that makes a worker's dataset, as input of `fit` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.data import Dataset
from drumline.distribute import InputContext, InputOptions


class DatasetCreator:
    """Makes the dataset of each worker, as ``tf.keras.utils.experimental.DatasetCreator``.

    Args:
        dataset_fn: takes an `InputContext` and returns a batched dataset. It is called on every
            worker. `fit` is to be told ``steps_per_epoch``, and the dataset should be repeated.
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
