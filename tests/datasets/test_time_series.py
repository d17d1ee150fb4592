"""Windows of time series; expected ones are those that Keras's documentation shows."""

import numpy as np
import pytest

import drumline as dl

windows = dl.datasets.timeseries_dataset_from_array


def test_windows_of_kerass_documentation():
    data = np.arange(100)
    found = list(
        windows(data, None, sequence_length=10, sampling_rate=2, sequence_stride=3, batch_size=None)
    )
    assert [found[i].tolist() for i in (0, 1, 2, -1)] == [
        [0, 2, 4, 6, 8, 10, 12, 14, 16, 18],
        [3, 5, 7, 9, 11, 13, 15, 17, 19, 21],
        [6, 8, 10, 12, 14, 16, 18, 20, 22, 24],
        [81, 83, 85, 87, 89, 91, 93, 95, 97, 99],
    ]
    (inputs, targets) = next(iter(windows(data[:-10], data[10:], sequence_length=10)))
    assert inputs[0].tolist() == list(range(10)) and targets[:2].tolist() == [10, 11]
    assert inputs.shape == (81, 10) and len(targets) == 81


def test_parts_batches_and_orders():
    data = np.arange(40.0).reshape(20, 2)
    made = windows(data, None, 3, batch_size=4, start_index=5, end_index=12)
    assert made.element_spec == dl.TensorSpec((None, 3, 2), np.float64)
    assert [batch[:, 0, 0].tolist() for batch in made] == [[10, 12, 14, 16], [18]]
    mixed = windows(data, np.arange(20), 3, batch_size=4, shuffle=True, seed=1)
    epochs = [[t for _, targets in mixed for t in targets] for _ in range(2)]
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1]) == list(range(18))
    assert all(x[0, 0] == 2 * t for xs, ts in mixed for x, t in zip(xs, ts, strict=True))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sequence_length": 0}, "sequence_length must be from 1 to the 20 steps, got 0"),
        ({"sampling_rate": 21}, "sampling_rate must be from 1 to the 20 steps"),
        ({"sampling_rate": 10}, r"no window of 3 steps, 10 apart.*into 20 steps"),
        ({"start_index": 7, "end_index": 7}, "got 7 and 7"),
        ({"end_index": 21}, "must lie within the 20 steps"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        windows(np.arange(20), None, **({"sequence_length": 3} | changed))
