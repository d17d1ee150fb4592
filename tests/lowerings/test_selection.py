"""What the environment variable accepts, and that installing can be undone."""

from __future__ import annotations

import pytest

from drumline import lowerings
from drumline.lowerings import jax_internals
from drumline.lowerings.registry import KNOWN
from drumline.lowerings.selection import select
from tests.lowerings.toggled import only


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, KNOWN),
        ("1", KNOWN),
        ("0", ()),
        ("weight_gradient, max_pool_gradient", ("max_pool_gradient", "weight_gradient")),
    ],
)
def test_select(value, expected):
    assert select(value, KNOWN) == expected


@pytest.mark.parametrize("value", ["", "no", "max_pool_gradient,typo", "0,1"])
def test_unknown_values_are_errors(value):
    with pytest.raises(ValueError, match="DRUMLINE_CPU_LOWERINGS.*max_pool_gradient"):
        select(value, KNOWN)


def test_uninstall_restores_and_install_is_idempotent():
    primitives = (jax_internals.MAX_POOL_GRADIENT, jax_internals.CONVOLUTION)
    with only():
        originals = [jax_internals.cpu_entry(p) for p in primitives]
        assert lowerings.install(KNOWN) == lowerings.install(KNOWN) == lowerings.installed()
        assert [jax_internals.cpu_entry(p) for p in primitives] != originals
        lowerings.uninstall()
        assert [jax_internals.cpu_entry(p) for p in primitives] == originals
        assert lowerings.installed() == ()


@pytest.mark.parametrize(
    ("value", "expected"), [("0", ()), ("weight_gradient", ("weight_gradient",))]
)
def test_the_environment_is_read(value, expected, monkeypatch):
    monkeypatch.setenv(lowerings.VARIABLE, value)
    with only():
        assert lowerings.install() == lowerings.installed() == expected
