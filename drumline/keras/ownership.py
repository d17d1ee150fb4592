"""A model belongs to the strategy in whose scope it was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from drumline.distribute import Strategy, get_strategy, has_strategy
from drumline.keras import internals

_STRATEGY = "_drumline_strategy"


def remember_strategy(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the trainer's ``__init__``: note the strategy in force."""

    def init_in_scope(self: keras.Model, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        vars(self)[_STRATEGY] = get_strategy() if has_strategy() else None

    return init_in_scope


def strategy_of(model: keras.Model) -> Strategy | None:
    """The strategy in whose scope the model was made; None if there was none."""
    strategy: Strategy | None = vars(model).get(_STRATEGY)
    return strategy


def in_own_scope(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a trainer's method: run it in the scope of the model's strategy.

    If it fails, the model gets back the values that Keras had taken out of its variables.

    Raises:
        RuntimeError: if it is called in the scope of another strategy than the model's.
    """

    def call_in_own_scope(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        strategy = _own_strategy(self, method.__name__)
        try:
            if strategy is None:
                return method(self, *args, **kwargs)
            with strategy.scope():
                return method(self, *args, **kwargs)
        except BaseException:
            self.jax_state_sync()
            raise

    return call_in_own_scope


def _own_strategy(model: keras.Model, method: str) -> Strategy | None:
    own = strategy_of(model)
    if has_strategy() and get_strategy() is not own:
        made = "outside any strategy's scope" if own is None else f"in the scope of {own!r}"
        raise RuntimeError(
            f"Model {model.name!r} was made {made}, but `{method}` is called in the scope of "
            f"{get_strategy()!r}. Make the model inside `with strategy.scope():`, or call "
            f"`{method}` outside of the scope."
        )
    if own is not None and internals.keras_distribution() is not None:
        raise RuntimeError(
            f"Model {model.name!r} belongs to {own!r}, but a keras.distribution is set as well. "
            "Use one of them: keras.distribution.set_distribution(None) removes the other."
        )
    return own
