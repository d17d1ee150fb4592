"""Views of datasets in compiled functions, and functions adapted to other classes."""

import dataclasses

import numpy as np

from drumline.autograph import with_loops
from drumline.data import Dataset
from drumline.distribute.functions.function import Function


class View:
    def __init__(self, dataset):
        self.dataset = dataset
        self.presented = 0

    def __iter__(self):
        raise AssertionError("loops over a view go over its dataset")

    def __drumline_batches__(self):
        def present(batch):
            self.presented += 1
            return {"batch": batch}

        return self.dataset, present


def test_loops_over_views_are_staged():
    def total(data):
        found = np.int32(0)
        for each in data:
            found = found + each["batch"].sum()
        return found

    view = View(Dataset.from_tensor_slices(np.arange(200, dtype=np.int32)).batch(2))
    assert int(Function(total)(view)) == 19900
    assert 0 < view.presented < 100  # several batches are presented at once


@dataclasses.dataclass
class Wrapped:
    value: object


def test_functions_are_adapted_with_what_stages_their_loops():
    def total(data, start):
        found = start.value
        for each in data:
            found = found + each.sum()
        return found

    def adapt(function, loops):
        staged = function if loops is None else with_loops(function, loops)
        return lambda data, start: staged(data, Wrapped(start))

    data = Dataset.from_tensor_slices(np.arange(6, dtype=np.int32)).batch(2)
    assert int(Function(total, adapt=adapt)(data, np.int32(1))) == 16
