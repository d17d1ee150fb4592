"""Servers save while they are trained, and go on from what they saved, in other numbers too."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server.errors import RestoreError, SaveError, UpdateMismatchError
from drumline.distribute.parameter_server.server import shard
from drumline.distribute.parameter_server.server.checkpoints import find_shards, new_shard_file
from drumline.training.checkpoint.file_format import DamagedCheckpointError

ROWS = 12


def nadam():
    """It keeps a number beside what it keeps for each row."""
    return keras.optimizers.Nadam(0.1)


def create(client, server=0, servers=1, attach=True):
    """The variables of a job; each server has its rows of the table, and one the others."""
    table = np.arange(ROWS * 3, dtype="float32").reshape(ROWS, 3)
    cuts = np.linspace(0, ROWS, servers + 1).astype(int)
    start, stop = int(cuts[server]), int(cuts[server + 1])
    client.create(f"t/{server}", table[start:stop], table=True, start=start)
    if attach:
        client.attach(f"t/{server}", nadam(), rule="t")
    if server == servers - 1:
        client.create("v/0", np.zeros(2, "float32"))
        client.create("n/0", np.int64(0))
        if attach:
            client.attach("v/0", nadam(), rule="v")


def train(client, steps, server=0, servers=1):
    rng = np.random.default_rng(steps[0])
    cuts = np.linspace(0, ROWS, servers + 1).astype(int)
    start, stop = int(cuts[server]), int(cuts[server + 1])
    for step in steps:
        ids = rng.permutation(ROWS)[:7]
        gradient = rng.normal(size=(7, 3)).astype("float32")
        mine = (ids >= start) & (ids < stop)
        closure = f"s:{step}"
        client.push(f"t/{server}", "rows", ids[mine] - start, gradient[mine], closure=closure)
        if server == servers - 1:
            client.push("v/0", "dense", np.full(2, step + 1, "float32"), closure=closure)
            client.push("n/0", "add", np.int64(1), closure=closure)


def save(client, directory, servers=1, step=1):
    header = {"directory": str(directory), "servers": servers, "step": step}
    return client.ask("save", header).header


def restore(client, directory, servers=1):
    return client.ask("restore", {"directory": str(directory), "servers": servers}).header


def contents(client):
    found = {}
    for part in client.server._shards:
        found[part.name] = client.read(part.name)
        found |= {f"{part.name}#{key}": each for key, each in client.slots(part.name).items()}
        found[f"{part.name}@"] = np.array(part.iteration)
    return found


def check_equal(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


@pytest.mark.parametrize("created", ["nothing", "variables", "all"])
def test_training_goes_on_from_a_checkpoint(make_client, tmp_path, created):
    straight = make_client(0)
    create(straight)
    train(straight, range(3))
    straight.ask("finished", {"closures": ["s:0"]})
    report = save(straight, tmp_path, step=3)
    assert report["nbytes"] == (tmp_path / "ps-0-of-1.safetensors").stat().st_size
    at_save = contents(straight)
    train(straight, range(3, 6))

    resumed = make_client(0)
    if created != "nothing":
        create(resumed, attach=created == "all")
    assert restore(resumed, tmp_path) == {"step": 3, "servers": 1}
    check_equal(contents(resumed), at_save)
    create(resumed)
    for closure in ("s:0", "s:2"):
        assert not resumed.push("n/0", "add", np.int64(1), closure=closure)
    train(resumed, range(3, 6))
    check_equal(contents(resumed), contents(straight))


def test_a_checkpoint_goes_back_to_servers_that_went_on(client, tmp_path):
    create(client)
    train(client, range(2))
    save(client, tmp_path)
    at_save = contents(client)
    version = client.ask("read", {"name": "v/0"}).header["version"]
    train(client, range(2, 4))
    restore(client, tmp_path)
    check_equal(contents(client), at_save)
    assert client.ask("read", {"name": "v/0"}).header["version"] > version
    assert client.push("n/0", "add", np.int64(1), closure="s:3")
    assert not client.push("n/0", "add", np.int64(1), closure="s:1")


def test_a_checkpoint_of_before_the_optimizer_starts_it_anew(client, tmp_path):
    create(client, attach=False)
    save(client, tmp_path)
    create(client)
    fresh = contents(client)
    train(client, range(3))
    restore(client, tmp_path)
    check_equal(contents(client), fresh)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 2)])
def test_rows_are_cut_anew_for_another_number_of_servers(make_client, tmp_path, before, after):
    whole = {}
    for server in range(before):
        client = make_client(server)
        create(client, server, before)
        train(client, range(4), server, before)
        save(client, tmp_path, before)
        for name, value in contents(client).items():
            whole.setdefault(name.replace(f"t/{server}", "t"), []).append(value)
    for server in range(after):
        client = make_client(server)
        create(client, server, after)
        assert restore(client, tmp_path, after) == {"step": 1, "servers": before}
        cuts = np.linspace(0, ROWS, after + 1).astype(int)
        for name, value in contents(client).items():
            expected = whole[name.replace(f"t/{server}", "t")]
            if name.startswith("t") and value.ndim == 2:
                expected = [np.concatenate(expected)[cuts[server] : cuts[server + 1]]]
            np.testing.assert_array_equal(value, expected[0], err_msg=name)


def test_a_save_is_of_one_moment_for_each_part(client, make_client, tmp_path, monkeypatch):
    """Every push adds 1 to all rows, so a part must be as many as the pushes noted for it."""
    monkeypatch.setattr(shard, "PIECE_BYTES", 256)
    rows = 300
    client.create("t/0", np.zeros((rows, 2), "float32"), table=True)
    client.create("v/0", np.zeros(500, "float32"))
    client.attach("t/0", keras.optimizers.SGD(1.0, momentum=0.0), rule="t")
    client.attach("v/0", keras.optimizers.SGD(1.0), rule="v")
    done = threading.Event()

    def push():
        step = 0
        while not done.is_set():
            closure = f"s:{step}"
            order = np.random.default_rng(step).permutation(rows)
            if step % 5 == 4:
                client.push("t/0", "add", np.ones((rows, 2), "float32"), closure=closure)
            else:
                client.push("t/0", "rows", order, np.full((rows, 2), -1, "f"), closure=closure)
            client.push("v/0", "dense", np.full(500, -1, "float32"), closure=closure)
            step += 1

    thread = threading.Thread(target=push)
    thread.start()
    try:
        for number in range(8):
            time.sleep(0.01)
            save(client, tmp_path / str(number), step=number)
    finally:
        done.set()
        thread.join()
    counts = set()
    for number in range(8):
        restored = make_client(0)
        restore(restored, tmp_path / str(number))
        for name in ("t/0", "v/0"):
            applied = len(restored.server._push_log.of_shard(name))
            np.testing.assert_array_equal(np.unique(restored.read(name)), [applied])
            counts.add(applied)
    assert len(counts) > 2


CHILD = """
import os, sys, time
import numpy as np
from drumline.distribute.parameter_server.server import ParameterServer
from drumline.distribute.parameter_server.wire.codec import Message
handlers = ParameterServer(0).handlers()
value = np.ones(100_000, "float32")
header = {"name": "v/0", "shape": [100_000], "dtype": "float32", "table": False}
handlers["create"](Message(header, [value]))
save = {"directory": sys.argv[1], "servers": 1}
handlers["save"](Message({**save, "step": 1}))
handlers["write"](Message({"name": "v/0"}, [value + 1]))
os.fsync = lambda descriptor: time.sleep(100)
print("saving", flush=True)
handlers["save"](Message({**save, "step": 2}))
"""


NEW = (
    b' \x01\x00\x00\x00\x00\x00\x00{"__metadata__": {"header_crc32": "f8699844", '
    b'"checked": "header", "drumline": "{\\"step\\": \\"s\\", '
    b'\\"crc32c\\": {\\"a/b\\": \\"8f88ce66\\", \\"s\\": \\"a016d052\\"}}"}, '
    b'"a/b": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
    b'"s": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}}   '
    b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x01"
)


def test_the_bytes_on_disk_stay_as_they_are(tmp_path):
    """Files that older releases wrote, with CRC-32, are read."""
    arrays = {"a/b": np.arange(3, dtype=np.float32), "s": np.array(True)}
    path = tmp_path / "ps-0-of-1.safetensors"
    specs = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    with new_shard_file(path, specs, {"step": "s"}) as writer:
        writer.append("a/b", arrays["a/b"][:1])
        writer.append("s", arrays["s"])
        writer.append("a/b", arrays["a/b"][1:])
        assert not path.exists()
    content = path.read_bytes()
    former = (
        b' \x01\x00\x00\x00\x00\x00\x00{"__metadata__": {"header_crc32": "9e2ac510", '
        b'"checked": "header", "drumline": "{\\"step\\": \\"s\\", '
        b'\\"crc32\\": {\\"a/b\\": \\"30c8bc70\\", \\"s\\": \\"a505df1b\\"}}"}, '
        b'"a/b": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
        b'"s": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}}    '
        b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x01"
    )
    assert content == NEW
    assert writer.nbytes == len(content)
    for each in (content, former):
        path.write_bytes(each)
        file = find_shards(tmp_path, 1).own(0)
        file.verify()
        assert file.arrays["a/b"].tolist() == [0, 1, 2] and file.metadata["step"] == "s"


def test_a_server_killed_while_it_saves_leaves_the_checkpoint_before(client, tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )

    def unfinished():
        return list(tmp_path.glob("*.unfinished"))

    try:
        assert child.stdout.readline() == "saving\n"
        deadline = time.monotonic() + 30
        while not any(path.stat().st_size > 400_000 for path in unfinished()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.kill()
        assert child.wait(30) == -signal.SIGKILL
        child.stdout.close()
    assert restore(client, tmp_path)["step"] == 1
    np.testing.assert_array_equal(client.read("v/0"), np.ones(100_000))
    save(client, tmp_path, step=3)
    assert not unfinished()


def test_a_save_that_fails_is_named_and_leaves_the_one_before(client, make_client, tmp_path):
    client.create("v/0", np.ones(10_000, "float32"))
    save(client, tmp_path, step=1)
    client.push("v/0", "add", np.ones(10_000, "float32"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(SaveError, match=r"Server 0 could not write.*Make room"):
            save(client, tmp_path, step=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["ps-0-of-1.safetensors"]
    other = make_client(0)
    assert restore(other, tmp_path)["step"] == 1
    np.testing.assert_array_equal(other.read("v/0"), np.ones(10_000))
    save(client, tmp_path, step=2)


def test_damage_is_found_before_anything_is_restored(client, tmp_path):
    create(client)
    save(client, tmp_path)
    train(client, range(2))
    before = contents(client)
    path = tmp_path / "ps-0-of-1.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + b"\x7f", whole[:5], b""):
        path.write_bytes(damaged)
        with pytest.raises(DamagedCheckpointError, match="damaged"):
            restore(client, tmp_path)
    check_equal(contents(client), before)


def test_checkpoints_that_do_not_fit_are_refused(make_client, tmp_path):
    for server in range(2):
        client = make_client(server)
        create(client, server, 2)
        save(client, tmp_path / "mixed", 2, step=server)
        save(client, tmp_path / "whole", 2)
    with pytest.raises(RestoreError, match="several saves"):
        restore(client, tmp_path / "mixed", 2)
    with pytest.raises(RestoreError, match="no checkpoint"):
        restore(client, tmp_path / "none", 2)
    with pytest.raises(RestoreError, match="create them"):
        restore(make_client(0), tmp_path / "whole", 3)
    (tmp_path / "whole" / "ps-0-of-2.safetensors").unlink()
    for servers in (2, 3):
        first = make_client(0)
        create(first, 0, servers)
        with pytest.raises(RestoreError, match="lacks the file of server 0"):
            restore(first, tmp_path / "whole", servers)


def test_parts_and_slots_that_do_not_fit_are_refused(client, make_client, tmp_path):
    create(client)
    train(client, range(1))
    save(client, tmp_path)
    other = make_client(0)
    other.create("w/0", np.zeros(2, "float32"))
    with pytest.raises(RestoreError, match=r"lacks the shards \['w/0'\]"):
        restore(other, tmp_path)
    other = make_client(0)
    other.create("v/0", np.zeros(3, "float32"))
    with pytest.raises(RestoreError, match=r"'v/0' has shape \(3,\)"):
        restore(other, tmp_path)
    other = make_client(0)
    other.create("v/0", np.zeros(2, "float32"))
    other.attach("v/0", keras.optimizers.SGD(0.1, momentum=0.9), rule="v")
    with pytest.raises(UpdateMismatchError, match="optimizer of the checkpoint"):
        restore(other, tmp_path)
    assert len(other.server._shards) == 1
    restored = make_client(0)
    restore(restored, tmp_path)
    with pytest.raises(UpdateMismatchError, match="optimizer of the checkpoint"):
        restored.attach("v/0", keras.optimizers.SGD(0.1, momentum=0.9), rule="v")
