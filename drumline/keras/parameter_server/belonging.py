"""Which models have their variables on parameter servers."""

from __future__ import annotations

import keras

from drumline.distribute.parameter_server.coordinator import ClusterCoordinator
from drumline.distribute import ParameterServerStrategy
from drumline.keras.ownership import strategy_of


def is_on_servers(model: keras.Model) -> bool:
    """Whether the model was made in the scope of a `ParameterServerStrategy`."""
    return isinstance(strategy_of(model), ParameterServerStrategy)


def coordinator_of(model: keras.Model) -> ClusterCoordinator:
    """The coordinator of the strategy in whose scope the model was made.

    Raises:
        TypeError: if that is no `ParameterServerStrategy`.
    """
    strategy = strategy_of(model)
    if not isinstance(strategy, ParameterServerStrategy):
        raise TypeError(f"Model {model.name!r} belongs to {strategy!r}.")
    return ClusterCoordinator(strategy)
