"""Where the elements of a program come from."""

from __future__ import annotations

import functools
import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import drumline as dl
from tests.differential.expressions import Draw
from tests.differential.parts import Step

LENGTH_OF_A_RECORD = 12
"""How many bytes say a TFRecord's length."""


def draw_source(draw: Draw) -> Step:
    """Where elements come from."""
    return draw(st.sampled_from(_SOURCES))(draw)


def new_folder() -> str:
    """An empty directory, which is deleted when the process ends."""
    return tempfile.mkdtemp(dir=_all_folders().name)


@functools.cache
def _all_folders() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-differential-")


def _range(draw: Draw) -> Step:
    start, step = draw(st.integers(-3, 5)), draw(st.sampled_from([-2, -1, 1, 2, 3]))
    stop = start + step * draw(st.integers(0, 12))
    return Step(f"D.range({start}, {stop}, {step})", lambda s, _: s.D.range(start, stop, step))


def _tensors(draw: Draw) -> Step:
    value = draw(st.integers(-5, 5))
    return Step(
        f"D.from_tensors(({value}, [1, {value}]))",
        lambda s, _: s.D.from_tensors((s.array(value, "int64"), s.array([1, value], "int64"))),
    )


def _slices(draw: Draw) -> Step:
    rows = draw(st.integers(0, 14))
    columns = draw(st.lists(st.sampled_from(sorted(_COLUMNS)), min_size=1, max_size=3, unique=True))
    form = draw(st.sampled_from(["tuple", "dict", "one"]))

    def slices(side: Any, _: Any) -> Any:
        made = [_COLUMNS[name](rows) for name in columns]
        if form == "one":
            return side.D.from_tensor_slices(made[0])
        given = tuple(made) if form == "tuple" else dict(zip(columns, made, strict=True))
        return side.D.from_tensor_slices(given)

    return Step(f"D.from_tensor_slices({form} of {columns}, {rows} rows)", slices)


_COLUMNS: dict[str, Callable[[int], Any]] = {
    "int64": lambda n: np.arange(n, dtype=np.int64) * 7 % 11 - 3,
    "int32": lambda n: np.arange(n, dtype=np.int32) * 5 % 7,
    "uint8": lambda n: np.arange(n, dtype=np.uint8) * 37,
    "float32": lambda n: np.arange(n, dtype=np.float32) / 4 - 1,
    "float64": lambda n: np.arange(n, dtype=np.float64) / 8,
    "bool": lambda n: np.arange(n) % 3 == 0,
    "string": lambda n: np.array([f"s{i % 5}" for i in range(n)], dtype=object),
    "rows": lambda n: np.arange(3 * n, dtype=np.int64).reshape(n, 3) % 13,
}


def _list(draw: Draw) -> Step:
    """`from_list`, whose equal is called `from_sequence`."""
    columns = draw(st.lists(st.sampled_from(sorted(_ITEMS)), min_size=1, max_size=3, unique=True))
    length = draw(st.integers(0, 9))
    form = draw(st.sampled_from(["tuple", "dict", "one"]))
    items = []
    for i in range(length):
        made = [_ITEMS[name](i) for name in columns]
        items.append(
            made[0]
            if form == "one"
            else tuple(made)
            if form == "tuple"
            else dict(zip(columns, made, strict=True))
        )
    return Step(
        f"from_list({length} times {form} of {columns})", lambda s, _: s.from_list(list(items))
    )


_ITEMS: dict[str, Callable[[int], Any]] = {
    "int64": lambda i: np.int64(i * 7 % 11 - 3),
    "float32": lambda i: np.float32(i / 4),
    "bool": lambda i: np.bool_(i % 3 == 0),
    "string": lambda i: f"s{i % 5}",
    "row": lambda i: np.arange(3, dtype=np.int64) + i,
    "ragged": lambda i: np.arange(i % 4, dtype=np.int64),
}


def _generator(draw: Draw) -> Step:
    length = draw(st.integers(0, 9))
    fails = draw(st.none() | st.integers(0, 9))

    def generate() -> Iterator[Any]:
        for i in range(length):
            if i == fails:
                raise ValueError("the generator failed")
            yield i * 3 % 5, f"g{i}"

    return Step(
        f"D.from_generator({length} pairs, fails at {fails})",
        lambda s, _: s.D.from_generator(
            generate, output_signature=(s.spec((), "int64"), s.spec((), "string"))
        ),
    )


def _ragged(draw: Draw) -> Step:
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=8))
    rows = [list(range(i, i + n)) for i, n in enumerate(lengths)]
    return Step(
        f"D.from_generator({rows})",
        lambda s, _: s.D.from_generator(
            lambda: (np.array(row, np.int64) for row in rows),
            output_signature=s.spec((None,), "int64"),
        ),
    )


def _datasets(draw: Draw) -> Step:
    """An element that has datasets among its leaves."""
    n, size, value = draw(st.integers(0, 5)), draw(st.integers(1, 3)), draw(st.integers(-5, 5))
    form = draw(st.sampled_from(["pair", "dict", "slices"]))

    def made(side: Any, _: Any) -> Any:
        numbers = side.D.range(n)
        pairs = side.D.zip((numbers, side.D.range(7).skip(1).batch(size)))
        if form == "pair":
            return side.D.from_tensors((side.array(value, "int64"), numbers))
        if form == "dict":
            return side.D.from_tensors({"p": pairs, "n": side.array(value, "int64"), "d": numbers})
        slices = side.D.from_tensor_slices(np.arange(n, dtype=np.int64))
        return slices.map(lambda i: {"i": i, "d": numbers})

    return Step(f"datasets({form}, {n}, {size}, {value})", made)


