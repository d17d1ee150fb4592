"""Split expressions select the rows tfds would."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.datasets.info import Splits
from drumline.datasets.split_expression import (
    ReadInstruction,
    RowRange,
    even_splits,
    resolve_split,
    split_for_jax_process,
)

SIZES = {"train": 999, "test": 50}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("train", [("train", 0, 999)]),
        ("train[:]", [("train", 0, 999)]),
        ("train[10:20]", [("train", 10, 20)]),
        ("train[-5:]", [("train", 994, 999)]),
        ("train[:-5]", [("train", 0, 994)]),
        ("train[1_00:]", [("train", 100, 999)]),
        ("train[:80%]", [("train", 0, 799)]),  # 799.2
        ("train[80%:]", [("train", 799, 999)]),
        ("train[-10%:]", [("train", 899, 999)]),  # -99.9
        ("test[:33.3%]", [("test", 0, 17)]),  # 16.65
        ("test[:1%]+test[5%:6%]", None),
        ("test[:5%]", [("test", 0, 2)]),  # 2.5, to the even
        (" train [ :10% ] + test", [("train", 0, 100), ("test", 0, 50)]),
        ("test+test[:1]", [("test", 0, 50), ("test", 0, 1)]),
        ("all", [("train", 0, 999), ("test", 0, 50)]),
    ],
)
def test_rows(expression: str, expected: list[tuple[str, int, int]] | None) -> None:
    if expected is None:  # half a row rounds to none
        with pytest.raises(ValueError, match=r"'test\[:1%\]' selects no example"):
            resolve_split(expression, SIZES)
    else:
        assert resolve_split(expression, SIZES) == [RowRange(*part) for part in expected]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "the name of a split at character 1, found its end"),
        ("train[:80%", "or ']' at character 11, found its end"),
        ("train[80]", r"':' .* at character 9, found ']'"),
        ("train[:8x]", "at character 9, found 'x'"),
        ("train[:5shards]", "rows or shards, or a percentage at character 9, found 's'"),
        ("train[1.5:]", "a whole number of rows at character 7"),
        ("train+", "the name of a split at character 7, found its end"),
        ("train test", "or the end at character 7, found 't'"),
        ("train[:10%]]", "or the end at character 12, found ']'"),
        ("train[3:20%]", "mixes rows and percent"),
        ("train[:1000]", "reaches beyond the split's 999 rows"),
        ("train[:101%]", "reaches beyond 100%"),
        ("train[20:10]", r"selects no example: of 999 rows, \[20:10\]"),
        ("all[:10%]", "'all' cannot be sliced"),
        ("trian[:5]", r"Unknown split 'trian' .* Did you mean 'train'\? There are: train, test"),
    ],
)
def test_errors_say_what_is_wrong_and_where(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_split(expression, SIZES)


@given(st.integers(1, 10_000), st.lists(st.integers(0, 100), min_size=1, max_size=5))
def test_neighbouring_percentages_neither_overlap_nor_leave_gaps(
    rows: int, cuts: list[int]
) -> None:
    edges = [0, *sorted(cuts), 100]
    found = []
    for low, high in itertools.pairwise(edges):
        if round(low * rows / 100.0) < round(high * rows / 100.0):
            found += resolve_split(f"x[{low}%:{high}%]", {"x": rows})
    assert [part.start for part in found] == [0, *(part.stop for part in found[:-1])]
    assert found[-1].stop == rows


def test_info_counts_the_examples_of_expressions() -> None:
    splits = Splits(SIZES)
    assert splits["train[:80%]+test"].num_examples == 849
    assert dict(splits).keys() == {"train", "test"}
    assert splits.total_num_examples == 1049
    assert "train[:80%]" not in splits


SHARDS = {"train": [10, 20, 5], "test": [4]}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("train[:2shard]", (0, 30)),
        ("train[1shard:]", (10, 35)),
        ("train[1shard]", (10, 30)),
        ("train[-1shard:]", (30, 35)),
        ("train[-1shard]", (30, 35)),
        ("train[:-1shard]", (0, 30)),
        (ReadInstruction("train", 1, 3, "shard"), (10, 35)),
        (ReadInstruction("train", to=20, unit="%"), (0, 7)),
        (ReadInstruction("train", -5), (30, 35)),
        (ReadInstruction("train"), (0, 35)),
    ],
)
def test_shards_and_instructions(expression: object, expected: tuple[int, int]) -> None:
    assert resolve_split(expression, SHARDS) == [RowRange("train", *expected)]  # type: ignore[arg-type]


def test_percents_without_remainder() -> None:
    first = ReadInstruction("train", to=10, unit="%", rounding="pct1_dropremainder")
    assert resolve_split(first, {"train": 999}) == [RowRange("train", 0, 90)]
    with pytest.raises(ValueError, match="100 are needed"):
        resolve_split(first, SHARDS)
    with pytest.raises(ValueError, match="reaches beyond the split's 3 shards"):
        resolve_split("train[:4shard]", SHARDS)
    with pytest.raises(ValueError, match="unit must be"):
        ReadInstruction("train", unit="rows")
    with pytest.raises(ValueError, match="rounding must be"):
        ReadInstruction("train", rounding="down")


@given(st.integers(1, 400), st.integers(1, 9), st.booleans())
def test_even_parts_are_even_and_whole(rows: int, n: int, drop: bool) -> None:
    sizes, found = [], []
    for part in even_splits("a+a[:1]", n, drop_remainder=drop):
        ranges = part.ranges({"a": rows})
        sizes.append(sum(each.stop - each.start for each in ranges))
        found += [(each.start, each.stop) for each in ranges]
    total = rows + 1
    assert sum(sizes) == (rows // n * n + 1 // n * n if drop else total)
    if drop:
        assert len(set(sizes)) == 1


def test_the_first_parts_have_one_row_more() -> None:
    def sizes(**options: bool) -> list[int]:
        parts = [part.ranges({"a": 11}) for part in even_splits("a", 4, **options)]
        return [each.stop - each.start for (each,) in parts]

    assert sizes() == [3, 3, 3, 2]
    assert sizes(drop_remainder=True) == [2, 2, 2, 2]


def test_a_process_has_its_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.process_count", lambda: 3)
    monkeypatch.setattr("jax.process_index", lambda: 2)
    assert resolve_split(split_for_jax_process("train"), SHARDS) == [RowRange("train", 24, 35)]
    even = split_for_jax_process("train", drop_remainder=True)
    assert resolve_split(even, SHARDS) == [RowRange("train", 22, 33)]
    first = split_for_jax_process("train", process_index=0)
    assert resolve_split(first, SHARDS) == [RowRange("train", 0, 12)]


def test_processes_have_parts_and_parts_add_up() -> None:
    first, second = (
        split_for_jax_process("train", process_index=i, process_count=2) for i in (0, 1)
    )
    assert resolve_split(first + second + "test", SHARDS) == [
        RowRange("train", 0, 18),
        RowRange("train", 18, 35),
        RowRange("test", 0, 4),
    ]
    assert resolve_split("test" + first, SHARDS)[0].name == "test"
    with pytest.raises(ValueError, match="no process 2 of 2"):
        split_for_jax_process("train", process_index=2, process_count=2)
    with pytest.raises(TypeError, match="A split expression is a string"):
        resolve_split(3, SHARDS)  # type: ignore[arg-type]
