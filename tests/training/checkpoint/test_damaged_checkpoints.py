"""Damaged checkpoints and indexes: what is restored in their place, and what is never touched."""

from __future__ import annotations

import json
import logging
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data.elements.errors import IteratorStateError
from drumline.train import DamagedCheckpointError
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.index import listed

SUFFIX = ".safetensors"


class Program:
    """Some state that a checkpoint holds: a variable, a counter and a position in the input."""

    def __init__(self, directory: Path, max_to_keep: int | None = 3) -> None:
        self.v = dl.Variable(np.zeros(5, np.float32))
        self.step = dl.Variable(0)
        self.batches = iter(dl.data.Dataset.range(10).shuffle(10, seed=1))
        self.checkpoint = dl.train.Checkpoint(v=self.v, step=self.step, batches=self.batches)
        self.manager = dl.train.CheckpointManager(self.checkpoint, directory, max_to_keep)

    def save(self, number: int) -> Path:
        self.v.assign(np.full(5, number, np.float32))
        self.step.assign(number)
        next(self.batches)
        return Path(self.manager.save() + SUFFIX)

    def state(self) -> tuple[Any, ...]:
        at = self.batches.state()
        return self.v.value.tolist(), int(self.step.value), at["at"]["position"] + at["used"]


def saved(directory: Path, count: int = 3) -> list[tuple[Any, ...]]:
    """What a program that has saved so often had in its checkpoints."""
    program = Program(directory, None)
    states = []
    for number in range(1, count + 1):
        program.save(number)
        states.append(program.state())
    return states


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "cut off": lambda content: content[:-7],
    "cut in the header": lambda content: content[:100],
    "a bit of a value": lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
    "a bit of the header": lambda content: (
        content[:300] + bytes([content[300] ^ 1]) + content[301:]
    ),
    "zeros": lambda content: bytes(len(content)),
    "nested": lambda content: struct.pack("<Q", 200_000) + b"[" * 200_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_newest_whole_checkpoint_is_restored_with_a_warning(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    states = saved(tmp_path)
    newest = tmp_path / f"ckpt-3{SUFFIX}"
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    program = Program(tmp_path)
    assert program.manager.restore_or_initialize() == str(tmp_path / "ckpt-2")
    assert program.state() == states[1]
    (message,) = [each.getMessage() for each in caplog.records]
    assert "Restored" in message and "ckpt-2' in the place of" in message
    assert f"{newest}' is damaged" in message
    # The damaged one is written anew, and does not count among those that are kept.
    assert program.save(3) == newest
    assert program.manager.checkpoints == [str(tmp_path / f"ckpt-{n}") for n in (1, 2, 3)]
    assert Program(tmp_path).manager.restore_or_initialize() == str(tmp_path / "ckpt-3")


def test_damaged_ones_are_deleted_before_whole_ones(tmp_path: Path) -> None:
    saved(tmp_path, 4)
    for number in (3, 4):
        os.truncate(tmp_path / f"ckpt-{number}{SUFFIX}", 50)
    program = Program(tmp_path, 2)
    assert program.manager.restore_or_initialize() == str(tmp_path / "ckpt-2")
    program.save(3)
    assert program.manager.checkpoints == [str(tmp_path / f"ckpt-{n}") for n in (2, 3)]
    assert not (tmp_path / f"ckpt-4{SUFFIX}").exists()


def test_without_a_whole_one_nothing_is_restored(tmp_path: Path) -> None:
    saved(tmp_path)
    for file in tmp_path.glob(f"*{SUFFIX}"):
        os.truncate(file, 50)
    program = Program(tmp_path)
    before = program.state()
    with pytest.raises(DamagedCheckpointError, match="None of the 3 checkpoints in .*ckpt-1"):
        program.manager.restore_or_initialize()
    assert program.state() == before


def test_what_is_whole_and_of_other_objects_is_not_passed_over(tmp_path: Path) -> None:
    saved(tmp_path)
    other = dl.train.Checkpoint(v=dl.Variable(np.zeros(6, np.float32)))
    with pytest.raises(ValueError, match="Nothing was restored: build"):
        dl.train.CheckpointManager(other, tmp_path, 3).restore_or_initialize()


def test_a_file_that_the_disk_does_not_give_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = saved(tmp_path)
    read = np.fromfile

    def failing(file: Path, dtype: Any) -> Any:
        if "ckpt-3" in str(file):
            raise error
        return read(file, dtype)

    monkeypatch.setattr(file_format.np, "fromfile", failing)
    program = Program(tmp_path)
    error = OSError(5, "Input/output error")
    assert program.manager.restore_or_initialize() == str(tmp_path / "ckpt-2")
    assert program.state() == states[1]
    error = OSError(24, "Too many open files")  # says nothing about the checkpoint
    with pytest.raises(OSError, match="Too many"):
        program.manager.restore_or_initialize()


def test_the_latest_is_one_that_is_not_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved(tmp_path)
    os.truncate(tmp_path / f"ckpt-3{SUFFIX}", 1_000)
    manager = Program(tmp_path).manager
    for _ in range(3):
        assert dl.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-2")
        assert manager.latest_checkpoint == str(tmp_path / "ckpt-2")
    assert len(caplog.records) == 1 and "passed over" in caplog.text
    for number in (1, 2):
        os.truncate(tmp_path / f"ckpt-{number}{SUFFIX}", 0)
    # Not None: a program that begins anew then would lose its work without a word.
    assert dl.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-3")


def restored(program: Program, path: str, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """The state of a program after restoring; None if that is refused and has changed nothing."""
    try:
        program.checkpoint.restore(path)
    except DamagedCheckpointError:
        assert program.state() == before
        return ()
    return program.state()


def test_each_flipped_bit_is_refused(tmp_path: Path) -> None:
    """All bytes of the header and of the values, one bit each: refused, with nothing changed."""
    (state,) = saved(tmp_path, 1)
    file = tmp_path / f"ckpt-1{SUFFIX}"
    content = file.read_bytes()
    path = str(tmp_path / "ckpt-1")
    program = Program(tmp_path / "other")
    before = program.state()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        assert restored(program, path, before) == (), f"byte {place}"
    for length in range(0, len(content), 13):
        file.write_bytes(content[:length])
        assert restored(program, path, before) == (), f"length {length}"
    file.write_bytes(content)
    assert restored(program, path, before) == state


@pytest.mark.thorough
def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    file = tmp_path / f"ckpt-1{SUFFIX}"
    content = file.read_bytes()
    for position in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        file.write_bytes(damaged)
        with pytest.raises(DamagedCheckpointError, match="is damaged"):
            file_format.read(tmp_path / "ckpt-1")


def with_metadata(content: bytes, change: dict[str, Any]) -> bytes:
    """A file that somebody has written with other metadata, and right checksums."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    own = json.loads(header["__metadata__"]["drumline"]) | change
    own = {name: value for name, value in own.items() if value is not ...}
    header["__metadata__"]["drumline"] = json.dumps(own)
    header["__metadata__"]["header_crc32"] = "0" * 8
    text = json.dumps(header).encode()
    whole = struct.pack("<Q", len(text)) + text
    return whole.replace(b"0" * 8, b"%08x" % zlib.crc32(whole), 1) + content[8 + length :]


@pytest.mark.parametrize(
    "change",
    [
        {"states": ...},
        {"states": []},
        {"aliases": {"a": 1}},
        {"aliases": "a"},
        {"save_counter": "x"},
        {"kept": []},
        {"kept": {"format": "x"}},
        {"kept": {"format": "x", "directory": "y", "entries": {"a": 1}, "record": {}}},
        {"kept": {"format": "x", "directory": "y", "entries": {}, "record": {}, "more": 1}},
    ],
)
def test_other_metadata_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    saved(tmp_path, 1)
    file = tmp_path / f"ckpt-1{SUFFIX}"
    file.write_bytes(with_metadata(file.read_bytes(), change))
    with pytest.raises(DamagedCheckpointError, match="is damaged"):
        Program(tmp_path / "other").checkpoint.restore(tmp_path / "ckpt-1")


def test_a_position_of_another_input_is_not_taken_for_damage(tmp_path: Path) -> None:
    saved(tmp_path)
    other = dl.train.Checkpoint(batches=iter(dl.data.Dataset.range(10).batch(2)))
    with pytest.raises(IteratorStateError):
        dl.train.CheckpointManager(other, tmp_path, 3).restore_or_initialize()


INDEXES = {
    "empty": b"",
    "zeros, as a crash leaves them": bytes(60),
    "cut off": b'{"checkpoints": ["ckpt-1", "ck',
    "no list": b'{"checkpoints": "ckpt-1"}',
    "numbers": b'{"checkpoints": [1]}',
    "a flipped bit": b'{"checkpoints": ["ckpt-1", "ckpt-2", "ckpt-1"], "crc32": "%s"}',
    "no text": b"\xff\xfe\x00",
    "nested": b"[" * 100_000,
    "above": b'{"checkpoints": ["../victim", "ckpt-1"]}',
    "absolute": b'{"checkpoints": ["/etc/victim", "ckpt-1"]}',
    "the directory": b'{"checkpoints": [".", ".."]}',
    "a zero byte": b'{"checkpoints": ["a\\u0000b"]}',
}


@pytest.mark.parametrize("index", [*INDEXES, "missing"])
def test_a_damaged_index_is_made_again_from_the_files(
    tmp_path: Path, index: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "checkpoints"
    states = saved(directory)
    whole = json.loads((directory / "checkpoint").read_bytes())
    assert whole.keys() == {"checkpoints", "crc32"}
    if index == "missing":
        (directory / "checkpoint").unlink()
    else:
        content = INDEXES[index].replace(b"%s", whole["crc32"].encode())
        (directory / "checkpoint").write_bytes(content)
    all_of_them = [str(directory / f"ckpt-{n}") for n in (1, 2, 3)]
    dl.train.Checkpoint().write(directory / "written-9")  # listed nowhere
    program = Program(directory)
    assert listed(directory) == all_of_them
    assert dl.train.latest_checkpoint(directory) == all_of_them[-1]
    assert program.manager.restore_or_initialize() == all_of_them[-1]
    assert program.state() == states[-1]
    assert len(caplog.records) == 1 and "taken from" in caplog.text
    program.save(4)
    assert json.loads((directory / "checkpoint").read_bytes())["checkpoints"] == [
        *("ckpt-2", "ckpt-3", "ckpt-4")
    ]
    assert (directory / f"written-9{SUFFIX}").exists()


def test_an_index_of_older_releases_is_read(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "checkpoint").write_text('{"checkpoints": ["ckpt-3", "ckpt-1"]}')
    assert dl.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-1")


def test_files_of_older_releases_are_listed_by_their_numbers(tmp_path: Path) -> None:
    from tests.training.checkpoint.test_files import OLD

    (tmp_path / f"ckpt-7{SUFFIX}").write_bytes(OLD)
    (tmp_path / f"ckpt-8{SUFFIX}").write_bytes(OLD)  # copied: it has number 7
    (tmp_path / f"other-7{SUFFIX}").write_bytes(b"of another program")
    assert listed(tmp_path) == [str(tmp_path / "ckpt-7")]


def test_the_order_is_that_of_saving_and_not_of_numbers(tmp_path: Path) -> None:
    program = Program(tmp_path, None)
    program.manager.save(10)
    program.manager.save(2)
    (tmp_path / "checkpoint").unlink()
    assert dl.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-2")


def contents(directory: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_nothing_outside_of_the_directory_is_read_or_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = tmp_path / "outside"
    saved(outside, 2)
    (outside / "ckpt-1.servers" / "abc").mkdir(parents=True)
    (outside / "ckpt-1.servers" / "abc" / "file").write_text("precious")
    inside = tmp_path / "inside"
    states = saved(inside, 1)
    before = contents(outside)
    names = ["../outside/ckpt-1", str(outside / "ckpt-2"), "linked", "ckpt-1"]
    (inside / f"linked{SUFFIX}").symlink_to(outside / f"ckpt-1{SUFFIX}")
    (inside / "ckpt-1.servers").symlink_to(outside / "ckpt-1.servers")
    (inside / "ckpt-2.servers").mkdir()
    (inside / "ckpt-2.servers" / "abc").symlink_to(outside / "ckpt-1.servers" / "abc")
    (inside / f"ckpt-9{SUFFIX}.0.unfinished").symlink_to(outside / f"ckpt-1{SUFFIX}")
    os.mkfifo(inside / f"ckpt-8{SUFFIX}.0.unfinished")
    for index in ({"checkpoints": names}, {"checkpoints": ["linked", "ckpt-1"]}):
        (inside / "checkpoint").write_text(json.dumps(index))
        program = Program(inside, 1)
        assert listed(inside) == [str(inside / "ckpt-1")]
        assert program.manager.restore_or_initialize() == str(inside / "ckpt-1")
        assert program.state() == states[0]
    assert "leads out of its directory" in caplog.text
    program.save(2)
    program.save(3)
    assert program.manager.checkpoints == [str(inside / "ckpt-3")]
    assert not os.path.lexists(inside / "ckpt-1.servers")
    assert contents(outside) == before
    assert sorted(path.name for path in outside.iterdir()) == [
        *("checkpoint", "ckpt-1.safetensors", "ckpt-1.servers", "ckpt-2.safetensors")
    ]


def test_values_outside_of_the_directory_are_not_read(tmp_path: Path) -> None:
    saved(tmp_path / "inside", 1)
    file = tmp_path / "inside" / f"ckpt-1{SUFFIX}"
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    content = file.read_bytes()
    for directory in ("../outside", str(tmp_path / "outside"), "link", "/etc"):
        kept = {
            "format": "parameter servers",
            "directory": directory,
            "entries": {},
            "record": {"servers": 1, "step": "x", "trained": {}},
        }
        file.write_bytes(with_metadata(content, {"kept": kept}))
        with pytest.raises(DamagedCheckpointError, match="leads out of"):
            Program(tmp_path / "other").checkpoint.restore(tmp_path / "inside" / "ckpt-1")


def test_unfinished_files_are_removed_when_a_manager_is_made(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    left = tmp_path / f"ckpt-2{SUFFIX}.0123456789ab.unfinished"
    left.write_bytes(b"part")
    with file_format.replacing(tmp_path / f"ckpt-3{SUFFIX}") as file:
        file.write(b"being written")
        left.write_bytes(b"part")
        Program(tmp_path)
        assert not left.exists() and Path(file.name).exists()
        raised = False
    assert not raised and (tmp_path / f"ckpt-3{SUFFIX}").read_bytes() == b"being written"


def test_old_logs_are_kept_quiet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "drumline")
    saved(tmp_path)
    assert Program(tmp_path).manager.restore_or_initialize()
    assert not caplog.records
