"""Memory that processes share: what is opened, what is refused, and that it ends with them."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline._shared_memory import (
    NONCE_BYTES,
    SWITCH,
    MemoryOffer,
    create_memory,
    is_enabled,
    machine,
    map_memory,
)
from tests.processes import open_files

SIZE = 1 << 16
AT = 64


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = create_memory(SIZE)
    yield made
    os.close(made)


@pytest.fixture
def offer(descriptor: int) -> MemoryOffer:
    return MemoryOffer.of(descriptor, AT)


def test_who_opens_the_memory_sees_what_is_written(descriptor: int, offer: MemoryOffer) -> None:
    parsed = MemoryOffer.parse(json.loads(json.dumps(offer.to_json())))
    assert parsed == offer and offer.machine == machine()
    opened = offer.open(AT)
    own, other = map_memory(descriptor), map_memory(opened)
    os.close(opened)
    assert len(own) == len(other) == SIZE and other[:AT] == bytes(AT)
    own[1000:1005] = b"there"
    other[-4:] = b"back"
    assert other[1000:1005] == b"there" and own[-4:] == b"back"


def test_another_process_opens_it_and_it_outlives_who_made_it() -> None:
    maker = """
import json, sys
from drumline._shared_memory import MemoryOffer, create_memory
made = create_memory(65536)
print(json.dumps(MemoryOffer.of(made, 64).to_json()), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", maker], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        offer = MemoryOffer.parse(json.loads(process.stdout.readline()))
        assert offer is not None and offer.process == process.pid
        opened = offer.open(AT)
        process.send_signal(signal.SIGKILL)
    memory = map_memory(opened)
    os.close(opened)
    memory[-1:] = b"x"
    assert memory[AT : AT + NONCE_BYTES] == offer.nonce.encode()
    with pytest.raises(FileNotFoundError):
        offer.open(AT)


def test_its_size_cannot_be_changed(descriptor: int, offer: MemoryOffer) -> None:
    opened = offer.open(AT)
    for handle in (descriptor, opened):
        for size in (0, SIZE - 1, SIZE + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(handle, size)
    os.close(opened)


def test_memory_that_grows_does_not_shrink_and_is_offered_to_nobody() -> None:
    descriptor = create_memory(SIZE, can_grow=True)
    before = map_memory(descriptor)
    os.ftruncate(descriptor, 2 * SIZE)
    assert len(map_memory(descriptor)) == 2 * SIZE
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, SIZE)
    before[:3] = b"abc"
    with pytest.raises(OSError, match="not the memory that was announced"):
        MemoryOffer.of(descriptor, AT).open(AT)
    os.close(descriptor)
    assert before[:3] == b"abc", "a mapping outlives the descriptor"


def test_only_the_offered_memory_is_opened(
    descriptor: int, offer: MemoryOffer, tmp_path: Path
) -> None:
    plain = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(plain, SIZE)
    unsealed = os.memfd_create("drumline")
    os.ftruncate(unsealed, SIZE)
    os.pwrite(unsealed, offer.nonce.encode(), AT)
    half = os.memfd_create("drumline", os.MFD_ALLOW_SEALING)
    os.ftruncate(half, SIZE)
    os.pwrite(half, offer.nonce.encode(), AT)
    fcntl.fcntl(half, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    other = create_memory(SIZE)
    before = open_files()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"nbytes": SIZE + 1}, "not the memory that was announced"),
        ({"nbytes": -1}, "not the memory that was announced"),
        ({"nonce": "0" * NONCE_BYTES}, "memory of another connection or job"),
        ({"nonce": offer.nonce[:-1]}, "memory of another connection or job"),
        ({"nonce": ""}, "memory of another connection or job"),
        ({"descriptor": other}, "memory of another connection or job"),
        ({"descriptor": plain}, "no memory of drumline's"),
        ({"descriptor": unsealed}, "not the memory that was announced"),
        ({"descriptor": half}, "not the memory that was announced"),
        ({"descriptor": 10**6}, "No such file"),
        ({"descriptor": -1}, "No such file"),
        ({"process": -1}, "No such file"),
    ]
    for change, why in wrong:
        with pytest.raises(OSError, match=why):
            dataclasses.replace(offer, **change).open(AT)
    with pytest.raises(OSError, match="another connection"):
        offer.open(AT + 1)
    with pytest.raises(ValueError, match="surrogates"):
        dataclasses.replace(offer, nonce="\udcff").open(AT)
    opened = open_files() - before
    mine = [name for name, _ in opened if name.startswith(("/memfd:", str(tmp_path)))]
    assert not mine, "what is refused is closed"
    for each in (plain, unsealed, half, other):
        os.close(each)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"machine": "m", "process": 1, "descriptor": 2, "nbytes": 3},
        {"machine": "m", "process": "1", "descriptor": 2, "nbytes": 3, "nonce": ""},
        {"machine": "m", "process": 1, "descriptor": 2.0, "nbytes": 3, "nonce": ""},
        {"machine": None, "process": 1, "descriptor": 2, "nbytes": 3, "nonce": ""},
    ],
)
def test_what_is_no_offer_is_none(value: object) -> None:
    assert MemoryOffer.parse(value) is None


def test_a_child_inherits_it_by_its_descriptor_only() -> None:
    descriptor = create_memory(SIZE, can_grow=True)
    assert not os.get_inheritable(descriptor)
    child = "import os, sys; os.pwrite(int(sys.argv[1]), b'from the child', 8)"
    command = [sys.executable, "-S", "-c", child, str(descriptor)]
    subprocess.run(command, pass_fds=[descriptor], check=True)
    assert map_memory(descriptor)[8:22] == b"from the child"
    assert subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 1
    os.close(descriptor)


def test_reserved_bytes_are_backed_at_once_and_others_are_not() -> None:
    reserved, plain = create_memory(SIZE, reserved=SIZE // 2), create_memory(SIZE)
    assert os.fstat(reserved).st_blocks * 512 == SIZE // 2
    assert os.fstat(plain).st_blocks == 0
    assert os.fstat(reserved).st_mode & 0o777 == 0o600
    os.close(reserved)
    os.close(plain)


def test_a_failure_to_reserve_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    before = open_files()
    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(OSError, match="No space left"):
        create_memory(SIZE, reserved=1)
    assert not open_files() - before
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(OSError, match="memfd_create"):
        create_memory(SIZE)


def test_it_is_freed_with_its_last_mapping() -> None:
    descriptor = create_memory(SIZE, reserved=SIZE)
    inode = os.fstat(descriptor).st_ino
    memory: mmap.mmap | None = map_memory(descriptor)
    os.close(descriptor)
    maps = Path("/proc/self/maps")

    def mapped() -> bool:
        return any(
            line.split()[4] == str(inode) and "/memfd:drumline" in line
            for line in maps.read_text().splitlines()
        )

    assert mapped()
    assert memory is not None
    memory.close()
    assert not mapped()


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert is_enabled()
    for value, expected in (("1", True), ("0", False)):
        monkeypatch.setenv(SWITCH, value)
        assert is_enabled() is expected
    monkeypatch.setenv(SWITCH, "no")
    with pytest.raises(ValueError, match="DRUMLINE_SHARED_MEMORY must be 1"):
        is_enabled()
