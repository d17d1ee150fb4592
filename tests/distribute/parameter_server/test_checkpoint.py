"""Checkpoints of jobs with parameter servers, in clusters of this process."""

import contextlib
import os
import shutil

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.errors import RestoreError, SaveError
from drumline.distribute.parameter_server.partitioners import FixedShardsPartitioner
from drumline.distribute.parameter_server.servers import Servers
from drumline.training.checkpoint import file_format
from tests.distribute.parameter_server.clusters import in_process
from tests.distribute.parameter_server.test_training import FIELDS, ROWS, batches_of, step_of

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.2, 3, 0.5)),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adam": lambda: keras.optimizers.Adam(0.05),
}
STEPS = 6


def model():
    keras.utils.set_random_seed(3)
    table = keras.layers.Embedding(ROWS, 4)
    layers = [table, keras.layers.Flatten(), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((FIELDS,), dtype="int32"), *layers])


class Job:
    """A model for each optimizer, and its training on one worker."""

    def __init__(self, strategy, names=tuple(OPTIMIZERS)):
        self.strategy = strategy
        with strategy.scope():
            self.models = {name: model() for name in names}
            self.optimizers = {name: OPTIMIZERS[name]() for name in names}
        self.steps = {n: step_of(self.models[n], self.optimizers[n]) for n in names}

    def checkpoint(self):
        return dl.train.Checkpoint(models=self.models, optimizers=self.optimizers)

    def build(self):
        for name, optimizer in self.optimizers.items():
            optimizer.build(self.models[name].trainable_variables)

    def train(self, first, last, wait=True):
        batches = iter(batches_of(8))
        elements = [next(batches) for _ in range(last)][first:]
        for step in self.steps.values():
            if isinstance(self.strategy, dl.distribute.ParameterServerStrategy):
                coordinator = dl.distribute.coordinator.ClusterCoordinator(self.strategy)
                for element in elements:
                    coordinator.schedule(step, (element,))
                if wait:
                    coordinator.join()
            else:
                for element in elements:
                    step(element)

    def values(self):
        held = [*self.models.values(), *self.optimizers.values()]
        return [np.array(variable.numpy()) for each in held for variable in each.variables]


def cluster(**options):
    return in_process(workers=1, max_staleness=0, **{"ps": 2, **options})


def assert_same(found, expected, **close):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if close:
            np.testing.assert_allclose(one, other, **close)
        else:
            np.testing.assert_array_equal(one, other)


