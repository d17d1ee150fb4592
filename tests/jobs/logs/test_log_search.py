"""Text in a log: found as a terminal shows it, in either direction, however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.logs import searching
from drumline.jobs.logs.reading import LogBytes, LogPart
from drumline.jobs.logs.searching import FoundLines, LogSearch

_words = st.sampled_from(["loss", "Loss", "los", "ß", "漢字", "\x1b[31ml", "o\x1b[0mss", "\t", "x"])
_lines = st.lists(st.lists(_words, max_size=5).map("".join), max_size=40)


def _reader(data: bytes) -> Callable[[int, int], LogPart]:
    def read(start: int, limit: int) -> LogPart:
        return LogPart(data[start : start + limit], start, len(data))

    return read


def _all(step: Callable[[int], FoundLines], at: int, back: bool = False) -> list[int]:
    """All lines that are found if one goes on from where the last answer ended."""
    found = list[int]()
    while True:
        answer = step(at)
        found += [line for line, _ in answer.lines]
        following = answer.start if back else answer.end
        if following == at:
            return found
        at = following


@given(_lines, st.booleans(), st.integers(1, 30), st.integers(1, 4), st.integers(1, 60))
def test_each_line_once_in_both_directions(
    lines: list[str], finished: bool, piece: int, most: int, look_at: int
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if finished and lines else b"")
    # What is longer than a piece is looked at in pieces: only of whole lines all is said.
    piece = max(piece, max((len(line.encode()) for line in lines), default=0) + 1)
    expected, at = [], 0
    for line in lines:
        plain = line.replace("\x1b[31m", "").replace("\x1b[0m", "")
        if "loss" in plain.lower():
            expected.append(at)
        at += len(line.encode()) + 1
    with mock.patch.object(searching, "_PIECE", piece):
        search = LogSearch("LOSS", _reader(data))
        after = _all(lambda at: search.after(at, most, look_at=look_at), 0)
        before = _all(lambda at: search.before(at, most, look_at), len(data), True)
    # One that is still written is looked at again.
    assert list(dict.fromkeys(after)) == expected
    assert len(after) <= len(expected) + 1
    assert before == expected[::-1]


def test_what_was_written_over_is_not_found() -> None:
    data = b"10% slow\r20% slow\r100% done\r\nslow is here\n"
    search = LogSearch("slow", _reader(data))
    second = data.index(b"slow is here")
    assert search.after(0, 10).lines == [(second, len(data))]
    assert LogSearch("100% done", _reader(data)).after(0, 10).lines == [(0, second)]


def test_text_across_colours_and_links_is_found() -> None:
    data = b"\x1b[1;31mlo\x1b[0mss is \x1b]8;;http://a.b\x07NaN\x1b]8;;\x07 now\x1b[K\n"
    for text, found in (("loss is nan now", True), ("31m", False), ("http", False)):
        assert bool(LogSearch(text, _reader(data)).after(0, 1).lines) is found, text


def test_lines_longer_than_a_piece_and_bytes_that_are_no_text() -> None:
    data = b"a" * 5000 + b" needle " + b"b" * 5000 + b"\n\xff\xfe needle\n" + b"c" * 9000
    with mock.patch.object(searching, "_PIECE", 1024):
        search = LogSearch("needle", _reader(data))
        after = _all(lambda at: search.after(at, 1), 0)
        before = _all(lambda at: search.before(at, 1), len(data), True)
    second = data.index(b"\xff")
    # Of the long line a piece is named, since all of it may be too much.
    assert len(after) == len(before) == 2
    assert after[1] == second and before[0] == second
    assert abs(after[0] - 5000) <= 1024 and abs(before[1] - 5000) <= 1024


def test_no_answer_looks_at_more_than_it_may() -> None:
    data = b"nothing of it here\n" * 500_000
    read = list[int]()

    def counting(start: int, limit: int) -> LogPart:
        read.append(limit)
        return _reader(data)(start, limit)

    search = LogSearch("needle", counting)
    found = search.after(0, 1, look_at=2 << 20)
    assert (found.lines, found.start, found.size) == ([], 0, len(data))
    assert 2 << 20 <= found.end <= 3 << 20 and sum(read) <= 4 << 20
    found = search.before(len(data), 1, look_at=2 << 20)
    assert 2 << 20 <= len(data) - found.start <= 3 << 20


def test_a_log_of_which_a_part_was_dropped(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    log.write_bytes(b"needle 1\nends here without a line's end")
    mark = b"[drumline: 30 lines (2,000 bytes) were dropped here: x]\n"
    (tmp_path / "worker-0.log.1").write_bytes(mark)
    (tmp_path / "worker-0.log.2").write_bytes(b"of a line\nneedle 2\n")
    read = LogBytes(log).read
    last = LogBytes(log).size() - len(b"needle 2\n")
    search = LogSearch("needle", read)
    assert search.after(0, 10).lines == [(0, 9), (last, last + 9)]
    assert search.before(last + 9, 10).lines == [(last, last + 9), (0, 9)]
    assert search.after(last + 9, 10) == FoundLines([], last + 9, last + 9, last + 9)
    # What is left of a line whose beginning was dropped is looked at, too.
    (tmp_path / "worker-0.log.2").write_bytes(b"a needle's end\nneedle 2\n")
    last = LogBytes(log).size() - len(b"needle 2\n")
    with mock.patch.object(searching, "_PIECE", 64):
        again = LogSearch("needle", read)
        before = _all(lambda at: again.before(at, 1), last + 9, True)
    assert before == [last, last - 15, 0]


def test_from_within_a_line_the_next_one_is_the_first() -> None:
    data = b"needle 1, needle 1\nneedle 2\n"
    search = LogSearch("needle", _reader(data))
    assert search.after(3, 1, aligned=False).lines == [(19, 28)]
    assert search.after(19, 1, aligned=False).lines == [(19, 28)]
    assert search.after(20, 1, aligned=False).lines == []
    assert search.after(0, 1, aligned=False).lines == [(0, 19)]


def test_a_line_that_is_still_written_is_looked_at_again() -> None:
    data = b"one\nneedle, and mo"
    found = LogSearch("needle", _reader(data)).after(0, 10)
    assert (found.lines, found.end) == ([(4, len(data))], 4)
    grown = data + b"re\nneedle\n"
    found = LogSearch("needle", _reader(grown)).after(found.end, 10)
    assert [line for line, _ in found.lines] == [4, len(grown) - 7]
    assert found.end == found.size


@pytest.mark.parametrize("text", ["", "x" * 201, "two\nlines", "\x1b[31m", "\0"])
def test_what_is_no_text(text: str) -> None:
    with pytest.raises(ValueError, match="text must be 1 to 200 characters of one line"):
        LogSearch(text, _reader(b""))
