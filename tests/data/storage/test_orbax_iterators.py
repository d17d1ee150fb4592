"""Iterators in checkpoints of Orbax, where it is installed (the extras ``orbax`` and ``dev``)."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

ocp = pytest.importorskip("orbax.checkpoint", reason="needs Orbax, which the orbax extra has")


def make():
    rows = np.arange(40, dtype=np.float32).reshape(20, 2)
    return Dataset.from_tensor_slices(rows).shuffle(7, seed=1).repeat(2).batch(3)


def test_a_checkpoint_manager_keeps_the_position(tmp_path):
    model = {"w": jnp.arange(3.0)}
    iterator = iter(make())
    with ocp.CheckpointManager(tmp_path) as manager:
        for step in range(4):
            next(iterator)
            saved = ocp.args.Composite(
                model=ocp.args.StandardSave(model), data=dl.data.DatasetIteratorSave(iterator)
            )
            manager.save(step, args=saved)
        manager.wait_until_finished()
    rest = [batch.tolist() for batch in iterator]
    again = iter(make())
    with ocp.CheckpointManager(tmp_path) as manager:
        asked = ocp.args.Composite(
            model=ocp.args.StandardRestore(model), data=dl.data.DatasetIteratorRestore(again)
        )
        found = manager.restore(3, args=asked)
        assert found["data"] is again
        assert [batch.tolist() for batch in again] == rest
        first = iter(make())
        manager.restore(0, args=ocp.args.Composite(data=dl.data.DatasetIteratorRestore(first)))
    assert len(list(first)) == len(rest) + 3


def test_each_process_has_its_own(tmp_path, monkeypatch):
    handler = dl.data.DatasetIteratorHandler()
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    iterators = [iter(make().shard(2, index)) for index in range(2)]
    for index, iterator in enumerate(iterators):
        monkeypatch.setattr(jax, "process_index", lambda index=index: index)
        for _ in range(index + 1):
            next(iterator)
        handler.save(tmp_path, args=dl.data.DatasetIteratorSave(iterator))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["process_0-of-2.json", "process_1-of-2.json"]
    for index, iterator in enumerate(iterators):
        monkeypatch.setattr(jax, "process_index", lambda index=index: index)
        again = iter(make().shard(2, index))
        handler.restore(tmp_path, args=dl.data.DatasetIteratorRestore(again))
        assert [b.tolist() for b in again] == [b.tolist() for b in iterator]
    with pytest.raises(ValueError, match="another dataset"):
        handler.restore(tmp_path, iter(make().shard(2, 0)))
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    with pytest.raises(ValueError, match=r"process_1-of-2.json and no process_1-of-3.json"):
        handler.restore(tmp_path, iter(make()))


def test_refusals(tmp_path):
    handler = dl.data.DatasetIteratorHandler()
    with pytest.raises(TypeError, match=r"iter\(dataset\), not <Dataset"):
        handler.save(tmp_path, make())
    with pytest.raises(FileNotFoundError, match="no iterator was saved in"):
        handler.restore(tmp_path, iter(make()))
    (tmp_path / "process_0-of-1.json").write_text("{")
    with pytest.raises(ValueError, match="is no iterator's state"):
        handler.restore(tmp_path, iter(make()))
    (tmp_path / "process_0-of-1.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(ValueError, match="not a dataset iterator's state"):
        handler.restore(tmp_path, iter(make()))
