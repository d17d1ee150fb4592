"""Operations that look at one element after the other. Expected values are tf.data's."""

import json
import logging

import numpy as np
import pytest

from drumline.data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset, TensorSpec


def values(ds):
    return [v.tolist() if hasattr(v, "tolist") else v for v in ds]


def resumed(ds, after):
    iterator = iter(ds)
    head = [element for _, element in zip(range(after), iterator, strict=False)]
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    return values(head) + values(again)


def failing(*bad):
    def check(v):
        if int(v) in bad:
            raise KeyError(int(v))
        return np.asarray(v)

    return check


def test_take_while_ends_before_the_first_that_fails():
    ds = Dataset.range(9).take_while(lambda v: v % 5 < 3)
    assert values(ds) == [0, 1, 2]
    assert ds.cardinality() == UNKNOWN_CARDINALITY
    assert values(Dataset.counter().take_while(lambda v: v < 4)) == [0, 1, 2, 3]
    assert values(Dataset.range(5).take_while(lambda v: v < 0)) == []
    asked = []

    def predicate(v):
        asked.append(int(v))
        return int(v) < 2

    taken = Dataset.from_generator(lambda: iter(range(9)), np.int32, ()).take_while(predicate)
    asked.clear()
    assert values(taken) == [0, 1] and asked == [0, 1, 2]
    iterator = iter(taken)
    list(iterator)
    again = iter(taken)
    again.restore(iterator.state())
    assert next(again, None) is None
    with pytest.raises(TypeError, match="one bool"):
        Dataset.range(3).take_while(lambda v: v)