@contextlib.contextmanager
def nothing_through_the_chief():
    def refuse(*_):
        raise AssertionError("a value is read or written by the chief")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("read", "write", "slots", "write_slot"):
            patch.setattr(Servers, name, refuse)
        yield


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint in the middle of a training, its values, and those of the end."""
    prefix = tmp_path_factory.mktemp("saved") / "ckpt"
    with cluster(variable_partitioner=FixedShardsPartitioner(2)) as strategy:
        job = Job(strategy)
        job.train(0, STEPS // 2, wait=False)
        with nothing_through_the_chief():
            path = job.checkpoint().save(prefix)
        middle = job.values()
        job.train(STEPS // 2, STEPS)
        return path, middle, job.values()


def servers_files(path):
    (directory,) = os.listdir(f"{path}.servers")
    directory = os.path.join(f"{path}.servers", directory)
    return [os.path.join(directory, name) for name in sorted(os.listdir(directory))]


@pytest.fixture
def copied(saved, tmp_path):
    """The checkpoint, to be damaged."""
    shutil.copytree(os.path.dirname(saved[0]), tmp_path / "copy")
    return str(tmp_path / "copy" / "ckpt-1")


def test_the_chief_writes_what_servers_do_not_keep(saved):
    path, *_ = saved
    snapshot = file_format.read(path)
    # Of each optimizer the counter, and of those without a schedule the learning rate.
    assert len(snapshot.arrays) == 5 and all(not each.shape for each in snapshot.arrays.values())
    assert len(servers_files(path)) == 2
    tables = 40 * 4 * 4 * 3
    assert all(os.path.getsize(file) > tables / 2 for file in servers_files(path))


@pytest.mark.parametrize(("built", "ps"), [(False, 2), (True, 3)])
def test_training_goes_on_in_a_new_cluster_as_if_it_had_not_ended(saved, built, ps):
    path, middle, end = saved
    with cluster(variable_partitioner=FixedShardsPartitioner(2), ps=ps) as strategy:
        job = Job(strategy)
        if built:
            job.build()
        with nothing_through_the_chief():
            status = job.checkpoint().restore(path)
        if built:
            assert_same(job.values(), middle)
            status.assert_consumed()
        job.train(STEPS // 2, STEPS)
        status.assert_consumed()
        assert_same(job.values(), end)


def test_one_device_reads_what_servers_wrote_and_servers_what_one_device_wrote(saved, tmp_path):
    path, middle, end = saved
    job = Job(dl.distribute.OneDeviceStrategy("cpu:0"))
    job.build()
    job.checkpoint().restore(path).assert_consumed()
    assert_same(job.values(), middle)
    own = job.checkpoint().write(tmp_path / "own")
    with cluster() as strategy:
        served = Job(strategy)
        served.train(0, 1)  # the servers know the optimizers, and have counted another number
        served.checkpoint().read(own).assert_consumed()
        assert_same(served.values(), middle)
        served.train(STEPS // 2, STEPS)
        assert_same(served.values(), end, rtol=1e-5, atol=1e-6)


def test_slots_that_servers_do_not_have_yet(tmp_path):
    with cluster() as strategy:
        fresh = Job(strategy, ["adagrad"])
        fresh.build()
        fresh.checkpoint().write(tmp_path / "fresh")
        first = fresh.values()
        fresh.train(0, 2)
        fresh.checkpoint().read(tmp_path / "fresh").assert_consumed()
        assert_same(fresh.values(), first)
    alone = Job(dl.distribute.OneDeviceStrategy("cpu:0"), ["adagrad"])
    alone.build()
    alone.checkpoint().read(tmp_path / "fresh").assert_consumed()
    assert_same(alone.values(), first)


def test_what_is_wrong_with_a_checkpoint_is_named_and_nothing_is_restored(copied):
    _, other = servers_files(copied)
    with cluster(variable_partitioner=FixedShardsPartitioner(2)) as strategy:
        job = Job(strategy)
        job.build()
        before = job.values()
        size = os.path.getsize(other)
        with open(other, "r+b") as file:
            file.seek(size - 8)
            file.write(b"\xff" * 8)
        with pytest.raises(file_format.DamagedCheckpointError, match="ps-1-of-2.*checksum"):
            job.checkpoint().restore(copied)
        assert_same(job.values(), before)
        alone = Job(dl.distribute.OneDeviceStrategy("cpu:0"))
        alone.build()
        with pytest.raises(file_format.DamagedCheckpointError, match="ps-1-of-2.*checksum"):
            alone.checkpoint().restore(copied)
        os.truncate(other, 100)
        with pytest.raises(file_format.DamagedCheckpointError, match="ps-1-of-2"):
            job.checkpoint().restore(copied)
        os.remove(other)
        with pytest.raises(RestoreError, match="lacks the file of server 1"):
            job.checkpoint().restore(copied)
        shutil.rmtree(f"{copied}.servers")
        with pytest.raises(RestoreError, match="no checkpoint of parameter servers"):
            job.checkpoint().restore(copied)
        with strategy.scope():
            larger = keras.Variable(np.zeros((41, 4)), name="embeddings")
        with pytest.raises(ValueError, match=r"\(40, 4\).*\(41, 4\)"):
            dl.train.Checkpoint(models={"sgd": {"layers/0": larger}}).restore(copied)
        assert_same(job.values(), before)


def test_a_chief_that_ends_before_the_commit_leaves_the_former_checkpoint(tmp_path, monkeypatch):
    """What is on the disk just before the file is put in place is what a killed chief leaves."""
    directory, left = tmp_path / "kept", tmp_path / "left"
    with cluster() as strategy:
        with strategy.scope():
            number = dl.Variable(0.0)
        checkpoint = dl.train.Checkpoint(number=number)
        manager = dl.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
        number.assign(1.0)
        first = manager.save()
        write = file_format.write

        def killed(path, snapshot):
            shutil.copytree(directory, left)
            raise KeyboardInterrupt

        monkeypatch.setattr(file_format, "write", killed)
        number.assign(2.0)
        with pytest.raises(KeyboardInterrupt):
            manager.save()
        monkeypatch.setattr(file_format, "write", write)
        assert manager.latest_checkpoint == first
        assert sorted(os.listdir(directory)) == [
            *("checkpoint", "checkpoint.lock", "ckpt-1.safetensors", "ckpt-1.servers")
        ]
        assert (left / "ckpt-2.servers").exists()

        manager = dl.train.CheckpointManager(checkpoint, left, max_to_keep=2)
        checkpoint.restore(manager.restore_or_initialize())
        assert number.numpy() == 1.0
        (unfinished,) = os.listdir(left / "ckpt-2.servers")
        for value in (2.0, 3.0, 4.0):
            number.assign(value)
            manager.save()
        assert unfinished not in os.listdir(left)
        assert sorted(os.listdir(left)) == [
            *("checkpoint", "checkpoint.lock"),
            *("ckpt-3.safetensors", "ckpt-3.servers", "ckpt-4.safetensors", "ckpt-4.servers"),
        ]
        assert all(len(os.listdir(left / f"ckpt-{n}.servers")) == 1 for n in (3, 4))
        checkpoint.restore(manager.checkpoints[0])
        assert number.numpy() == 3.0


def test_a_server_that_cannot_write_is_named_and_training_goes_on(tmp_path, monkeypatch):
    with cluster() as strategy:
        job = Job(strategy, ["sgd"])
        job.train(0, 2)
        first = job.checkpoint().write(tmp_path / "latest")
        full = OSError(28, "No space left on device")

        def no_room(*_):
            raise full

        with monkeypatch.context() as patch:
            patch.setattr("os.pwrite", no_room)
            with pytest.raises(SaveError, match="Server [01] could not write.*No space left"):
                job.checkpoint().write(tmp_path / "latest")
        assert len(os.listdir(tmp_path / "latest.servers")) == 1
        middle = job.values()
        job.train(2, 4)
        job.checkpoint().read(first)
        assert_same(job.values(), middle)
