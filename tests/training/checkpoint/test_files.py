"""Checkpoints on the disk: whole or not there, listed, and not too many."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.file_format import DamagedCheckpointError
from drumline.training.checkpoint.snapshot import CheckpointContents


def saved(tmp_path: Path) -> tuple[dl.Variable, str]:
    variable = dl.Variable(np.arange(1000, dtype=np.float32))
    return variable, dl.train.Checkpoint(v=variable, w=dl.Variable(1)).save(tmp_path / "ckpt")


def test_the_file_is_in_the_safetensors_format(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    content = Path(path + ".safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert header["v/variables/0"] == {"dtype": "F32", "shape": [1000], "data_offsets": [0, 4000]}
    assert all(isinstance(value, str) for value in header["__metadata__"].values())
    assert np.frombuffer(content[8 + length :][:4000], np.float32).tolist() == list(range(1000))


OLD = (
    b'`\x01\x00\x00\x00\x00\x00\x00{"__metadata__": {"drumline": "{\\"crc32\\": {'
    b'\\"a/b\\": 818461808, \\"s\\": 2768625435}, \\"states\\": {\\"k\\": {\\"x\\": 1}}, '
    b'\\"aliases\\": {\\"al\\": \\"a/b\\"}, \\"save_counter\\": 7, '
    b'\\"token\\": \\"0000000000000000\\", \\"kept\\": null}"}, '
    b'"a/b": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
    b'"s": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}}    '
    b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x01"
)
"""What releases before the header's checksum wrote."""
FORMER = (
    b'\xb8\x01\x00\x00\x00\x00\x00\x00{"__metadata__": {"header_crc32": "70ddce0d", '
    b'"checked": "header", "drumline": "{\\"crc32\\": {'
    b'\\"a/b\\": 818461808, \\"s\\": 2768625435}, \\"states\\": {\\"k\\": {\\"x\\": 1}}, '
    b'\\"aliases\\": {\\"al\\": \\"a/b\\"}, \\"save_counter\\": 7, '
    b'\\"numbered\\": false, \\"saved_at\\": 123, '
    b'\\"token\\": \\"0000000000000000\\", \\"kept\\": null}"}, '
    b'"a/b": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
    b'"s": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}}   '
    b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x01"
)
"""What those before CRC32C wrote."""


def test_the_bytes_on_disk_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that older releases wrote are read."""
    arrays = {"a/b": np.arange(3, dtype=np.float32), "s": np.array(True)}
    with monkeypatch.context() as patch:
        patch.setattr(file_format.secrets, "token_hex", lambda count: "0" * (2 * count))
        patch.setattr(file_format.time, "time_ns", lambda: 123)
        file_format.write(
            tmp_path / "new", CheckpointContents(arrays, {"k": {"x": 1}}, {"al": "a/b"}, 7)
        )
    assert (tmp_path / "new.safetensors").read_bytes() == (
        b'\xb8\x01\x00\x00\x00\x00\x00\x00{"__metadata__": {"header_crc32": "7c41956b", '
        b'"checked": "header", "drumline": "{\\"crc32c\\": {'
        b'\\"a/b\\": 2408107622, \\"s\\": 2685849682}, \\"states\\": {\\"k\\": {\\"x\\": 1}}, '
        b'\\"aliases\\": {\\"al\\": \\"a/b\\"}, \\"save_counter\\": 7, '
        b'\\"numbered\\": false, \\"saved_at\\": 123, '
        b'\\"token\\": \\"0000000000000000\\", \\"kept\\": null}"}, '
        b'"a/b": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
        b'"s": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}} '
        b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x01"
    )
    (tmp_path / "old.safetensors").write_bytes(OLD)
    (tmp_path / "former.safetensors").write_bytes(FORMER)
    for name in ("old", "former", "new"):
        snapshot = file_format.read(tmp_path / name)
        assert snapshot.arrays["a/b"].tolist() == [0, 1, 2] and snapshot.save_counter == 7
        assert (snapshot.states, snapshot.aliases) == ({"k": {"x": 1}}, {"al": "a/b"})
        assert file_format.saved_token(tmp_path / name) == "0" * 16


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content[:5],
        lambda content: b"",
        lambda content: content[:-100] + b"\xff" + content[-99:],
        lambda content: content + b"more",
        lambda content: content[:8] + b"x" + content[9:],
        lambda content: b"\xff" * 8 + content[8:],
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Any) -> None:
    variable, path = saved(tmp_path)
    file = Path(path + ".safetensors")
    file.write_bytes(damage(file.read_bytes()))
    variable.assign(np.zeros(1000))
    with pytest.raises(DamagedCheckpointError, match="is damaged.*Nothing of it was restored"):
        dl.train.Checkpoint(v=variable).restore(path)
    assert not variable.value.any()


def test_a_failing_write_leaves_the_earlier_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable, path = saved(tmp_path)
    checkpoint = dl.train.Checkpoint(v=variable)
    checkpoint.restore(path).expect_partial()

    def full(array: np.ndarray) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file_format.os, "fsync", full)
        variable.assign(np.zeros(1000))
        for save in (checkpoint.save, checkpoint.write):
            with pytest.raises(OSError, match="No space"):
                save(tmp_path / "ckpt" if save is checkpoint.save else path)
    assert checkpoint.save_counter == 1
    assert dl.train.latest_checkpoint(tmp_path) == path
    checkpoint.restore(path).expect_partial()
    assert float(variable.value[-1]) == 999
    assert checkpoint.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-2")


KILLED = """
import os, signal, sys
import numpy as np
import drumline as dl
from drumline.training.checkpoint import file_format

