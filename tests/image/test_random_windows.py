"""The first window that covers enough of an object, with any number of objects in each row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline.image.random_windows import FirstCovering, candidate_windows

SIZES = st.tuples(st.integers(1, 90), st.integers(1, 90))
BOX = st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4).map(
    lambda ends: (min(ends[::2]), min(ends[1::2]), max(ends[::2]), max(ends[1::2]))
)


def columns(boxes):
    """Tops, lefts, bottoms and rights of the boxes of each row."""
    lengths = [len(row) for row in boxes]
    flat = np.array([box for row in boxes for box in row], np.float32).reshape(-1, 4)
    return [dl.RaggedArray.from_row_lengths(column, lengths) for column in flat.T]


def candidates(sizes, seed, attempts=7):
    draw = np.random.default_rng(seed)
    windows = []
    for height, width in sizes:
        tops, lefts = (draw.integers(0, side, attempts) for side in (height, width))
        tall = 1 + (draw.uniform(0, 1, attempts) * (height - tops)).astype(int)
        wide = 1 + (draw.uniform(0, 1, attempts) * (width - lefts)).astype(int)
        windows.append(np.stack([tops, lefts, tops + tall, lefts + wide], -1))
    return np.array(windows, np.int32), draw.random((len(sizes), attempts)) < 0.7


def chosen(windows, fits, size, boxes, least):
    """By pixels that are counted one by one."""
    height, width = size
    scaled = [
        [int(np.float32(end) * np.float32(side)) for end, side in zip(box, size * 2, strict=True)]
        for box in boxes
    ] or [[0, 0, height, width]]
    for (top, left, bottom, right), allowed in zip(windows.tolist(), fits, strict=True):
        inside = np.zeros((height, width), bool)
        inside[top:bottom, left:right] = True
        objects = [inside[t:b, lo:hi] for t, lo, b, hi in scaled]
        parts = [np.float32(part.sum()) / np.float32(part.size) for part in objects if part.size]
        if allowed and any(part >= np.float32(least) for part in parts):
            return [top, left, bottom - top, right - left]
    return [0, 0, height, width]


@given(
    st.lists(st.tuples(SIZES, st.lists(BOX, max_size=3)), min_size=1, max_size=6),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.integers(0, 99),
)
def test_it_is_the_first_that_covers_enough(rows, least, seed):
    sizes, boxes = zip(*rows, strict=True)
    windows, fits = candidates(sizes, seed)
    given = [windows, fits, np.array(sizes, np.int32), *columns(boxes)]
    made = FirstCovering(least).run(given, len(rows))
    assert made.error is None
    wanted = [chosen(*row, least=least) for row in zip(windows, fits, sizes, boxes, strict=True)]
    np.testing.assert_array_equal(made.columns[0], wanted)


def test_rows_before_a_bad_one_are_made():
    good, bad = [(0.1, 0.1, 0.5, 0.5)], [(0.1, 0.1, 0.5, 0.5), (0.0, np.nan, 0.5, 0.5)]
    sizes = [(20, 30)] * 3
    windows, fits = candidates(sizes, 1)
    for boxes, count in (([good, [], bad], 2), ([bad, good, good], 0)):
        given = [windows, fits, np.array(sizes, np.int32), *columns(boxes)]
        made = FirstCovering(0.1).run(given, 3)
        assert len(made.columns[0]) == count
        assert "the box [0.0, nan, 0.5, 0.5] does not lie in [0, 1]" in str(made.error)
    tops, *others = columns([good, good, good])
    given = [windows, fits, np.array(sizes, np.int32), tops, *(o[:2] for o in others)]
    uneven = dl.RaggedArray.from_row_lengths(np.full(2, 0.5, np.float32), [1, 1, 0])
    given[4:] = [uneven, *others[1:]]
    made = FirstCovering(0.1).run(given, 3)
    assert len(made.columns[0]) == 2 and "[1, 0, 1, 1] numbers" in str(made.error)


def test_candidates_keep_to_the_ranges():
    windows, fits = candidate_windows((80, 120, 3), (0.75, 1.33), (0.2, 0.6), 500, seed=1)
    top, left, bottom, right = np.asarray(windows)[np.asarray(fits)].T
    assert len(top) > 450 and min(top) >= 0 and min(left) >= 0
    assert max(bottom) <= 80 and max(right) <= 120
    areas, ratios = (bottom - top) * (right - left) / 9600, (right - left) / (bottom - top)
    assert 0.199 < min(areas) < 0.22 and 0.55 < max(areas) < 0.601
    assert 0.73 < min(ratios) < 0.78 and 1.28 < max(ratios) < 1.36
