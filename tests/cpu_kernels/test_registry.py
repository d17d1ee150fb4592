"""What the setting and the environment accept, what is imported when, and that it can be undone."""

from __future__ import annotations

import subprocess
import sys

import pytest

import drumline as dl
from drumline import cpu_kernels
from drumline._settings import CPU_KERNELS, chosen_kernels
from drumline.cpu_kernels import jax_internals
from tests.cpu_kernels.toggled import only


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, CPU_KERNELS),
        ("1", CPU_KERNELS),
        ("0", ()),
        ("weight_gradient, max_pool_gradient", ("max_pool_gradient", "weight_gradient")),
    ],
)
def test_what_the_environment_asks_for(value, expected):
    assert chosen_kernels(value) == expected


@pytest.mark.parametrize("value", ["", "no", "max_pool_gradient,typo", "0,1"])
def test_unknown_values_are_errors(value):
    with pytest.raises(ValueError, match="DRUMLINE_CPU_KERNELS.*max_pool_gradient"):
        chosen_kernels(value)


def test_uninstall_restores_and_install_is_idempotent():
    primitives = (jax_internals.MAX_POOL_GRADIENT, jax_internals.CONVOLUTION)
    with only():
        originals = [jax_internals.cpu_entry(p) for p in primitives]
        assert cpu_kernels.install() == cpu_kernels.install() == cpu_kernels.installed()
        assert [jax_internals.cpu_entry(p) for p in primitives] != originals
        cpu_kernels.uninstall()
        assert [jax_internals.cpu_entry(p) for p in primitives] == originals
        assert cpu_kernels.installed() == ()


def test_the_setting_installs_what_it_names():
    before = dl.config.cpu_kernels()
    try:
        assert dl.config.set_cpu_kernels(False) == cpu_kernels.installed() == ()
        names = ("weight_gradient", "max_pool_gradient")
        expected = ("max_pool_gradient", "weight_gradient")
        assert dl.config.set_cpu_kernels(names) == cpu_kernels.installed() == expected
        with pytest.raises(ValueError, match="'typo' is no group of CPU kernels"):
            dl.config.set_cpu_kernels(["typo"])
        with pytest.raises(TypeError, match="not the string 'max_pool_gradient'"):
            dl.config.set_cpu_kernels("max_pool_gradient")
        assert dl.config.cpu_kernels() == cpu_kernels.installed() == expected
        assert dl.config.set_cpu_kernels(True) == CPU_KERNELS
    finally:
        dl.config.set_cpu_kernels(before)


FRESH = """
import sys
import drumline as dl
SETTING
import jax, jax.numpy as jnp
room = lambda: sorted(n.removeprefix("drumline.cpu_kernels") for n in sys.modules
                      if n.startswith("drumline.cpu_kernels"))
print(room())
jax.jit(lambda x: x + 1)(jnp.ones(3))
print(room())
x, w = jnp.ones((1, 8, 8, 8)), jnp.ones((3, 3, 8, 8))
numbers = ("NHWC", "HWIO", "NHWC")
jax.jit(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME",
                                                  dimension_numbers=numbers))(x, w)
print(room())
"""


def _fresh(setting: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", FRESH.replace("SETTING", setting)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kernels_are_imported_for_the_first_program_that_has_a_use_for_them():
    imported, other, convolved = _fresh("")
    assert imported == other == "['', '.convolution_call', '.jax_internals', '.registry']"
    assert ".direct_convolution" in convolved and ".max_pool_gradient" not in convolved


def test_nothing_is_imported_when_they_are_off_before_jax_is_imported():
    assert _fresh("dl.config.set_cpu_kernels(False)") == ["[]", "[]", "[]"]