def test_what_a_predicate_would_raise_after_the_end_is_not_raised():
    ds = Dataset.from_tensor_slices([3, 2, 1, 0]).take_while(lambda v: 6 // v < 5)
    assert values(ds) == [3, 2]
    with pytest.raises(ZeroDivisionError):
        list(Dataset.from_tensor_slices([3, 0]).take_while(lambda v: 6 // v < 5))


@pytest.mark.parametrize("python", [False, True])
def test_scan_carries_its_state_from_block_to_block(python):
    def step(s, e):
        total, product = s["sum"] + e, s["product"] * np.float32(1.0001)
        if python:
            total = np.int64(int(total))
        return {"sum": total, "product": product}, (s["sum"], product)

    ds = Dataset.range(40_000).scan({"sum": np.int64(2**40), "product": 1.0}, step)
    found = list(ds.take(20_000) if python else ds)
    sums = np.array([a for a, _ in found])
    n = len(found)
    assert np.array_equal(sums, 2**40 + np.arange(n) * (np.arange(n) - 1) // 2)
    assert [a.dtype for a in found[0]] == [np.int64, np.float32]
    products = np.cumprod(np.full(n, np.float32(1.0001)))
    np.testing.assert_allclose([p for _, p in found], products, rtol=1e-2)
    assert ("compiled as a loop" in ds.explain()) is not python
    iterator = iter(ds)
    for _ in range(777):
        next(iterator)
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert [a for a, _ in zip(again, range(3), strict=False)] == found[777:780]


def test_scan_takes_a_tuple_whole_and_gives_what_it_got():
    ds = Dataset.zip(Dataset.range(3), Dataset.from_tensor_slices(["a", "b", "c"]))
    found = list(ds.scan(np.int64(2**50), lambda s, e: (e[0], (s, e[1], 7))))
    assert found == [(2**50, b"a", 7), (0, b"b", 7), (1, b"c", 7)]
    joined = ds.scan(b"", lambda s, e: (bytes(s) + e[1], s))
    assert values(joined) == [b"", b"a", b"ab"]
    assert resumed(joined, 2) == [b"", b"a", b"ab"]


def test_a_scan_goes_on_after_an_element_that_failed():
    for function in (
        lambda s, e: (s + 6 // e, s),
        lambda s, e: (np.int32(int(s) + 6 // int(e)), s),
    ):
        iterator = iter(Dataset.from_tensor_slices([1, 0, 2, 3]).scan(0, function))
        assert next(iterator) == 0
        with pytest.raises(ZeroDivisionError) as caught:
            next(iterator)
        assert caught.value.element_index == 1
        assert values(iterator) == [6, 9]


def test_a_state_whose_shape_changes():
    ds = Dataset.range(3).scan(
        np.zeros(0, np.int64), lambda s, e: (np.concatenate([np.asarray(s), [int(e)]]), s)
    )
    assert values(ds) == [[], [0], [0, 1]]
    assert ds.element_spec == TensorSpec((None,), np.int64)


def test_reduce():
    numbers = Dataset.range(100_000)
    assert numbers.reduce(np.int64(0), lambda s, e: s + e) == 100_000 * 99_999 // 2
    pair = Dataset.zip(Dataset.range(5), Dataset.range(5)).batch(2)
    total = pair.reduce((np.int64(0), 0), lambda s, e: (s[0] + e[0].sum(), s[1] + 1))
    assert total == (10, 3)
    assert total[1].dtype == np.int32
    assert Dataset.range(0).reduce(np.float32(2), lambda s, e: s * 2) == 2
    with pytest.raises(TypeError, match=r"np.int64\(...\)"):
        numbers.reduce(0, lambda s, e: s + e)
    with pytest.raises(TypeError, match="structure"):
        numbers.reduce(np.int64(0), lambda s, e: (s, e))
    with pytest.raises(ValueError, match="never ends"):
        Dataset.counter().reduce(np.int64(0), lambda s, e: s + e)
    with pytest.raises(KeyError):
        numbers.map(failing(3)).reduce(np.int64(0), lambda s, e: s + e)
    with pytest.raises(ZeroDivisionError):
        numbers.reduce(np.int64(0), lambda s, e: s + 1 // (e - 7))


def test_unique():
    assert values(Dataset.from_tensor_slices([3, 1, 3, 2, 1]).unique()) == [3, 1, 2]
    assert values(Dataset.from_tensor_slices(["a", "b", "a"]).unique()) == [b"a", b"b"]
    assert values(Dataset.from_tensor_slices([[1, 2], [1, 2], [2, 1]]).unique()) == [[1, 2], [2, 1]]
    ds = Dataset.range(90).map(lambda v: v * v % 61).unique().skip(2)
    assert values(ds) == list(dict.fromkeys(v * v % 61 for v in range(90)))[2:]
    assert resumed(ds, 9) == values(ds)
    assert Dataset.range(3).unique().cardinality() == UNKNOWN_CARDINALITY
    with pytest.raises(TypeError, match="integers, bools or strings"):
        Dataset.from_tensor_slices([1.0]).unique()


def test_errors_are_passed_over_and_counted(caplog):
    ds = Dataset.range(8).map(failing(2, 3, 7)).ignore_errors(log_warning=True)
    with caplog.at_level(logging.WARNING, "drumline.data"):
        assert values(ds) == [0, 1, 4, 5, 6]
    assert ds.ignored_errors == len(caplog.records) == 3
    assert "KeyError: 2" in caplog.text
    assert resumed(ds, 2) == [0, 1, 4, 5, 6]
    silent = Dataset.range(4).map(failing(1)).ignore_errors().batch(2)
    caplog.clear()
    assert values(silent) == [[0, 2], [3]]
    assert (silent.ignored_errors, caplog.records) == (1, [])


def test_assert_cardinality():
    even = Dataset.range(6).filter(lambda v: v % 2 == 0)
    assert len(even.assert_cardinality(3)) == 3
    assert values(even.assert_cardinality(3)) == [0, 2, 4]
    for wrong, message in ((4, "only 3"), (2, "at least 3"), (INFINITE_CARDINALITY, "only 3")):
        iterator = iter(even.assert_cardinality(wrong))
        found = [v for _, v in zip(range(min(wrong % 10, 3)), iterator, strict=False)]
        assert values(found) == [0, 2, 4][: wrong % 10]
        with pytest.raises(ValueError, match=message):
            next(iterator)
        assert next(iterator, None) is None


def test_the_single_element():
    assert Dataset.from_tensors({"a": 3}).get_single_element() == {"a": 3}
    with pytest.raises(ValueError, match="more than one"):
        Dataset.range(2).get_single_element()
    with pytest.raises(ValueError, match="'mine': the dataset has no"):
        Dataset.range(0).get_single_element(name="mine")


def test_counter():
    assert values(Dataset.counter(2, -3, np.int32).take(3)) == [2, -1, -4]
    assert values(Dataset.counter(0.5, 100, np.float32).take(3)) == [0.5, 100.5, 200.5]
    assert Dataset.counter().cardinality() == INFINITE_CARDINALITY
    assert resumed(Dataset.counter(5).take(6), 4) == [5, 6, 7, 8, 9, 10]
    assert values(Dataset.counter(2**63, 1, np.uint64).take(2)) == [2**63, 2**63 + 1]
    iterator = iter(Dataset.counter(0, 100, np.int8))
    assert [next(iterator), next(iterator)] == [0, 100]
    with pytest.raises(OverflowError, match="200 does not fit int8"):
        next(iterator)
    with pytest.raises(ValueError, match="start must be an integer"):
        Dataset.counter(0.5)


def test_random_numbers_follow_from_the_seed():
    ds = Dataset.random(seed=4).take(1000)
    numbers = np.array(values(ds))
    assert values(ds) == numbers.tolist() == values(Dataset.random(seed=4).take(1000))
    assert numbers.min() >= 0 and 2**31 < numbers.max() < 2**32
    assert abs(numbers.mean() / 2**31 - 1) < 0.1
    assert resumed(ds, 10) == numbers.tolist()
    assert values(Dataset.random(seed=5).take(5)) != numbers[:5].tolist()
    again = Dataset.random(seed=4, rerandomize_each_iteration=True).take(5)
    assert values(again) != values(again)
    assert values(Dataset.random().take(5)) != values(Dataset.random().take(5))
