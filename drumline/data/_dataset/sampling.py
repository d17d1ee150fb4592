"""Drawing elements from several datasets, and resampling by class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec, merged_element
from drumline.data.functions.trace import UserFunction
from drumline.data.operations.choose import Choose, OriginalShare, SampleFromDatasets, Thin, ratios
from drumline.data.operations.map import Map
from drumline.data.operations.ordering.order import Take
from drumline.data.options import BaseDataset, Options, as_dataset, merged_options
from drumline.data.plan.node import Node, seed_of


def sample(
    datasets: Sequence[Any], weights: Any, seed: int | None, stop: bool, again: bool
) -> tuple[Node, Options | None]:
    """Return the plan of `Dataset.sample_from_datasets`, and its options."""
    element, options = _alike(datasets, "sample_from_datasets")
    inputs = [dataset._plan for dataset in datasets]
    given: tuple[float, ...] | None = None
    if isinstance(weights, BaseDataset):
        _check_weights(weights._plan.spec, len(inputs))
        inputs.append(weights._plan)
    else:
        given = _weights(weights, len(inputs))
        if not any(given):
            return Take((inputs[0],), 0), options
        chosen = [i for i, weight in enumerate(given) if weight > 0]
        if len(chosen) == 1:
            return inputs[chosen[0]], options
        inputs, given = [inputs[i] for i in chosen], tuple(given[i] for i in chosen)
    drawn = seed_of(seed, "sample_from_datasets")
    return SampleFromDatasets(tuple(inputs), element, stop, given, drawn, again), options


def choose(datasets: Sequence[Any], choice_dataset: Any, stop: bool) -> tuple[Node, Options | None]:
    """Return the plan of `Dataset.choose_from_datasets`, and its options."""
    element, options = _alike(datasets, "choose_from_datasets")
    wanted = ElementSpec(LEAF_STRUCTURE, (TensorSpec((), np.int64),))
    if not isinstance(choice_dataset, BaseDataset) or choice_dataset._plan.spec != wanted:
        found = getattr(choice_dataset, "element_spec", type(choice_dataset).__name__)
        raise TypeError(
            f"choose_from_datasets: choice_dataset must be a dataset of int64 scalars, not {found}"
        )
    inputs = (choice_dataset._plan, *(dataset._plan for dataset in datasets))
    return Choose(inputs, element, stop), options


def resample(
    plan: Node, class_func: Callable[..., Any], target_dist: Any, initial_dist: Any, seed: Any
) -> Node:
    """Return the plan of `Dataset.rejection_resample`."""
    target = _shares(target_dist, "target_dist")
    initial = None if initial_dist is None else _shares(initial_dist, "initial_dist")
    if initial is not None and len(initial) != len(target):
        raise ValueError(
            f"rejection_resample: target_dist has {len(target)} classes, initial_dist "
            f"{len(initial)}"
        )
    original = _with_class(plan, class_func)
    drawn = seed_of(seed, "rejection_resample")
    thinned = Thin((original,), target, initial, drawn)
    weights: tuple[float, float] | None = None
    inputs: tuple[Node, ...] = (original, thinned)
    if initial is None:
        inputs = (*inputs, OriginalShare((original,), target, None))
    else:
        share = float(ratios(np.array(target, np.float32), np.array(initial)).min())
        if share in (0.0, 1.0):
            return thinned if share == 0.0 else original
        weights = (share, 1.0 - share)
    return SampleFromDatasets(inputs, original.spec, True, weights, drawn, False)


def _with_class(plan: Node, class_func: Callable[..., Any]) -> Node:
    def with_class(*element: Any) -> tuple[Any, Any]:
        return class_func(*element), element[0] if len(element) == 1 else element

    plan = as_dataset(plan).map(with_class)._plan
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
        if not isinstance(dataset, BaseDataset):
            raise TypeError(f"{operation} takes datasets, got {type(dataset).__name__}")
    element: ElementSpec = datasets[0]._plan.spec
    for i, dataset in enumerate(datasets[1:], 1):
        merged = merged_element(element, dataset._plan.spec)
        if merged is None:
            raise TypeError(
                f"{operation}: elements must have the same structure, dtypes and ranks; dataset 0 "
                f"has {datasets[0]._plan.spec.tree()}, dataset {i} {dataset._plan.spec.tree()}"
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
