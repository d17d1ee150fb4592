"""``tf.compat.v1.assert_*``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.compat.v1.functions.former import former


def _assert(names: str, parameters: str) -> tuple[Callable[..., Any], ...]:
    return tuple(
        former(f"assert_{name}", f"debugging.assert_{name}", parameters, {}, "data summarize name")
        for name in names.split()
    )


(
    assert_equal,
    assert_none_equal,
    assert_less,
    assert_less_equal,
    assert_greater,
    assert_greater_equal,
) = _assert(
    "equal none_equal less less_equal greater greater_equal", "x y data summarize message name"
)
assert_negative, assert_non_negative, assert_non_positive, assert_positive = _assert(
    "negative non_negative non_positive positive", "x data summarize message name"
)
(assert_near,) = _assert("near", "x y rtol atol data summarize message name")
assert_rank, assert_rank_at_least = _assert(
    "rank rank_at_least", "x rank data summarize message name"
)
(assert_rank_in,) = _assert("rank_in", "x ranks data summarize message name")
(assert_integer,) = _assert("integer", "x message name")
(assert_scalar,) = _assert("scalar", "tensor name message")
(assert_shapes,) = _assert("shapes", "shapes data summarize message name")
(assert_type,) = _assert("type", "tensor tf_type message name")
