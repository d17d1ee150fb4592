"""Errors within a staged loop point at the lines the user wrote."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import pytest

import drumline as dl
from drumline.data import Dataset


def loops(data: Any) -> Any:
    total = 0
    for x in data:
        total = total + x.sum()
        raise ArithmeticError("stop")
    return total


def test_errors_point_at_the_loop_and_the_line_in_it() -> None:
    with pytest.raises(ArithmeticError) as caught:
        dl.function(loops)(Dataset.range(4).batch(2))
    first = inspect.getsourcelines(loops)[1]
    frames = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename == __file__]
    assert [frame.lineno for frame in frames[1:]] == [first + 2, first + 4]


def test_a_lambda_whose_lines_are_no_statement() -> None:
    for f in (lambda x: x + 1, lambda x: x * 2):
        assert int(dl.function(f)(3)) in (4, 6)
