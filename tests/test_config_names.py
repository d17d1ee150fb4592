"""Dividing the CPU under the names that TensorFlow's guides use."""

from __future__ import annotations

import jax
import pytest

from drumline import config


def test_the_names_of_tensorflows_guides() -> None:
    assert config.list_physical_devices("CPU") == ["cpu:0"] == config.list_physical_devices()
    one = config.LogicalDeviceConfiguration()
    config.set_logical_device_configuration("cpu:0", [one] * len(jax.devices("cpu")))
    with pytest.raises(RuntimeError, match="comes too late"):
        config.set_logical_device_configuration("cpu:0", [one] * 7)
    with pytest.raises(ValueError, match="one physical CPU, 'cpu:0', got 'cpu:1'"):
        config.set_logical_device_configuration("cpu:1", [one])
    with pytest.raises(ValueError, match="only the CPU can be divided"):
        config.set_logical_device_configuration("gpu:0", [one])
