"""docs/data/index.md: what it says is there is there, and it has all of TensorFlow's names."""

import importlib.util
import json
import pathlib
import re

import numpy as np
import pytest

import drumline as dl

ROOT = pathlib.Path(__file__).parents[2]
PLACES = {
    "tf.data": dl.data,
    "tf.data.Dataset": dl.data.Dataset,
    "tf.data.Options": dl.data.Options(),
    "tf.data.ThreadingOptions": dl.data.ThreadingOptions(),
    "tf.data.experimental": dl.data.experimental,
    "tf.data.experimental.OptimizationOptions": dl.data.OptimizationOptions(),
    "tf.data.experimental.AutotuneOptions": dl.data.AutotuneOptions(),
    "tf.data.experimental.DistributeOptions": dl.data.experimental.DistributeOptions(),
}


@pytest.fixture(scope="module")
def names():
    spec = importlib.util.spec_from_file_location("names", ROOT / "scripts" / "tf_data_names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_table(names):
    assert names.PAGE.read_text() == names.page(), "run python scripts/tf_data_names.py"


def test_the_pages_example(names, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```", names.page(), re.S | re.M)
    found = {}
    exec(code, found)
    assert [found["image"].dtype, found["image"].shape[1:]] == [np.float32, (28, 28)]
    assert [first.shape for first in found["first"]] == [(32, 28, 28), (32,)]
    expected, given = next(found["iterator"]), found["second"]
    assert all(map(np.array_equal, expected, given))
    assert not np.array_equal(found["first"][0], given[0])
    json.dumps(found["state"])
    assert "batch 32" in capsys.readouterr().out


def test_what_is_there_is_there(names):
    renamed = {"Iterator": "DatasetIterator", "NumpyIterator": "DatasetIterator"}
    for section, entries in names.table().items():
        for name, (kind, _) in entries.items():
            found = hasattr(PLACES[section], renamed.get(name, name))
            assert found or kind == "absent", f"{section}.{name} is {kind}, and not there"
            # Options that are always or never so may be given that value.
            assert not found or kind != "absent" or "Options" in section, f"{section}.{name}"


def test_the_tests_exist(names):
    for entries in names.table().values():
        for kind, text in entries.values():
            if kind != "same":
                continue
            file, _, case = text.partition("::")
            source = (ROOT / "tests" / "data" / file).read_text()
            if case:
                assert re.search(rf'(def {re.escape(case)}\(|"{re.escape(case)}":)', source), text


def test_all_of_tensorflows_names(names):
    reason = "compares with TensorFlow, which the bench extra has"
    tensorflow = pytest.importorskip("tensorflow", reason=reason)
    assert names.differences_from(tensorflow) == []
