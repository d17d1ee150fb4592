"""The table of names: every entry resolves, and every name that is absent has an answer."""

import importlib
import subprocess
import sys

import pytest

from drumline.compat import tf
from drumline.compat.symbols import table
from drumline.compat.symbols.absent import ABSENT, REASONS


@pytest.mark.parametrize("area", table.areas())
def test_every_entry_resolves(area):
    for entry in importlib.import_module(f"drumline.compat.symbols.{area}").AREA:
        found = entry.load()
        reached = tf
        for part in entry.name.split("."):
            reached = getattr(reached, part)
        assert reached is found, entry


def test_names_are_tensorflows_own():
    unknown = {
        name
        for name in table.entries()
        if name not in table.names_of_tensorflow() and not name.startswith(("keras.", "compat."))
    }
    assert unknown == set()


def test_names_are_listed_and_importable():
    from drumline.compat.tf.keras import layers

    from drumline.compat.tf import keras, math

    assert {"add", "math", "keras"} <= set(dir(tf))
    assert "reduce_sum" in dir(math)
    assert keras.layers is layers
    assert "Dense" in dir(layers)


def test_absent_names_say_why_and_what_to_use():
    with pytest.raises(AttributeError, match=r"tf\.raw_ops is not .*use the function"):
        tf.raw_ops  # noqa: B018
    with pytest.raises(AttributeError, match=r"TensorFlow 2\.21 has no .*tf\.reduce_sum"):
        tf.reduce_summ  # noqa: B018
    for name in sorted(table.names_of_tensorflow() - table.entries().keys()):
        assert table.missing(name).startswith(f"tf.{name} is not in the look-alike")


def test_reasons_are_used_and_known():
    assert {absent.reason for absent in ABSENT} <= REASONS.keys()
    present = [a.prefix for a in ABSENT if a.prefix in table.entries()]
    assert present == []


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, drumline.compat.tf as tf; dir(tf); "
        "print([n for n in ('jax', 'keras', 'tensorflow') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
