"""Examples as numpy's arrays, tables and pictures."""

from __future__ import annotations

import numpy as np
import pytest

import drumline as dl
from drumline import datasets


def test_arrays_tables_and_pictures() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib").use("agg")
    pairs, info = datasets.load("digits", split="test[:5]", as_supervised=True, with_info=True)
    rows = datasets.as_numpy({"a": [pairs]})["a"][0]
    assert len(rows) == 5
    for _ in range(2):
        assert all(isinstance(image, np.ndarray) for image, _ in rows)
    table = datasets.as_dataframe(pairs, info)
    assert list(table.columns) == ["image", "label"] and len(table) == 5
    figure = datasets.show_examples(pairs, info, rows=1, cols=2)
    labels = [int(label) for _, label in pairs]
    assert [axes.get_title() for axes in figure.axes] == [str(n) for n in labels[:2]]
    with pytest.raises(ValueError, match="and no 'picture'"):
        datasets.show_examples(pairs, info, image_key="picture")


def test_pictures_have_the_names_of_their_classes() -> None:
    pytest.importorskip("matplotlib").use("agg")
    features = {
        "image": datasets.features.Image((2, 2, 1)),
        "label": datasets.features.ClassLabel(names=["cat", "dog"]),
    }
    info = datasets.DatasetInfo("pets", datasets.info.Splits({"train": 2}), features, None, "", "")
    examples = {"image": np.zeros((2, 2, 2, 1), np.uint8), "label": np.array([1, -1])}
    figure = datasets.show_examples(
        dl.data.Dataset.from_tensor_slices(examples), info, rows=1, cols=2
    )
    assert [axes.get_title() for axes in figure.axes] == ["dog (1)", "no label"]


def test_nested_values_have_paths() -> None:
    pytest.importorskip("pandas")
    nested = dl.data.Dataset.from_tensor_slices({"a": {"b": [1, 2]}, "c": [3, 4]})
    assert datasets.as_dataframe(nested).to_dict("list") == {"a/b": [1, 2], "c": [3, 4]}
