"""What may be given as `cross_device_ops=`."""

from __future__ import annotations

import pytest

from drumline.distribute.collectives import (
    NcclAllReduce,
    RingAllReduce,
    resolve_cross_device_ops,
)


def test_instances_are_taken_as_they_are():
    ops = RingAllReduce()
    assert resolve_cross_device_ops(ops) is ops


def test_default():
    assert type(resolve_cross_device_ops(None)) is NcclAllReduce


@pytest.mark.parametrize(
    ("value", "message"),
    [(RingAllReduce, r"write RingAllReduce\(\)"), ("ring", "not 'ring'"), (int, "not <class")],
)
def test_others_are_refused(value, message):
    with pytest.raises(TypeError, match=message):
        resolve_cross_device_ops(value)
