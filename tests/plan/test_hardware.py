"""Names of hardware, and what is known of chips."""

from __future__ import annotations

import math

import pytest

from drumline.plan.hardware import (
    CHIPS,
    EXAMPLES,
    UnknownHardwareError,
    group_of,
    side_lengths,
)


@pytest.mark.parametrize(
    ("name", "slices", "each", "hosts"),
    [
        ("tpu-v5e-256", 1, 256, 32),
        ("tpu-v5e-512", 2, 256, 64),
        ("TPU-v5e-32x256", 32, 256, 1024),
        ("tpu-v5e-2x16", 2, 16, 4),
        ("tpu-v6e-16", 1, 16, 2),
        ("tpu-v5p-6144", 1, 6144, 1536),
        ("gpu-h100-1", 1, 1, 1),
        ("gpu-h100-64", 8, 8, 8),
        ("cpu-4x2", 4, 2, 8),
    ],
)
def test_names(name: str, slices: int, each: int, hosts: int) -> None:
    group = group_of(name)
    assert (group.slices, group.chips_per_slice, group.chips) == (slices, each, slices * each)
    if not name.startswith("cpu"):
        assert group.hosts == hosts


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tpu-v9-8", "there is no TPU of the kind 'v9'"),
        ("gpu-v5e-8", "there is no GPU of the kind 'v5e'"),
        ("v5e-8", "not written as one of these"),
        ("", "not written"),
        ("tpu-v5e-0", "between 1 and"),
        ("tpu-v5e-99999999999", "between 1 and"),
        ("tpu-v5e-7", "7 chips form no nxn torus"),
        ("tpu-v5e-300", "more than 256 chips come in multiples"),
        ("tpu-v5e-2x512", "links join at most 256"),
        ("gpu-h100-12", "more than 8 chips"),
    ],
)
def test_unknown_names_list_those_that_are_known(name: str, why: str) -> None:
    with pytest.raises(UnknownHardwareError, match=why) as raised:
        group_of(name)
    for known in ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "gpu-h100", "cpu", *EXAMPLES):
        assert known in str(raised.value)


def test_the_examples_are_names() -> None:
    assert [group_of(name).name for name in EXAMPLES] == list(EXAMPLES)


@pytest.mark.parametrize(
    ("kind", "chips", "sides"),
    [
        ("v5e", 8, (4, 2)),
        ("v5e", 128, (16, 8)),
        ("v5e", 256, (16, 16)),
        ("v5p", 8, (2, 2, 2)),
        ("v5p", 6144, (24, 16, 16)),
        ("h100", 8, (8,)),
    ],
)
def test_a_torus_is_as_even_as_it_can_be(kind: str, chips: int, sides: tuple[int, ...]) -> None:
    """The shapes of Google's tables for these numbers of chips."""
    assert side_lengths(CHIPS[kind], chips) == sides
    assert math.prod(sides) == chips


def test_every_number_says_where_it_is_from() -> None:
    for chip in CHIPS.values():
        for known in (chip.clock, chip.peak, chip.memory, chip.link, chip.network):
            assert known.how in ("published", "model", "assumed") and known.source
            assert known.value > 0 or known.how == "assumed"


@pytest.mark.parametrize(("kind", "units"), [("v4", 8), ("v5e", 4), ("v5p", 8)])
def test_clocks_give_the_published_peak(kind: str, units: int) -> None:
    chip = CHIPS[kind]
    assert units * 128 * 128 * 2 * chip.clock.value == pytest.approx(chip.peak.value, rel=0.005)


def test_groups_of_other_sizes() -> None:
    group = group_of("tpu-v5e-2x256")
    assert [(g.slices, g.chips_per_slice) for g in map(group.resized, (1, 256, 1024))] == [
        (1, 1),
        (1, 256),
        (4, 256),
    ]
    with pytest.raises(UnknownHardwareError, match="do not divide into slices of 256"):
        group.resized(300)
