"""Noticing that a layer or an optimizer was built."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def after_build(value: Any, then: Callable[[Any], None]) -> None:
    """Call ``then(value)`` once, after ``value.build`` has made the variables."""
    build = value.build
    own = vars(value).get("build")

    @functools.wraps(build)
    def built(*args: Any, **kwargs: Any) -> Any:
        result = build(*args, **kwargs)
        if vars(value).get("build") is built:
            if own is None:
                del vars(value)["build"]
            else:
                vars(value)["build"] = own
        then(value)
        return result

    vars(value)["build"] = built
