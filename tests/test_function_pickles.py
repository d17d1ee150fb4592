"""Pickles of functions: errors in another process show the user's line."""

from __future__ import annotations

import pickle
import traceback

import cloudpickle
import pytest

from drumline._function_pickles import FunctionPickler, dumps


def test_code_keeps_its_file_also_where_it_is_nested() -> None:
    factor = 3

    def outer(x: int) -> list[int]:
        def inner(y: int) -> int:
            if y < 0:
                raise ValueError("below nought")
            return factor * y

        return [inner(x - i) for i in range(2)]

    again = pickle.loads(dumps(outer))
    assert again(5) == [15, 12]
    with pytest.raises(ValueError, match="below nought") as raised:
        again(0)
    text = "".join(traceback.format_exception(raised.value))
    assert 'raise ValueError("below nought")' in text
    assert text.count(__file__) >= 3


def test_all_else_is_as_cloudpickle_has_it() -> None:
    value = {"array": (1, 2.5, b"x"), "class": dict, "function": len}
    assert pickle.loads(dumps(value)) == cloudpickle.loads(cloudpickle.dumps(value)) == value
    assert FunctionPickler.dispatch_table.maps[1] is cloudpickle.Pickler.dispatch_table
