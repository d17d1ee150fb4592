import pytest

from benchmarks.harness.ratios import Spread, ratio, speeds, spread


def test_a_ratio_is_the_median_of_ratios_within_rounds(make):
    # The machine is three times slower in the second round; both sides feel it.
    ours = [make(first_epoch_s=s) for s in (1.0, 3.0, 1.0)]
    theirs = [make(first_epoch_s=s) for s in (2.0, 6.0, 8.0)]
    assert ratio(ours, theirs, "first") == Spread(2.0, 2.0, 8.0)


def test_rounds_that_miss_a_side_do_not_count(make):
    ours = [make(first_epoch_s=1.0), None, make(first_epoch_s=1.0)]
    theirs = [make(first_epoch_s=3.0), make(first_epoch_s=99.0), None]
    assert ratio(ours, theirs, "first") == Spread(3.0, 3.0, 3.0)
    assert ratio([None], [make()], "first") is None


def test_a_quicker_first_batch_is_a_ratio_above_one(make):
    assert ratio([make(first_batch_s=0.1)], [make(first_batch_s=0.4)], "first_batch") == Spread(
        *[pytest.approx(4.0)] * 3
    )


def test_speeds_skip_missing_rounds(make):
    assert speeds([make(), None, make(first_epoch_s=4.0)], "first") == Spread(25.0, 37.5, 50.0)
    assert speeds([None], "first") is None


def test_a_spread_needs_values():
    with pytest.raises(ValueError, match="no values"):
        spread([])
