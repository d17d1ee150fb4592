import pytest

from benchmarks.harness.measurement import Measurement


def test_speeds_are_rates(make):
    measurement = make()
    assert measurement.speed("first") == 50.0
    assert measurement.speed("later") == 100.0
    assert measurement.speed("first_batch") == pytest.approx(100.0)


def test_an_unknown_metric_is_named(make):
    with pytest.raises(ValueError, match="'median'"):
        make().speed("median")


def test_json_keeps_everything(make):
    measurement = make(evidence={"losses": [1.5, 0.5]})
    assert Measurement.from_json(measurement.to_json()) == measurement
    assert "\n" not in measurement.to_json()


@pytest.mark.parametrize("line", ["", "noise", "[]", "{}", '{"later_epochs_s": [1], "more": 1}'])
def test_other_lines_are_refused(line):
    with pytest.raises(ValueError, match="not a measurement"):
        Measurement.from_json(line)
