"""Every spelling of a device, and clear words for those that are not there."""

from __future__ import annotations

import jax
import pytest

from drumline.distribute import MirroredStrategy, OneDeviceStrategy
from drumline.distribute.collectives.devices import device_name, resolve_device

CPUS = jax.devices("cpu")


@pytest.mark.parametrize(
    "spec",
    [
        "cpu:1",
        "/cpu:1",
        "CPU:1",
        "/device:CPU:1",
        "device:cpu:1",
        "/job:localhost/replica:0/task:0/device:CPU:1",
        "/job:worker/device:CPU:1",
        " cpu:1 ",
        CPUS[1],
    ],
)
def test_spellings(spec: str | jax.Device) -> None:
    assert resolve_device(spec) is CPUS[1]
    assert device_name(resolve_device(spec)) == "cpu:1"


def test_without_an_index_the_first() -> None:
    assert resolve_device("cpu") is CPUS[0]


@pytest.mark.parametrize("spec", ["cpu:99", "/gpu:7", "tpu", "/job:localhost/task:0/device:GPU:9"])
def test_a_device_that_does_not_exist(spec: str) -> None:
    with pytest.raises(ValueError, match="does not exist. The devices here are: .*cpu:0, cpu:1"):
        MirroredStrategy([spec])
    with pytest.raises(ValueError, match="does not exist"):
        OneDeviceStrategy(spec)


@pytest.mark.parametrize("spec", ["", "cpu:one", "cpu:-1", "/job:/cpu:0", "0"])
def test_what_is_no_name(spec: str) -> None:
    with pytest.raises(ValueError, match="does not name a device"):
        resolve_device(spec)


def test_a_device_of_another_process() -> None:
    with pytest.raises(ValueError, match="another process"):
        resolve_device("/job:worker/replica:0/task:3/device:CPU:0")


def test_what_is_neither_name_nor_device() -> None:
    with pytest.raises(TypeError, match="int: 1"):
        MirroredStrategy([1])  # type: ignore[list-item]


def test_a_device_given_twice_in_two_spellings() -> None:
    with pytest.raises(ValueError, match=r"'cpu:1' is given twice: as 'cpu:1' and as '/CPU:1'"):
        MirroredStrategy(["cpu:1", "cpu:0", "/CPU:1"])


def test_no_device() -> None:
    with pytest.raises(ValueError, match="at least one device"):
        MirroredStrategy([])


def test_one_device_need_not_be_a_list() -> None:
    assert MirroredStrategy("cpu:2").replica_devices == (CPUS[2],)
    assert MirroredStrategy(CPUS[2]).replica_devices == (CPUS[2],)


def test_by_default_all_local_devices() -> None:
    assert MirroredStrategy().replica_devices == tuple(jax.local_devices())
