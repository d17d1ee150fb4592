"""``tf.compat.v1.summary``: of what a model_fn computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline import summary as core_summary
from drumline.compat.training import summaries
from drumline.compat.training.scopes import in_scope
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.estimator.graph import running


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> None:
    """Write a number of a model_fn, every ``RunConfig(save_summary_steps=)`` steps of training.

    Under a strategy it is that of the first replica. Without an Estimator it is
    ``tf.summary.scalar``.

    Args:
        name: the tag, after the scopes around.
        tensor: a real number.
        collections: without effect: there are none.
        family: stands before the name, twice as in TensorFlow.

    Raises:
        ValueError: ``tensor`` is no scalar.
    """
    if np.shape(convert(tensor)) != ():
        raise ValueError(f"summary.scalar: {name!r} must be a scalar, not {np.shape(tensor)}")
    _write(name, tensor, family, core_summary.scalar, summaries.scalar)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> None:
    """Write how numbers of a model_fn are distributed, as `scalar`.

    Args:
        name: the tag, after the scopes around.
        values: real numbers, of any shape.
        collections: without effect: there are none.
        family: stands before the name, twice as in TensorFlow.
    """
    _write(name, values, family, core_summary.histogram, summaries.histogram)


def _write(name: str, value: Any, family: str | None, write: Any, at_once: Any) -> None:
    tag = in_scope(name) if family is None else f"{family}/{in_scope(f'{family}/{name}')}"
    call = running()
    if call is None:
        at_once(tag, value)
    else:
        call.summarize(tag, Tensor(convert(value)), write)
