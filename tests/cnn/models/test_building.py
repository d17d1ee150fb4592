"""How many programs are compiled for the weights that a model begins with."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

BUILD = """
import json, sys
import jax
import drumline as dl
from drumline.cnn import models

def count(event, seconds, **_):
    global programs
    programs += event == "/jax/core/compile/backend_compile_duration"

jax.monitoring.register_event_duration_secs_listener(count)
counts = {}
with dl.distribute.MirroredStrategy().scope():
    for name in sys.argv[1:]:
        programs = 0
        models.build(name)
        counts[name] = programs
print(json.dumps(counts))
"""


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("inception3", 40),
        ("resnet50", 40),
        # Three for each of nine sizes that are drawn; biases of six sizes are filled without one.
        pytest.param("vgg16", 34, marks=pytest.mark.thorough),
    ],
)
def test_models_of_many_shapes_are_built_by_few_programs(name: str, most: int) -> None:
    """Inception-v3's kernels have 44 shapes, and a program for each took 25 seconds.

    In a process of its own, as others may have compiled some of them before.
    """
    run = subprocess.run(
        [sys.executable, "-c", BUILD, name], capture_output=True, text=True, check=True
    )
    assert 0 < json.loads(run.stdout)[name] <= most
