"""What a step looks up in a table of several parts, against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._memory import BufferPool
from drumline.distribute.parameter_server.server.push import RequestArrays
from drumline.distribute.parameter_server.wire.messages import (
    PushPullReply,
    ShardLayout,
    VariableLayout,
)
from drumline.distribute.parameter_server.worker.step import (
    EmbeddingLookup,
    PushPullRequest,
)

ROWS, WIDTH = 30, 3
TABLE = np.random.default_rng(0).random((ROWS, WIDTH)).astype(np.float32)


def layout_of(cuts: list[int]) -> VariableLayout:
    bounds = [0, *sorted(cuts), ROWS]
    parts = [
        ShardLayout(index % 2, index, start, stop)
        for index, (start, stop) in enumerate(itertools.pairwise(bounds))
    ]
    return VariableLayout("table", "table", TABLE.shape, "float32", tuple(parts))


def new_exchanges() -> dict[int, PushPullRequest]:
    return {
        server: PushPullRequest(lambda forms: [np.full(form[0], 7, form[1]) for form in forms])
        for server in (0, 1)
    }


def answer(layout: VariableLayout, exchanges: dict[int, PushPullRequest]) -> int:
    """Give the exchanges the rows that they ask for, as servers do; returns how many."""
    starts = {layout.shard_name(part): part.start for part in layout.shards}
    asked = 0
    for exchange in exchanges.values():
        message = exchange.message(None)
        arrays = RequestArrays(message.arrays)
        ids = [starts[each.name] + arrays.take_ids(each.ids, "ids") for each in message.gather]
        arrays.end()
        values = tuple(TABLE[each] for each in ids)
        exchange.take(PushPullReply(applied=(), versions=(), changed=(), values=values))
        asked += sum(map(len, ids))
    return asked


def pushed(layout: VariableLayout, exchanges: dict[int, PushPullRequest]) -> np.ndarray:
    """What the exchanges add to the table; every part is named once, no row of it twice."""
    starts = {layout.shard_name(part): part.start for part in layout.shards}
    total, names = np.zeros_like(TABLE), []
    for exchange in exchanges.values():
        message = exchange.message("closure")
        arrays = RequestArrays(message.arrays)
        for each in message.push:
            ids, gradient = arrays.take_ids(each.ids, "ids"), arrays.take("a gradient")
            assert len(set(ids.tolist())) == len(ids) == len(gradient)
            total[starts[each.name] + ids] += gradient
            names.append(each.name)
    assert sorted(names) == sorted(starts)
    return total


IDS = st.lists(st.integers(0, ROWS - 1), max_size=20)


@given(IDS, st.lists(st.integers(0, ROWS), max_size=3), st.booleans())
def test_rows_and_gradients_are_those_of_numpy(
    given_ids: list[int], cuts: list[int], by_id: bool
) -> None:
    ids, layout = np.array(given_ids, np.int32), layout_of(cuts)
    gradient = np.arange(ids.size * WIDTH, dtype=np.float32).reshape(ids.size, WIDTH)
    lookup, asking, pushing = EmbeddingLookup(layout, ids, by_id), new_exchanges(), new_exchanges()
    lookup.ask(asking)
    answer(layout, asking)
    rows = lookup.rows(BufferPool())
    if by_id:
        found = rows
        wanted = [pushing[server].empties([form])[0] for server, form in lookup.sums_of(gradient)]
        lookup.push_by_id(gradient, wanted, pushing, str)
    else:
        # A program takes the row of each id, and sums, by the inverse.
        found = rows[lookup.inverse]
        sums = np.zeros_like(gradient)
        np.add.at(sums, lookup.inverse, gradient)
        lookup.push(sums, pushing, str)
    assert rows.shape == (ids.size, WIDTH)
    np.testing.assert_array_equal(found, TABLE[ids])
    expected = np.zeros_like(TABLE)
    np.add.at(expected, ids, np.arange(ids.size * WIDTH, dtype=np.float32).reshape(-1, WIDTH))
    np.testing.assert_array_equal(pushed(layout, pushing), expected)


@pytest.mark.parametrize(("repeated", "asked"), [(2, 20), (10, 10)])
def test_rows_travel_twice_only_where_few_do(repeated: int, asked: int) -> None:
    ids = np.arange(20, dtype=np.int32)
    ids[:repeated] = ids[-repeated:]
    exchanges = new_exchanges()
    lookup = EmbeddingLookup(layout_of([]), ids, by_id=True)
    lookup.ask(exchanges)
    assert answer(layout_of([]), exchanges) == asked
    np.testing.assert_array_equal(lookup.rows(BufferPool()), TABLE[ids])
