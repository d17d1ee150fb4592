"""Checkpoints, records, averages and coordinators as TensorFlow's, where it is installed."""

import os
import threading

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


def names(tf, tmp_path):
    """Paths, counters and names of a manager's checkpoints."""
    folder = str(tmp_path)
    checkpoint = tf.train.Checkpoint(step=tf.Variable(3), parts=[tf.Variable([1.0, 2.0])])
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    saved = [manager.save(), manager.save(checkpoint_number=tf.constant(7)), manager.save()]
    reader = tf.train.load_checkpoint(folder)
    shapes = reader.get_variable_to_shape_map()
    shapes.pop("_CHECKPOINTABLE_OBJECT_GRAPH", None)
    state = tf.train.get_checkpoint_state(folder)
    return {
        "saved": [os.path.basename(path) for path in saved],
        "kept": [os.path.basename(path) for path in manager.checkpoints],
        "latest": os.path.basename(tf.train.latest_checkpoint(folder)),
        "state": os.path.basename(state.model_checkpoint_path),
        "counter": checkpoint.save_counter.numpy(),
        "dtype": checkpoint.save_counter.numpy().dtype.name,
        "shapes": shapes,
        "value": reader.get_tensor("parts/0/.ATTRIBUTES/VARIABLE_VALUE"),
        "loaded": tf.train.load_variable(folder, "step/.ATTRIBUTES/VARIABLE_VALUE"),
        "has": [reader.has_tensor("step"), reader.has_tensor("step/.ATTRIBUTES/VARIABLE_VALUE")],
        "types": reader.get_variable_to_dtype_map()["step/.ATTRIBUTES/VARIABLE_VALUE"].name,
    }


def intervals(tf, tmp_path):
    step = tf.Variable(0)
    called = []
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(
        checkpoint,
        str(tmp_path),
        max_to_keep=None,
        step_counter=step,
        checkpoint_interval=2,
        checkpoint_name="own",
        init_fn=lambda: called.append(1),
    )
    found = [manager.restore_or_initialize(), manager.checkpoint_interval]
    for _ in range(4):
        found.append(manager.save())
        step.assign_add(1)
    found.append(manager.save(check_interval=False))
    found.append(manager.restore_or_initialize())
    return [os.path.basename(each) if isinstance(each, str) else each for each in found], called


def restored(tf, tmp_path):
    """Restoring into other objects, and what the status says."""
    saved = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.train.Checkpoint(c=tf.Variable([2, 3])))
    path = saved.save(str(tmp_path / "ck"))
    found = []

    def status_of(target, *methods):
        status = target.restore(path)
        for method in methods:
            try:
                getattr(status, method)()
                found.append(method)
            except AssertionError:
                found.append(f"no {method}")

    every = ("assert_consumed", "assert_existing_objects_matched", "assert_nontrivial_match")
    same = tf.train.Checkpoint(a=tf.Variable(0.0), b=tf.train.Checkpoint(c=tf.Variable([0, 0])))
    status_of(same, *every)
    found += [same.a.numpy(), same.b.c.numpy().tolist(), same.save_counter.numpy()]
    part = tf.train.Checkpoint(a=tf.Variable(0.0))
    status_of(part, "expect_partial", *every)
    more = tf.train.Checkpoint(a=tf.Variable(0.0), d=tf.Variable(9))
    status_of(more, "expect_partial", *every)
    other = tf.train.Checkpoint(z=tf.Variable(9))
    status_of(other, "expect_partial", *every)
    late = tf.train.Checkpoint()
    late.restore(path).expect_partial()
    late.a = tf.Variable(0.0)
    late.b = tf.train.Checkpoint(c=tf.Variable([0, 0]))
    found += [late.a.numpy(), late.b.c.numpy().tolist()]
    written = saved.write(str(tmp_path / "exact"))
    found += [os.path.basename(written), saved.save_counter.numpy()]
    saved.a.assign(5.0)
    saved.read(written)
    found.append(saved.a.numpy())
    try:
        saved.restore(None).assert_consumed()
    except AssertionError:
        found.append("nothing")
    return found


def containers(tf, tmp_path):
    save = tf.train.Checkpoint()
    save.listed = [tf.Variable(1.0)]
    save.listed.append(tf.Variable(2.0))
    save.mapped = {"one": save.listed[0]}
    save.mapped["two"] = save.listed[1]
    path = save.save(str(tmp_path / "list"))
    restore = tf.train.Checkpoint()
    second = tf.Variable(0.0)
    restore.mapped = {"two": second}
    restore.restore(path)
    restore.listed = []
    first = tf.Variable(0.0)
    restore.listed.append(first)
    return [first.numpy(), second.numpy()]


def modules(tf, tmp_path):
    class Part(tf.Module):
        def __init__(self, value):
            super().__init__()
            self.w = tf.Variable(value)
            self.size = 3
            self.label = "text"

    class Whole(tf.Module):
        def __init__(self, value):
            super().__init__()
            self.parts = [Part(value), Part(value + 1)]
            self.named = {"x": tf.Variable(value + 2)}
            self.parts[0].owner = self

    path = tf.train.Checkpoint(module=Whole(1.0)).save(str(tmp_path / "module"))
    whole = Whole(0.0)
    tf.train.Checkpoint(module=whole).restore(path).assert_consumed()
    listed = [name for name, _ in tf.train.list_variables(path) if not name.startswith("_")]
    return sorted(v.numpy() for v in whole.variables), listed


