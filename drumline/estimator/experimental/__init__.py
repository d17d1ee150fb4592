"""``dl.estimator.experimental``: hooks that end training early, or evaluate within it."""

from drumline.estimator.experimental.early_stopping import (
    make_early_stopping_hook,
    read_eval_metrics,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from drumline.estimator.hooks.training_hooks import InMemoryEvaluatorHook

__all__ = [
    "InMemoryEvaluatorHook",
    "make_early_stopping_hook",
    "read_eval_metrics",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]