_LINES = [b"", b"a", b"two words", "Zé".encode(), b"x\r", b"12", b"  padded "]


def _lines(draw: Draw) -> Step:
    contents = draw(st.lists(st.lists(st.sampled_from(_LINES), max_size=5), max_size=3))
    last = draw(st.booleans())
    texts = [b"\n".join(lines) + (b"\n" if lines and last else b"") for lines in contents]
    compression = draw(st.sampled_from([None, "", "GZIP", "ZLIB"]))
    paths = _written([_compressed(text, compression) for text in texts])
    more, shown = _reading(draw, paths)
    return Step(
        f"TextLineDataset({texts}, {compression!r}, {shown})",
        lambda s, _: s.data.TextLineDataset(
            more.paths(s), compression_type=compression, **more.arguments(s)
        ),
        facts={"missing": more.missing},
    )


def _records(draw: Draw) -> Step:
    contents = draw(st.lists(st.lists(st.sampled_from(_LINES), max_size=5), min_size=1, max_size=3))
    compression = draw(st.sampled_from([None, "", "GZIP", "ZLIB"]))
    cut = draw(st.sampled_from([0, 0, 0, 1, 3, 5, 11, 17])) if not compression else 0
    options = dl.io.TFRecordOptions(compression or "")
    paths = _written([b"" for _ in contents])
    for path, records in zip(paths, contents, strict=True):
        with dl.io.TFRecordWriter(path, options) as writer:
            for record in records:
                writer.write(record)
    whole = Path(paths[-1]).read_bytes()
    kept = whole[: len(whole) - cut] if cut else whole
    Path(paths[-1]).write_bytes(kept)
    more, shown = _reading(draw, paths)
    return Step(
        f"TFRecordDataset({contents}, {compression!r}, cut={cut}, {shown})",
        lambda s, _: s.data.TFRecordDataset(
            more.paths(s), compression_type=compression, **more.arguments(s)
        ),
        facts={"missing": more.missing, "within a length": _ends_in_a_length(contents[-1], kept)},
    )


def _ends_in_a_length(records: list[bytes], kept: bytes) -> bool:
    """Whether what is left of a file of records ends where a record's length should be."""
    at = 0
    for record in records:
        if at < len(kept) < at + LENGTH_OF_A_RECORD:
            return True
        at += LENGTH_OF_A_RECORD + len(record) + 4
    return False


def _fixed(draw: Draw) -> Step:
    size, header, footer = (draw(st.integers(least, 3)) for least in (1, 0, 0))
    lengths = draw(st.lists(st.integers(0, 14), min_size=1, max_size=3))
    if draw(st.booleans()):  # whole records, and not most often some bytes more
        lengths = [n // size * size + header + footer for n in lengths]
    contents = [bytes(range(40 + i, 40 + i + n)) for i, n in enumerate(lengths)]
    compression = draw(st.sampled_from([None, "", "GZIP", "ZLIB"]))
    paths = _written([_compressed(content, compression) for content in contents])
    more, shown = _reading(draw, paths)
    left = [n < header + footer or (n - header - footer) % size > 0 for n in lengths]
    return Step(
        f"FixedLengthRecordDataset({contents}, {size}, {header}, {footer}, {compression!r}, "
        f"{shown})",
        lambda s, _: s.data.FixedLengthRecordDataset(
            more.paths(s), size, header, footer, compression_type=compression, **more.arguments(s)
        ),
        facts={"missing": more.missing, "left over": any(left)},
    )


def _compressed(content: bytes, compression: str | None) -> bytes:
    if compression == "GZIP":
        return gzip.compress(content)
    return zlib.compress(content) if compression == "ZLIB" else content


def _written(contents: list[bytes]) -> list[str]:
    paths = [f"{new_folder()}/{number}" for number, _ in enumerate(contents)]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    return paths


class _Reading:
    """How files are named, and how many are read at once."""

    def __init__(self, paths: list[str], form: str, parallel: int | None, missing: int | None):
        self.missing = missing is not None
        self._paths = list(paths)
        if missing is not None:
            self._paths.insert(min(missing, len(paths)), f"{new_folder()}/missing")
        self._form = form
        self._parallel = parallel

    def paths(self, side: Any) -> Any:
        if self._form == "dataset":
            return side.D.from_tensor_slices(np.array(self._paths, object))
        return self._paths[0] if self._form == "one" and self._paths else self._paths

    def arguments(self, side: Any) -> dict[str, Any]:
        return {"num_parallel_reads": self._parallel}


def _reading(draw: Draw, paths: list[str]) -> tuple[_Reading, str]:
    form = draw(st.sampled_from(["list", "list", "dataset", "one"]))
    parallel = draw(st.sampled_from([None, None, 1, 2, 3]))
    missing = draw(st.sampled_from([None, None, None, None, 0, 1]))
    shown = f"{form}, num_parallel_reads={parallel}, missing={missing}"
    return _Reading(paths, form, parallel, missing), shown


_SOURCES: list[Callable[[Draw], Step]] = [
    *(_range, _slices, _slices, _slices, _tensors, _generator, _ragged, _list, _list, _datasets),
    *(_lines, _records, _fixed),
]
