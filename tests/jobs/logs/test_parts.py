"""Logs within a limit: what is kept, what marks say, and reading while they are written."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.logs import writing
from drumline.jobs.logs.reading import LogReader
from drumline.jobs.logs.writing import LogWriter, part_numbers, part_path

MARK = re.compile(rb"\[drumline: ([\d,]+) lines? \((.*)\) were dropped here: .* at most (.*)\]")
LIMIT = 4096


def contents(log: Path) -> list[bytes]:
    return [part_path(log, number).read_bytes() for number in (0, *part_numbers(log))]


def test_a_log_below_its_limit_is_one_private_file(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    writer = LogWriter(log)
    writer.write(b"one\ntw")
    writer.write(b"o\n")
    writer.close()
    assert log.read_bytes() == b"one\ntwo\n" and writer.tail == b"one\ntwo\n"
    assert [path.name for path in tmp_path.iterdir()] == ["worker-0.log"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_beginning_and_the_end_stay_and_a_mark_counts_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer = LogWriter(log, LIMIT)
    lines = [b"line %d\n" % i for i in range(2000)]
    for line in lines:
        writer.write(line)
    writer.close()
    assert sum(map(len, contents(log))) <= LIMIT
    first, mark, *rest = contents(log)
    written = b"".join(lines)
    end = b"".join(rest)
    assert written.startswith(first) and written.endswith(end)
    assert len(first) + len(end) >= 0.7 * LIMIT
    found = MARK.fullmatch(mark.rstrip(b"\n"))
    assert found is not None and found[3] == b"4 KiB"
    missing = written[len(first) : -len(end)]
    assert int(found[1].replace(b",", b"")) == missing.count(b"\n") > 0
    assert found[2] == f"{len(missing):,} bytes".encode()
    assert all(part.endswith(b"\n") for part in contents(log)), "cut between lines"


def test_another_start_in_the_directory_removes_all_parts(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer = LogWriter(log, LIMIT)
    writer.write(b"x" * 99 + b"\n")
    for _ in range(50):
        writer.write(b"x" * 99 + b"\n")
    writer.close()
    assert part_numbers(log)
    (tmp_path / "a.log.new").touch()
    LogWriter(log, LIMIT).close()
    assert part_numbers(log) == [] and log.read_bytes() == b""
    appended = LogWriter(log, LIMIT, append=True)
    appended.write(b"a\n")
    appended.close()
    assert log.read_bytes() == b"a\n"


some_output = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(1, 40).map(lambda n: b"y" * 17 * n + b"\n")),
    max_size=60,
)


@given(some_output, st.integers(0, 2**32))
def test_a_reader_sees_each_line_once_or_a_mark(chunks: list[bytes], pauses: int) -> None:
    """Whenever it looks, what it reads is what was written but for whole runs that marks name."""
    with tempfile.TemporaryDirectory() as folder:
        _write_and_read(Path(folder) / "a.log", chunks, pauses)


def _write_and_read(log: Path, chunks: list[bytes], pauses: int) -> None:
    writer, reader = LogWriter(log, LIMIT), LogReader(log)
    numbered: list[bytes] = []
    read: list[bytes] = []
    for position, chunk in enumerate(chunks):
        body = chunk.replace(b"\n", b"|").replace(b"[", b"(")
        numbered.append(b"%d %s" % (position, body))
        writer.write(numbered[-1] + b"\n")
        if pauses >> (position % 32) & 1:
            read += reader.lines()
    writer.close()
    read += reader.lines(ended=True)
    kept = [line for line in read if not MARK.fullmatch(line)]
    position = 0
    for line in read:
        if MARK.fullmatch(line):
            continue
        found = numbered.index(line, position)
        if found > position:
            assert len(kept) < len(read), "lines are missing without a mark"
        position = found + 1
    assert position == len(numbered), "the end is there"
    if len(kept) == len(read):
        assert kept == numbered
    assert sum(map(len, contents(log))) <= LIMIT + 200, "but for the mark"


def test_a_reader_that_is_overtaken_reads_the_mark(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer, reader = LogWriter(log, LIMIT), LogReader(log)
    assert list(reader.lines()) == []
    for i in range(100):
        writer.write(b"%010d\n" % i)
    first = list(reader.lines())
    assert first == [b"%010d" % i for i in range(100)]
    for i in range(100, 5000):
        writer.write(b"%010d\n" % i)
    mark, *rest = reader.lines()
    assert MARK.fullmatch(mark)
    assert rest == [b"%010d" % i for i in range(5000 - len(rest), 5000)]
    writer.write(b"unfinished")
    assert list(reader.lines()) == [] and reader.unfinished == b"unfinished"
    assert list(reader.lines(ended=True)) == [b"unfinished"]


def test_a_mark_is_read_whole_in_the_place_of_a_part_that_was_begun(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    for count in range(52, 60):  # The reader has read a little of part 1.
        writer, reader = LogWriter(log, LIMIT), LogReader(log)
        writer.write(b"%09d\n" * count % tuple(range(count)))
        assert len(list(reader.lines())) == count
        writer.write(b"".join(b"%09d\n" % i for i in range(count, 440)))
        writer.close()
        assert part_numbers(log)[0] == 1
        assert MARK.fullmatch(next(reader.lines()).removeprefix(b"\n"))


def test_a_line_without_an_end_is_cut_where_it_is_redrawn(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer, reader = LogWriter(log, LIMIT), LogReader(log)
    for i in range(300):
        writer.write(b"%4d/300 [====>    ]\r" % i)
    writer.close()
    assert all(part.endswith((b"\r", b"]\n")) for part in contents(log))
    lines = list(reader.lines(ended=True))
    assert lines[-1].endswith(b" 299/300 [====>    ]\r") and MARK.fullmatch(lines[1])
    huge = tmp_path / "huge.log"
    writer, reader = LogWriter(huge, 1 << 20), LogReader(huge)
    writer.write(b"x" * 300_000)
    assert b"".join(reader.lines(ended=True)) == b"x" * 300_000


def test_a_full_disk_loses_lines_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    writer = LogWriter(log, LIMIT)
    write = os.write
    room = 10

    def limited(file: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(file, bytes(data)[:room])
        room -= count
        return count

    with monkeypatch.context() as while_full:
        while_full.setattr(writing.os, "write", limited)
        writer.write(b"kept\nbroken off\n")
        writer.write(b"lost\nlost, too\n")
        room = 20  # Not enough for the mark, of which nothing stays.
        writer.write(b"lost\n")
    assert log.read_bytes() == b"kept\nbroke"
    assert writer.tail.endswith(b"lost, too\nlost\n")
    writer.write(b"there is room\n")
    assert log.read_bytes().splitlines() == [
        b"kept",
        b"broke",
        b"[drumline: 4 lines (26 bytes) could not be written here: No space left on device]",
        b"there is room",
    ]
    monkeypatch.setattr(writing, "private", _full)
    for _ in range(1000):
        writer.write(b"more than a part\n")
    assert log.stat().st_size <= LIMIT // 8 and part_numbers(log) == []


def _full(path: str, flags: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
