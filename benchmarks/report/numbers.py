"""Numbers as tables show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

METRIC_NAMES = {
    "first": "first epoch",
    "later": "later epochs",
    "first_batch": "first batch",
    "slowest": "slowest operation",
}


def rate(value: float) -> str:
    """A rate to three figures: ``4.56``, ``123``, ``51.2 k``, ``1.70 M``."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit * 0.9995:
            return _three_figures(value / limit) + unit
    return _three_figures(value)


def duration(seconds: float) -> str:
    """A duration to three figures, in milliseconds below one second."""
    if seconds < 1:
        return _three_figures(seconds * 1e3) + " ms"
    return _three_figures(seconds) + " s"


def times(value: float) -> str:
    """A ratio: ``0.85x``, ``4.2x``, ``120x``."""
    return _three_figures(value).removesuffix(".0") + "x"


def rate_spread(value: dict[str, float] | None) -> str:
    """Median, with least and greatest behind it where they differ."""
    if value is None:
        return ""
    return _spread(value, rate)


def ratio_spread(value: dict[str, float] | None) -> str:
    """Median ratio, with least and greatest behind it where they differ."""
    if value is None:
        return ""
    return _spread(value, times)


def delay(value: dict[str, float] | None) -> str:
    """The median delay of which ``value`` is the inverse."""
    return "" if value is None else duration(1.0 / value["median"])


def floor_name(floor: dict[str, Any]) -> str:
    """What a floor compares."""
    metric = METRIC_NAMES[floor["metric"]]
    return metric if floor["against"] is None else f"{metric} / {floor['against']}"


def floor_value(floor: dict[str, Any], key: str) -> str:
    """``at_least``, ``aim`` or ``measured`` of a floor, in its unit; a dash if absent."""
    value = floor[key]
    if value is None:
        return "-"
    return rate(value) + "/s" if floor["against"] is None else times(value)


def _spread(value: dict[str, float], show: Callable[[float], str]) -> str:
    middle = show(value["median"])
    if value["low"] == value["high"]:
        return middle
    return f"{middle} ({show(value['low'])} .. {show(value['high'])})"


def _three_figures(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
