"""``tf.experimental.dtensor`` beside TensorFlow's."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")

PROGRAM = """
import json
{imports}
from tests.compat.dtensor_programs import facts
physical = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    physical[0], [tf.config.LogicalDeviceConfiguration()] * 6
)
print("FACTS" + json.dumps(facts(tf, dtensor)))
"""


def told(imports: str) -> list[object]:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(imports=imports)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: list[object] = json.loads(ended.stdout.rpartition("FACTS")[2])
    return found


def test_meshes_layouts_and_tensors_are_as_in_tensorflow() -> None:
    expected = told("import tensorflow as tf\nfrom tensorflow.experimental import dtensor")
    found = told(
        "import drumline.compat.tf as tf\nfrom drumline.compat.tf.experimental import dtensor"
    )
    assert len(found) == len(expected)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-5), number
        else:
            assert ours == theirs, number
