"""Choosing Keras's backend and JAX's platforms, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SELECT = "from drumline._backend import select_keras_backend; select_keras_backend();"
SHOW = "import keras; print(keras.config.backend());"
ONLY_FAKE = """
import jax
from jax._src import xla_bridge
xla_bridge.register_backend_factory("fake", xla_bridge.make_cpu_client, priority=500)
jax.config.update("jax_platforms", "fake")
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter whose backend choices are those given."""
    inherited = {
        k: v
        for k, v in os.environ.items()
        if k not in ("KERAS_BACKEND", "KERAS_HOME", "JAX_PLATFORMS", "XLA_FLAGS")
    }
    env = {**inherited, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "always", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], check=False, env=env, capture_output=True, text=True
    )


def test_keras_runs_on_jax_and_asking_does_not_start_it(tmp_path: Path) -> None:
    asking = (
        "from drumline._jax_start import jax_has_started as s; import jax; a = s();"
        "jax.devices(); print(a, s())"
    )
    done = run(SELECT + SHOW + asking, KERAS_HOME=str(tmp_path))
    assert done.stdout.split() == ["jax", "False", "True"], done.stderr
    assert "overrules" not in done.stderr


def test_keras_loads_what_few_programs_use_when_it_is_used(tmp_path: Path) -> None:
    code = """
import sys
loaded = lambda: [name for name in ("matplotlib.pyplot", "sklearn") if name in sys.modules]
print(loaded())
from keras.visualization import plot_image_gallery
print(loaded())
bases = keras.wrappers.SKLearnClassifier.__mro__
print(sys.modules["sklearn.base"].BaseEstimator in bases)
print(loaded())
print(plot_image_gallery is keras.src.visualization.plot_image_gallery.plot_image_gallery)
"""
    done = run(SELECT + "import keras" + code, KERAS_HOME=str(tmp_path), MPLBACKEND="Agg")
    assert done.stdout.splitlines() == [
        "[]",
        "['matplotlib.pyplot']",
        "True",
        "['matplotlib.pyplot', 'sklearn']",
        "True",
    ], done.stderr


@pytest.mark.thorough
def test_a_contrary_variable_is_overruled_with_one_warning(tmp_path: Path) -> None:
    done = run(SELECT + SELECT + SHOW, KERAS_HOME=str(tmp_path), KERAS_BACKEND="torch")
    assert done.stdout.strip() == "jax", done.stderr
    assert done.stderr.count("overrules the environment variable KERAS_BACKEND=torch") == 1


def test_a_contrary_keras_json_is_overruled_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "torch"}))
    done = run(SELECT + SHOW, KERAS_HOME=str(tmp_path))
    assert done.stdout.strip() == "jax", done.stderr
    assert str(tmp_path / "keras.json") in done.stderr


@pytest.mark.thorough
def test_the_file_keras_writes_by_itself_causes_no_warning(tmp_path: Path) -> None:
    run("import keras", KERAS_HOME=str(tmp_path), KERAS_BACKEND="jax")
    assert json.loads((tmp_path / "keras.json").read_text())["backend"] == "tensorflow"
    done = run(SELECT + SHOW, KERAS_HOME=str(tmp_path))
    assert done.stdout.strip() == "jax", done.stderr
    assert "overrules" not in done.stderr


def test_keras_imported_earlier_with_another_backend_is_refused(tmp_path: Path) -> None:
    done = run("import keras;" + SELECT, KERAS_HOME=str(tmp_path), KERAS_BACKEND="numpy")
    assert done.returncode != 0
    assert "'numpy' backend" in done.stderr
    assert "Import drumline before keras" in done.stderr


@pytest.mark.thorough
def test_the_cpu_joins_an_accelerator_only_list_at_its_end() -> None:
    code = "import jax; from drumline._backend import keep_cpu_platform as k; k(); k();"
    done = run(code + "print(jax.config.jax_platforms)", JAX_PLATFORMS="cuda")
    assert done.stdout.strip() == "cuda,cpu", done.stderr


@pytest.mark.thorough
def test_lists_with_the_cpu_and_no_list_stay_as_they_are() -> None:
    code = "import jax; from drumline._backend import keep_cpu_platform as k; k();"
    code += "print(jax.config.jax_platforms)"
    assert run(code, JAX_PLATFORMS="cpu").stdout.strip() == "cpu"
    assert run(code).stdout.strip() in ("", "None")


def test_the_pipeline_has_a_cpu_beside_the_default_platform() -> None:
    code = ONLY_FAKE + "from drumline._backend import cpu_device; print(cpu_device().platform);"
    done = run(code + "print(jax.devices()[0].client is cpu_device().client)")
    assert done.stdout.split() == ["cpu", "False"], done.stderr


@pytest.mark.thorough
def test_a_cpu_hidden_for_good_says_what_to_set() -> None:
    code = ONLY_FAKE + "jax.devices(); from drumline._backend import cpu_device; cpu_device()"
    done = run(code)
    assert done.returncode != 0
    assert 'Set JAX_PLATFORMS="fake,cpu"' in done.stderr
