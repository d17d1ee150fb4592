"""Files that cannot be written to the end: the error says which, and nothing counts as whole."""

import os
import resource
import subprocess

import numpy as np
import pytest

from drumline.data import Dataset
from drumline.data.storage.store.columns import NpyFile

LIMIT = 20_000
ROWS = np.arange(8000.0).reshape(1000, 8)


@pytest.fixture
def limited():
    """No file may be longer than ``LIMIT``; calling it ends that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))

    def end():
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    yield end
    end()


@pytest.mark.parametrize("packing", [None, "GZIP", "SNAPPY"])
def test_save(tmp_path, limited, packing):
    with pytest.raises(OSError, match=r"File too large: raise the limit.*0\.values\.npy"):
        Dataset.from_tensor_slices(ROWS).save(tmp_path / "a", packing)
    assert os.listdir(tmp_path) == []
    limited()
    Dataset.from_tensor_slices(ROWS).save(tmp_path / "a", packing)
    np.testing.assert_array_equal(list(Dataset.load(tmp_path / "a")), ROWS)


def test_what_was_stored_before_stays(tmp_path, limited):
    Dataset.range(3).save(tmp_path / "a")
    with pytest.raises(OSError, match="File too large"):
        Dataset.from_tensor_slices(ROWS).save(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"] and list(Dataset.load(tmp_path / "a")) == [0, 1, 2]


def test_a_save_with_checkpoints_goes_on(tmp_path, limited):
    def save():
        keep = {"directory": tmp_path / "checkpoints", "checkpoint_interval": 100}
        Dataset.from_tensor_slices(ROWS).save(tmp_path / "a", checkpoint_args=keep)

    with pytest.raises(OSError, match="File too large"):
        save()
    (checkpoint,) = os.listdir(tmp_path / "checkpoints")
    assert checkpoint == f"ckpt-{LIMIT // ROWS[:100].nbytes}.json"
    limited()
    save()
    np.testing.assert_array_equal(list(Dataset.load(tmp_path / "a")), ROWS)


@pytest.mark.parametrize("kept", ["snapshot", "cache"])
@pytest.mark.parametrize("prefetched", [False, True])
def test_passes_that_cannot_be_kept(tmp_path, limited, kept, prefetched):
    def make():
        made = getattr(Dataset.from_tensor_slices(ROWS), kept)(str(tmp_path / "a" / "b"))
        return made.prefetch(2) if prefetched else made

    dataset = make()
    iterator = iter(dataset)
    with pytest.raises(OSError, match=r"File too large.*0\.values\.npy"):
        for _ in iterator:
            pass
    limited()
    # Elements between the failure and now are gone: it must not seem to go on.
    with pytest.raises(OSError, match="File too large"):
        next(iterator)
    iterator.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    for _ in range(2):
        np.testing.assert_array_equal(list(dataset), ROWS)
        np.testing.assert_array_equal(list(make()), ROWS)


def test_what_could_not_be_written_is_given_up(tmp_path, limited):
    file = NpyFile(tmp_path / "a.npy", np.dtype(np.float64))

    def fill():
        for _ in range(LIMIT):
            file.append(np.zeros(1))

    with pytest.raises(OSError, match="File too large"):
        fill()
    file.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "write",
    [
        lambda source, path: source.save(path),
        lambda source, path: list(source.snapshot(path)),
        lambda source, path: list(source.cache(path)),
    ],
    ids=["save", "snapshot", "cache"],
)
def test_a_full_disk(tmp_path, write):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        source = Dataset.from_tensor_slices(np.tile(ROWS, (3, 1)))
        with pytest.raises(OSError, match=r"No space left on device: free space on its disk"):
            write(source, str(disk / "a"))
        assert not [path for path in disk.rglob("*") if path.is_file()]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
