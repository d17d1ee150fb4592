"""Keras's methods on models whose variables are on parameter servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from drumline.keras.parameter_server.belonging import is_on_servers
from drumline.keras.parameter_server.evaluation import evaluate
from drumline.keras.parameter_server.loops import fit
from drumline.keras.parameter_server.prediction import predict

_OURS: dict[str, Callable[..., Any]] = {"fit": fit, "evaluate": evaluate, "predict": predict}


def on_servers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, ``evaluate`` or ``predict``: models on parameter servers have another loop."""
    ours = _OURS[method.__name__]

    def method_or_ours(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        if is_on_servers(self):
            return ours(self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return method_or_ours


def refuse_on_servers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``train_on_batch`` and its like, which run a step on the chief."""

    def method_or_refuse(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        if is_on_servers(self):
            raise NotImplementedError(
                f"`{method.__name__}` runs one step here, and the variables of {self.name!r} are "
                "on parameter servers, for which workers run the steps. Use `fit`, or give a "
                "function to `ClusterCoordinator.schedule`."
            )
        return method(self, *args, **kwargs)

    return method_or_refuse