directory = sys.argv[1]
v = dl.Variable(np.zeros(300_000, np.float32))
manager = dl.train.CheckpointManager(dl.train.Checkpoint(v=v), directory, max_to_keep=2)
for number in range(1, 4):
    v.assign(np.full(300_000, number, np.float32))
    manager.save()

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(file_format.os, sys.argv[2], kill)
v.assign(np.full(300_000, 4, np.float32))
manager.save()
"""


MOMENTS = ["fsync", "replace"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each moment at which a program was killed, what it left."""
    left = {moment: tmp_path_factory.mktemp(moment) for moment in MOMENTS}
    children = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(directory), moment])
        for moment, directory in left.items()
    ]
    assert [child.wait(timeout=120) for child in children] == [-signal.SIGKILL] * 2
    return left


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_in_the_middle(killed: dict[str, Path], moment: str) -> None:
    tmp_path = killed[moment]
    v = dl.Variable(np.zeros(300_000, np.float32))
    manager = dl.train.CheckpointManager(dl.train.Checkpoint(v=v), tmp_path, max_to_keep=2)
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
    assert manager.restore_or_initialize() == str(tmp_path / "ckpt-3")
    assert v.value.tolist() == [3.0] * 300_000
    assert manager.save() == str(tmp_path / "ckpt-4")
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "checkpoint.lock",
        "ckpt-3.safetensors",
        "ckpt-4.safetensors",
    ]


def test_the_manager(tmp_path: Path) -> None:
    v = dl.Variable(0)
    checkpoint = dl.train.Checkpoint(v=v)
    manager = dl.train.CheckpointManager(checkpoint, tmp_path / "new" / "dir", max_to_keep=2)
    assert manager.restore_or_initialize() is None and manager.latest_checkpoint is None
    for number in range(3):
        v.assign(number)
        manager.save()
    assert manager.save(checkpoint_number=10) == str(tmp_path / "new" / "dir" / "ckpt-10")
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-3", "ckpt-10"]
    everything = dl.train.CheckpointManager(checkpoint, manager.directory, None, "other")
    everything.save()
    assert [os.path.basename(path) for path in everything.checkpoints][-1] == "other-11"
    assert len(everything.checkpoints) == 3
    with pytest.raises(ValueError, match="max_to_keep must be a positive integer"):
        dl.train.CheckpointManager(checkpoint, tmp_path, 0)


def test_the_latest_of_a_directory(tmp_path: Path) -> None:
    assert dl.train.latest_checkpoint(tmp_path) is None
    _, path = saved(tmp_path)
    _, again = saved(tmp_path)
    assert path == again == dl.train.latest_checkpoint(tmp_path)
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert dl.train.latest_checkpoint(moved) == str(moved / "ckpt-1")
    Path(moved / "ckpt-1.safetensors").unlink()
    assert dl.train.latest_checkpoint(moved) is None


@pytest.mark.parametrize(
    ("text", "whose"),
    [
        ('model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-1"\n', "TensorFlow"),
        ('{"checkpoints": [1]}', "1 is no name"),
        ("[]", "no list of names"),
        ("{}", "no list of names"),
        ("PK-", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_a_list_of_another_program_s_is_refused_by_name(tmp_path, text, whose):
    (tmp_path / "checkpoint").write_text(text)
    message = rf"checkpoint is no list of drumline's checkpoints \(.*{whose}.*another directory"
    with pytest.raises(ValueError, match=message):
        dl.train.latest_checkpoint(tmp_path)
    with pytest.raises(ValueError, match=message):
        dl.train.CheckpointManager(dl.train.Checkpoint(), tmp_path, max_to_keep=2).save()