def iterators(tf, tmp_path):
    data = tf.data.Dataset.range(10).map(lambda x: x * 2).batch(2)
    iterator = iter(data)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "iterator"))
    next(iterator)
    again = iter(data)
    tf.train.Checkpoint(iterator=again).restore(path)
    return next(again).numpy()


def python_state(tf, tmp_path):
    class Own(tf.train.experimental.PythonState):
        def __init__(self, value):
            self.value = value

        def serialize(self):
            return self.value

        def deserialize(self, string_value):
            self.value = string_value

    path = tf.train.Checkpoint(own=Own(b"abc")).save(str(tmp_path / "own"))
    own = Own(b"")
    tf.train.Checkpoint(own=own).restore(path)
    return own.value


def averages(tf, tmp_path):
    found = []
    for options in ({}, {"num_updates": 3}, {"zero_debias": True}):
        variable = tf.Variable(1.0)
        average = tf.train.ExponentialMovingAverage(0.9, **options)
        for value in (1.0, 2.0, 5.0):
            variable.assign(value)
            average.apply([variable])
            found.append(round(float(average.average(variable)), 5))
        found.append(average.average(tf.Variable(0.0)))
    return found


def coordinated(tf, tmp_path):
    coordinator = tf.train.Coordinator()
    counts = []

    def work():
        with coordinator.stop_on_exception():
            while not coordinator.should_stop():
                counts.append(1)
                if len(counts) == 5:
                    raise ValueError("five")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        coordinator.join(threads)
    except ValueError as error:
        first = str(error)
    coordinator.clear_stop()
    coordinator.request_stop(tf.errors.OutOfRangeError(None, None, "end"))
    coordinator.join()
    return first, coordinator.should_stop(), coordinator.joined


def records(tf, tmp_path):
    train = tf.train
    example = train.Example(
        features=train.Features(
            feature={
                "bytes": train.Feature(bytes_list=train.BytesList(value=[b"x", b"\x00\xff"])),
                "ints": train.Feature(int64_list=train.Int64List(value=[1, -(2**40), 0])),
                "floats": train.Feature(float_list=train.FloatList(value=[0.1, -2.5])),
                "numpy": train.Feature(int64_list=train.Int64List(value=np.arange(3))),
                "none": train.Feature(),
            }
        )
    )
    feature = train.Feature(int64_list=train.Int64List(value=[4]))
    sequence = train.SequenceExample(
        context=train.Features(feature={"length": feature}),
        feature_lists=train.FeatureLists(
            feature_list={"tokens": train.FeatureList(feature=[feature, feature])}
        ),
    )
    text = example.SerializeToString(deterministic=True)
    again = train.Example.FromString(text)
    return (
        text,
        sequence.SerializeToString(deterministic=True),
        list(again.features.feature["ints"].int64_list.value),
        again.features.feature["bytes"].WhichOneof("kind"),
        str(sequence),
    )


def clusters(tf, tmp_path):
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:2"], "ps": {1: "c:3"}})
    return (
        sorted(spec.jobs),
        spec.as_dict(),
        spec.num_tasks("worker"),
        spec.task_indices("ps"),
        spec.task_address("ps", 1),
        spec.job_tasks("worker"),
        spec == tf.train.ClusterSpec(spec.as_dict()),
    )


PROGRAMS = [
    names,
    intervals,
    restored,
    containers,
    modules,
    iterators,
    python_state,
    averages,
    coordinated,
    records,
    clusters,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_equal(program, tmp_path):
    mine, other = tmp_path / "ours", tmp_path / "theirs"
    mine.mkdir()
    other.mkdir()
    np.testing.assert_equal(program(ours, mine), program(theirs, other))


ERRORS = {
    "not trackable": lambda tf: tf.train.Checkpoint(x=1),
    "no checkpoint": lambda tf: tf.train.Checkpoint(x=tf.Variable(1)).restore("nowhere/ck-1"),
    "no file": lambda tf: tf.train.load_checkpoint("nowhere/ck-1"),
    "none kept": lambda tf: tf.train.CheckpointManager(tf.train.Checkpoint(), "x", max_to_keep=0),
    "interval": lambda tf: tf.train.CheckpointManager(
        tf.train.Checkpoint(), "x", max_to_keep=1, checkpoint_interval=2
    ),
    "average of integers": lambda tf: tf.train.ExponentialMovingAverage(0.9).apply(
        [tf.Variable(1)]
    ),
    "average of tensors": lambda tf: tf.train.ExponentialMovingAverage(0.9).apply(
        [tf.constant(1.0)]
    ),
    "job": lambda tf: tf.train.ClusterSpec({"worker": ["a:1"]}).num_tasks("ps"),
    "feature": lambda tf: tf.train.BytesList(value=["text"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_one_kind(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception) as other:  # noqa: PT011
        ERRORS[name](theirs)
    expected = other.value
    kind = type(expected)
    if isinstance(expected, theirs.errors.OpError):
        kind = getattr(ours.errors, kind.__name__)
    with pytest.raises(kind):
        ERRORS[name](ours)
