"""Logs by the numbers of their bytes, while parts of them are dropped."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drumline.jobs.logs.reading import LogBytes
from drumline.jobs.logs.writing import LogWriter
from drumline.jobs.sources.secrets import Masking, write_secret

LIMIT = 4096


@given(
    st.lists(st.tuples(st.integers(1, 900), st.booleans()), max_size=60),
    st.integers(1, 3000),
    st.integers(0, 12000),
)
def test_each_byte_keeps_its_number(writes: list[tuple[int, bool]], chunk: int, asked: int) -> None:
    """What is read at a number is what was written there, whatever was dropped before it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.log")
        writer, written, at, seen = LogWriter(log, LIMIT), b"", 0, 0
        for size, look in writes:
            data = b"%d " % len(written) * size + b"\n"
            data = data[-size:]
            writer.write(data)
            written += data
            reader = LogBytes(log)
            assert reader.size() == len(written)
            while look and at < len(written):
                part = reader.read(at, chunk)
                assert part.start >= at and part.size == len(written) and part.data
                assert part.data == written[part.start : part.start + len(part.data)]
                at = part.start + len(part.data)
                seen += len(part.data)
        writer.close()
        end = LogBytes(log).read(-asked - 1, chunk)
        assert written[end.start :].startswith(end.data)
        if len(written) <= LIMIT // 2:
            assert end.start == max(0, len(written) - asked - 1)


def test_a_log_that_another_start_has_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert LogBytes(log).read(5, 10).size == 0
    log.write_bytes(b"another")
    assert LogBytes(log).read(50, 3).data == b"ano"
    assert LogBytes(log).read(7, 3).data == b""


def test_values_are_masked_in_place_also_where_a_chunk_cuts_them(tmp_path: Path) -> None:
    write_secret(tmp_path, "TOKEN", "s3cret-value")
    mask = Masking(tmp_path)
    assert mask.same_size(b"a s3cret-value b") == b"a ************ b"
    assert mask.margin == 11
    assert mask.undecided(b"it is s3cret") == 6 and mask.undecided(b"it is") == 1
    assert mask.undecided(b"s3cret-value") == 0 and mask.undecided(b"plain") == 0
    (tmp_path / "empty").mkdir()
    none = Masking(tmp_path / "empty")
    assert none.same_size(b"x") == b"x" and none.undecided(b"x") == none.margin == 0
