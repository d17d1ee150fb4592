"""What importing drumline loads, and that Keras is changed in whatever order it is imported."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import drumline as dl

HEAVY = (
    "jax",
    "jaxlib",
    "keras",
    "tensorflow",
    "torch",
    "pyarrow",
    "fsspec",
    "pydantic",
    "rich",
    "h5py",
    "matplotlib",
    "sklearn",
    "tensorboard",
    "ray",
    "orbax",
    "datasets",
    "pandas",
)

WITHOUT = f"""
import sys

def nothing_heavy(after):
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    assert not loaded, (after, loaded)

import drumline
nothing_heavy("import drumline")
import drumline.data
nothing_heavy("import drumline.data")
import numpy as np
from drumline.data import Dataset, TensorSpec

rows = np.arange(10), np.ones((10, 3), np.float32)
batches = list(Dataset.from_tensor_slices(rows).shuffle(4, seed=1).batch(4, drop_remainder=True))
assert [batch[1].shape for batch in batches] == [(4, 3)] * 2, batches
assert [list(batch) for batch in Dataset.range(5).batch(2)] == [[0, 1], [2, 3], [4]]
dataset = Dataset.range(6).repeat(2).skip(1).shard(2, 0).take(4).cache().prefetch(2)
iterator = iter(dataset)
assert [next(iterator), next(iterator)] == [1, 3]
again = iter(dataset)
again.restore(iterator.state())
assert list(again) == list(iterator) == [5, 1]
made = Dataset.from_generator(lambda: iter(range(3)), output_signature=TensorSpec((), "int64"))
assert list(Dataset.zip((made, Dataset.range(3))).enumerate()) == [(i, (i, i)) for i in range(3)]
assert "batch" in Dataset.range(9).batch(2).explain()
nothing_heavy("pipelines without functions")
assert list(Dataset.range(3).map(lambda x: x * 2)) == [0, 2, 4]
assert "jax" in sys.modules and "keras" not in sys.modules
"""


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pipelines_of_arrays_need_neither_jax_nor_keras() -> None:
    run(WITHOUT)


PATCHED = """
import keras
from keras.src.backend.jax import core, trainer
from jax._src.interpreters import mlir
from jax._src.lax.convolution import conv_general_dilated_p
print(
    keras.config.backend(),
    hasattr(trainer.JAXTrainer.fit, "__drumline_original__"),
    hasattr(core.Variable.assign, "__drumline_original__"),
    conv_general_dilated_p in mlir._platform_specific_lowerings["cpu"],
    "matplotlib.pyplot" in __import__("sys").modules,
)
"""

ORDERS = [
    "import drumline",
    "import keras, drumline",
    "import jax, drumline, keras",
    "import drumline, jax, keras",
    "import drumline.data; drumline.data.Dataset; import keras.layers",
    "import drumline as dl; dl.distribute.MirroredStrategy",
    "import drumline.training.keras_internals",
    "import drumline.distribute.variable",
    "import drumline.keras.internals",
    "import drumline.cpu_kernels.jax_internals",
    "import drumline._jax_start, drumline._backend",
    "import drumline.nn",
    "from drumline import *",
    "import drumline; from keras.src.backend import Variable",
    "import drumline, importlib, keras; importlib.reload(keras)",
    "import drumline, threading\n"
    "t = threading.Thread(target=__import__, args=('keras',)); t.start(); t.join()",
]


@pytest.mark.parametrize("order", [pytest.param(o, marks=[] if i < 4 else [pytest.mark.thorough])
                                   for i, o in enumerate(ORDERS)])  # fmt: skip
def test_keras_is_changed_in_whatever_order_it_is_imported(order: str) -> None:
    imported_before = order.startswith("import keras")
    found = run("import os; os.environ['KERAS_BACKEND'] = 'jax'\n" + order + PATCHED).split()
    assert found[:4] == ["jax", "True", "True", "True"]
    assert found[4] == "False" or imported_before


FIT = """
import numpy as np
data = dl.data.Dataset.from_tensor_slices((np.ones((8, 2), "float32"), np.ones(8, "float32")))
with dl.distribute.OneDeviceStrategy("cpu:0").scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data.batch(4), verbose=0)
"""


@pytest.mark.parametrize("first", ["drumline as dl", "keras"])
def test_a_dataset_can_be_fitted_in_either_order(first: str) -> None:
    second = "keras" if first.startswith("drumline") else "drumline as dl"
    start = "import os; os.environ['KERAS_BACKEND'] = 'jax'\n"
    run(f"{start}import {first}\nimport {second}\n{FIT}")


def test_a_change_of_the_backend_between_the_imports_is_overruled() -> None:
    code = "import os, drumline; os.environ['KERAS_BACKEND'] = 'tensorflow'\n"
    assert run(code + "import keras; print(keras.config.backend())").split() == ["jax"]


def test_an_import_of_keras_that_fails_leaves_no_trace() -> None:
    code = """
import sys, drumline
before = list(sys.meta_path)
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "keras.src":
            raise ModuleNotFoundError("no keras.src")
blocked = Blocked()
sys.meta_path.insert(0, blocked)
try:
    import keras
except ModuleNotFoundError as error:
    print(error)
sys.meta_path.remove(blocked)
assert sys.meta_path == before, sys.meta_path
import keras
from keras.src.backend.jax.trainer import JAXTrainer
print(hasattr(JAXTrainer.fit, "__drumline_original__"))
"""
    assert run(code).splitlines() == ["no keras.src", "True"]


def test_names_are_listed_found_and_pickled() -> None:
    assert set(dl.__all__) <= set(dir(dl)) and set(dl.data.__all__) <= set(dir(dl.data))
    for name in dl.__all__:
        assert getattr(dl, name) is not None
    for name in dl.data.__all__:
        value = getattr(dl.data, name)
        if isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value
    for module in (dl, dl.data):
        with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
            module.no_such_name  # noqa: B018


def test_all_names_for_type_checkers_are_there_at_run_time() -> None:
    """What stands under TYPE_CHECKING is typed by hand, beside the tables."""
    import ast

    for module in (dl, dl.data):
        assert module.__file__ is not None
        tree = ast.parse(Path(module.__file__).read_text())
        checked = next(node for node in tree.body if isinstance(node, ast.If))
        names = {
            alias.asname or alias.name
            for node in checked.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert names - {"Any"} <= set(dir(module))
        assert set(module.__all__) <= names | {"__version__"}
