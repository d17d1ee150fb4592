"""``tf.compat.v1.data``: datasets with the iterators of TensorFlow 1.

An ``input_fn`` that returns what ``get_next()`` gave says how an element becomes features and
labels: in TensorFlow 1 it built a graph, which each step runs. Here the ``input_fn`` is called as
the function of a ``map`` over the iterator's dataset, so that what it does with the element is
compiled like any map function; `elements_of` does this for Estimators. Outside of
Estimators, iterators give elements, as in TensorFlow 2.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from drumline.compat.data.dataset import TensorDataset, TensorIterator
from drumline.compat.values.boundary import map_structure


class _ElementNeeded(BaseException):
    """Ends a call of an input_fn that needs an element of a dataset to continue."""

    def __init__(self, number: int, dataset: TensorDataset):
        super().__init__(number)
        self.dataset = dataset


class _InputOfThread(threading.local):
    """What a call of an input_fn is given: the elements of its iterators, in their order."""

    def __init__(self) -> None:
        self.elements: tuple[Any, ...] | None = None
        self.iterators = 0


_reading = _InputOfThread()


class InputIterator:
    """An iterator in an input_fn: `get_next` gives what stands for any of its elements.

    Attributes:
        initializer: nothing to run: an Estimator begins at the first element.
    """

    initializer = None

    def __init__(self, dataset: TensorDataset):
        self._dataset = dataset
        self._number = _reading.iterators
        self._given = False
        _reading.iterators += 1

    @property
    def element_spec(self) -> Any:
        """The specs of an element."""
        return self._dataset.element_spec

    def get_next(self, name: Any = None) -> Any:
        """An element, for the function that makes features and labels of it.

        Raises:
            NotImplementedError: at its second call: a step takes one element.
        """
        if self._given:
            raise NotImplementedError(
                "get_next() is called twice on one iterator: a step takes one element. Batch the "
                "dataset for several."
            )
        self._given = True
        elements = _reading.elements or ()
        if self._number >= len(elements):
            raise _ElementNeeded(self._number, self._dataset)
        return elements[self._number]


def elements_of(input_fn: Callable[[], Any]) -> Any:
    """What an input_fn returns: if it reads iterators, a dataset of what it makes of each element.

    Args:
        input_fn: takes no arguments; it is called again for each iterator that it reads, and once
            more when the function is traced.
    """
    datasets: list[TensorDataset] = []
    while True:
        try:
            return _mapped(input_fn, datasets) if datasets else _called(input_fn, ())
        except _ElementNeeded as needed:
            datasets.append(needed.dataset)


def _called(input_fn: Callable[[], Any], elements: tuple[Any, ...]) -> Any:
    before = _reading.elements, _reading.iterators
    _reading.elements, _reading.iterators = elements, 0
    try:
        return input_fn()
    finally:
        _reading.elements, _reading.iterators = before


def _mapped(input_fn: Callable[[], Any], datasets: list[TensorDataset]) -> TensorDataset:
    # A tuple of one keeps an element of several parts together.
    together = TensorDataset.zip(tuple(datasets))
    return together.map(lambda *elements: _called(input_fn, elements))


def make_one_shot_iterator(dataset: TensorDataset) -> Any:
    """An iterator over a dataset: in an Estimator's input_fn one whose elements are any.

    Example:
        >>> import drumline.compat.tf.compat.v1 as tf
        >>> numbers = tf.data.Dataset.range(3)
        >>> int(tf.data.make_one_shot_iterator(numbers).get_next())
        0
    """
    return iter(dataset) if _reading.elements is None else InputIterator(dataset)


def make_initializable_iterator(dataset: TensorDataset, shared_name: Any = None) -> Any:
    """An iterator, as `make_one_shot_iterator` gives in an Estimator's input_fn.

    Raises:
        RuntimeError: outside of one, where nothing runs its initializer.
    """
    if _reading.elements is None:
        raise RuntimeError(
            "make_initializable_iterator is not supported when eager execution is enabled: use "
            "`for element in dataset`, or tf.compat.v1.data.make_one_shot_iterator."
        )
    return InputIterator(dataset)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """The dtypes of an element."""
    return map_structure(lambda spec: spec.dtype, dataset_or_iterator.element_spec)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of an element."""
    return map_structure(lambda spec: spec.shape, dataset_or_iterator.element_spec)


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of an element's values, such as `tf.Tensor`."""
    return map_structure(lambda spec: spec.value_type, dataset_or_iterator.element_spec)


class _Iterators:
    """Methods of datasets that give iterators."""

    def make_one_shot_iterator(self: Any) -> Any:
        """An iterator; see `make_one_shot_iterator` of this module."""
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self: Any, shared_name: Any = None) -> Any:
        """An iterator; see `make_initializable_iterator` of this module."""
        return make_initializable_iterator(self, shared_name)


def _give_methods() -> None:
    """Give datasets the methods of TensorFlow 1, once a script asks for what is in this module."""
    for make in (_Iterators.make_one_shot_iterator, _Iterators.make_initializable_iterator):
        setattr(TensorDataset, make.__name__, make)
    for owner in (TensorDataset, TensorIterator):
        for name, get in (
            ("output_types", get_output_types),
            ("output_shapes", get_output_shapes),
            ("output_classes", get_output_classes),
        ):
            setattr(owner, name, property(get))


_give_methods()
FormerDataset = TensorDataset
"""``tf.compat.v1.data.Dataset``."""
