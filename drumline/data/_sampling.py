"""Methods that draw elements from several datasets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from drumline.data.dataset_spec import merged_element
from drumline.data.execute.class_stages import ratios
from drumline.data.functions.user_function import UserFunction
from drumline.data.methods.arguments import seed_of
from drumline.data.methods.functions import Functions
from drumline.data.methods.planned import Planned, merged_options, named
from drumline.data.options import Options
from drumline.data.plan import choosing
from drumline.data.plan.function_nodes import Map
from drumline.data.plan.node import Node
from drumline.data.plan.ordering import Take
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE


class Choosing(Functions):
    """Sampling, choosing, and resampling by class."""

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Any],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Elements of ``datasets``, each of one drawn at random.

        Args:
            datasets: with elements of one structure; what is drawn from one keeps its order.
            weights: probabilities of the datasets, up to a factor; equal ones by default. A dataset
                of such vectors has them change from draw to draw.
            seed: the draws depend on it. ``None`` draws one now, from Python's ``random``.
            stop_on_empty_dataset: whether to end as soon as a drawn dataset has ended; otherwise
                such draws are left out.
            rerandomize_each_iteration: whether each epoch (and each pass of a ``repeat``) draws
                anew.

        Raises:
            ValueError: there is no dataset, or weights are negative, not finite or too few.
            TypeError: elements differ in structure, dtypes or ranks.
        """
        element, options = _alike(datasets, "sample_from_datasets")
        inputs = [dataset._plan for dataset in datasets]
        given: tuple[float, ...] | None = None
        if isinstance(weights, Planned):
            _check_weights(weights._plan.spec, len(inputs))
            inputs.append(weights._plan)
        else:
            given = _weights(weights, len(inputs))
            if not any(given):
                return cls(Take((inputs[0],), 0), options)
            chosen = [i for i, weight in enumerate(given) if weight > 0]
            if len(chosen) == 1:
                return cls(inputs[chosen[0]], options)
            inputs, given = [inputs[i] for i in chosen], tuple(given[i] for i in chosen)
        drawn = seed_of(seed, "sample_from_datasets")
        again = bool(rerandomize_each_iteration)
        stop = bool(stop_on_empty_dataset)
        return cls(choosing.Sample(tuple(inputs), element, stop, given, drawn, again), options)

    @classmethod
    def choose_from_datasets(
        cls, datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = True
    ) -> Self:
        """For each number of ``choice_dataset`` the next element of the dataset with this number.

        Args:
            datasets: with elements of one structure.
            choice_dataset: of int64 scalars. One that names no dataset raises when its turn comes.
            stop_on_empty_dataset: whether to end as soon as a chosen dataset has ended; otherwise
                such choices are left out.

        Raises:
            ValueError: there is no dataset.
            TypeError: elements differ in structure, dtypes or ranks, or the choices are no int64
                scalars.
        """
        element, options = _alike(datasets, "choose_from_datasets")
        wanted = ElementSpec(LEAF_STRUCTURE, (TensorSpec((), np.int64),))
        if not isinstance(choice_dataset, Planned) or choice_dataset._plan.spec != wanted:
            found = getattr(choice_dataset, "element_spec", type(choice_dataset).__name__)
            raise TypeError(
                f"choose_from_datasets: choice_dataset must be a dataset of int64 scalars, not "
                f"{found}"
            )
        inputs = (choice_dataset._plan, *(dataset._plan for dataset in datasets))
        return cls(choosing.Choose(inputs, element, bool(stop_on_empty_dataset)), options)

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Pairs ``(class, element)`` whose classes have the shares ``target_dist``.

        As in ``tf.data``, elements are drawn from the dataset as it is and from one in which some
        are rejected; the dataset is read for each by itself, so that an element may come twice.

        Args:
            class_func: takes an element, returns its class, an integer from 0 on.
            target_dist: wanted share of each class (number of classes,).
            initial_dist: the shares that the classes have; counted on the way if not given.
            seed: of the draws. ``None`` draws one now, from Python's ``random``.
            name: shown by ``explain()``.

        Raises:
            TypeError: ``class_func`` does not return one integer.
            ValueError: the shares are no vectors of the same length.
        """
        target = _shares(target_dist, "target_dist")
        initial = None if initial_dist is None else _shares(initial_dist, "initial_dist")
        if initial is not None and len(initial) != len(target):
            raise ValueError(
                f"rejection_resample: target_dist has {len(target)} classes, initial_dist "
                f"{len(initial)}"
            )
        original = _with_class(self, class_func)
        drawn = seed_of(seed, "rejection_resample")
        thinned = choosing.Thin((original,), target, initial, drawn)
        weights: tuple[float, float] | None = None
        inputs: tuple[Node, ...] = (original, thinned)
        if initial is None:
            inputs = (*inputs, choosing.OriginalShare((original,), target, None))
        else:
            share = float(ratios(np.array(target, np.float32), np.array(initial)).min())
            if share in (0.0, 1.0):
                return self._with(thinned if share == 0.0 else original, name)
            weights = (share, 1.0 - share)
        sampled = choosing.Sample(inputs, original.spec, True, weights, drawn, False)
        return type(self)(named(sampled, name), self._given_options)


def _with_class(dataset: Functions, class_func: Callable[..., Any]) -> Node:
    def with_class(*element: Any) -> tuple[Any, Any]:
        return class_func(*element), element[0] if len(element) == 1 else element

    plan = dataset.map(with_class)._plan
    first = plan.spec.leaves[0]
    single = plan.spec.structure.children[0] == LEAF_STRUCTURE
    if not single or first.shape or first.dtype.kind not in "iu":
        raise TypeError(
            f"rejection_resample: class_func must return one integer, not "
            f"{plan.spec.structure.children[0]} of {first}"
        )
    label = UserFunction(class_func, "rejection_resample").name
    return dataclasses.replace(plan, label=label) if isinstance(plan, Map) else plan


def _alike(datasets: Sequence[Any], operation: str) -> tuple[ElementSpec, Options | None]:
    """The spec of the elements of all, and their options."""
    if not len(datasets):
        raise ValueError(f"{operation} needs at least one dataset")
    for dataset in datasets:
        if not isinstance(dataset, Planned):
            raise TypeError(f"{operation} takes datasets, got {type(dataset).__name__}")
    element: ElementSpec = datasets[0]._plan.spec
    for i, dataset in enumerate(datasets[1:], 1):
        merged = merged_element(element, dataset._plan.spec)
        if merged is None:
            raise TypeError(
                f"{operation}: elements must have the same structure, dtypes and ranks; dataset 0 "
                f"has {datasets[0].element_spec}, dataset {i} {dataset.element_spec}"
            )
        element = merged
    return element, merged_options(datasets)


def _weights(weights: Any, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    given = np.asarray(weights)
    if given.shape != (count,):
        raise ValueError(
            f"sample_from_datasets: {count} datasets need {count} weights, got shape {given.shape}"
        )
    if given.dtype.kind not in "fiu":
        raise TypeError(f"sample_from_datasets: weights must be numbers, not {given.dtype}")
    if not np.isfinite(given).all() or (given < 0).any():
        raise ValueError(
            f"sample_from_datasets: weights must be finite and at least 0: {given.tolist()}"
        )
    return tuple(given.astype(float).tolist())


def _check_weights(spec: ElementSpec, count: int) -> None:
    leaf = spec.leaves[0]
    if len(spec.leaves) != 1 or leaf.shape != (count,) or leaf.dtype.kind != "f":
        raise TypeError(
            f"sample_from_datasets: a dataset of weights for {count} datasets has float vectors "
            f"({count},) as elements, not {spec.tree()}"
        )


def _shares(values: Any, argument: str) -> tuple[float, ...]:
    given = np.asarray(values, np.float32)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or (given < 0).any():
        raise ValueError(
            f"rejection_resample: {argument} must be a vector of shares of at least 0, got "
            f"{values!r:.80}"
        )
    return tuple(given.tolist())
