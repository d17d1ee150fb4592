"""``Scaffold``: how a model_fn's variables begin, and what saves them."""

import keras
import numpy as np
import pytest

import drumline as dl
import drumline.compat.tf as tf

ROWS = np.arange(8, dtype=np.float32)[:, None]
LABELS = ROWS * 5 + np.arange(3, dtype=np.float32)


def input_fn():
    return tf.data.Dataset.from_tensor_slices({"x": ROWS, "y": LABELS}).repeat().batch(2)


def saved_by_objects(features, labels, mode, params):
    """The guide's: a tf.train.Checkpoint of a layer, its optimizer and the step."""
    net = tf.keras.layers.Dense(3)
    opt = tf.keras.optimizers.Adam(0.1)
    step = tf.compat.v1.train.get_global_step()
    parts = {"step": step, "optimizer": opt, "net": net}
    ckpt = tf.train.Checkpoint(**{name: parts[name] for name in params["saved"]})
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(net(features["x"]) - features["y"]))
    gradients = tape.gradient(loss, net.trainable_variables)
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.group(
            opt.apply_gradients(zip(gradients, net.trainable_variables, strict=True)),
            step.assign_add(1),
        ),
        predictions=net(features["x"]),
        scaffold=tf.compat.v1.train.Scaffold(saver=ckpt),
    )


def estimator(folder, saved=("step", "optimizer", "net"), **config):
    return tf.estimator.Estimator(
        saved_by_objects,
        str(folder),
        tf.estimator.RunConfig(tf_random_seed=1, **config),
        params={"saved": saved},
    )


def objects():
    net, opt = tf.keras.layers.Dense(3), tf.keras.optimizers.Adam(0.1)
    step = tf.Variable(0, dtype=tf.int64)
    return net, tf.train.Checkpoint(step=step, optimizer=opt, net=net)


def test_a_saver_writes_checkpoints_of_its_objects(tmp_path):
    made = estimator(tmp_path, save_checkpoints_steps=4, keep_checkpoint_max=2)
    made.train(input_fn, steps=10)
    assert made.latest_checkpoint() == str(tmp_path / "model.ckpt-10")
    names = sorted(path.name for path in tmp_path.glob("model.ckpt-*"))
    assert [name.split(".")[1] for name in names] == ["ckpt-10", "ckpt-8"]
    net, ckpt = objects()
    found = next(made.predict(lambda: input_fn().take(1)))
    status = ckpt.restore(tf.train.latest_checkpoint(str(tmp_path)))
    assert int(ckpt.step) == 10
    np.testing.assert_allclose(net(tf.constant(ROWS[:1]))[0], found, rtol=1e-6)
    ckpt.optimizer.build(net.trainable_variables)
    status.assert_consumed()
    assert int(ckpt.optimizer.iterations) == 10


def test_training_goes_on_from_a_savers_checkpoint(tmp_path):
    whole = estimator(tmp_path / "whole").train(input_fn, steps=8)
    parts = estimator(tmp_path / "parts")
    parts.train(input_fn, steps=4)
    # The data begin again: four batches are all rows.
    parts.train(input_fn, max_steps=8)
    assert parts.evaluate(input_fn, steps=2) == whole.evaluate(input_fn, steps=2)
    assert parts.evaluate(input_fn, steps=2)["global_step"] == 8
    before = parts.latest_checkpoint()
    parts.train(input_fn, max_steps=8)
    assert parts.latest_checkpoint() == before


def test_a_saver_under_a_strategy(tmp_path):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    made = estimator(tmp_path, train_distribute=strategy)
    made.train(input_fn, steps=3)
    _, ckpt = objects()
    ckpt.restore(made.latest_checkpoint()).expect_partial()
    assert int(ckpt.step) == 3
    made.train(input_fn, steps=2)
    assert made.evaluate(input_fn, steps=1)["global_step"] == 5


def test_a_saver_without_some_variables_is_named_where_they_are_needed(tmp_path):
    made = estimator(tmp_path, ("step", "net"))
    made.train(input_fn, steps=1)
    with pytest.raises(ValueError, match=r"has no .*adam.*tf\.train\.Checkpoint"):
        made.train(input_fn, steps=1)


def test_a_checkpoint_of_another_saver_is_refused(tmp_path):
    estimator(tmp_path, ("step", "optimizer")).train(input_fn, steps=1)
    with pytest.raises(ValueError, match="is of another model: .*net"):
        estimator(tmp_path).train(input_fn, steps=1)


def model_that_begins(begin):
    """Adds 1 to a variable in each step, and predicts it."""

    def model_fn(features, labels, mode):
        start = dl.Variable(0.0, name="start")
        start.assign_add(1.0)
        return dl.estimator.EstimatorSpec(
            mode,
            predictions=start.value * features,
            loss=keras.ops.sum(features),
            train_op=True,
            scaffold=dl.estimator.Scaffold(init_fn=begin(start)),
        )

    return model_fn


def ones():
    return dl.data.Dataset.from_tensors(np.ones(1, np.float32)).repeat(2)


def test_init_fn_runs_once_where_there_is_no_checkpoint(tmp_path):
    calls = []

    def begin(start):
        def init_fn(scaffold, session):
            calls.append((scaffold, session))
            start.assign(5.0)

        return init_fn

    made = dl.estimator.Estimator(model_that_begins(begin), str(tmp_path))
    made.train(ones)
    assert len(calls) == 1 and isinstance(calls[0][0], dl.estimator.Scaffold)
    assert calls[0][1] is None
    assert made.get_variable_value("start") == 7
    made.train(ones, steps=1)
    made.evaluate(ones)
    assert len(calls) == 1 and made.get_variable_value("start") == 8
    untrained = dl.estimator.Estimator(model_that_begins(begin), str(tmp_path / "new"))
    assert next(untrained.predict(ones)) == 6


def test_init_fn_runs_after_a_warm_start(tmp_path):
    def begin(start):
        return lambda scaffold, session: start.assign(start.value * 10)

    model_fn = model_that_begins(lambda start: None)
    first = dl.estimator.Estimator(model_fn, str(tmp_path / "first")).train(ones)
    warm = dl.estimator.Estimator(
        model_that_begins(begin),
        str(tmp_path / "warm"),
        warm_start_from=dl.estimator.WarmStartSettings(first.model_dir, vars_to_warm_start=".*"),
    )
    warm.train(ones, steps=1)
    assert warm.get_variable_value("start") == 21


@pytest.mark.parametrize(
    "name",
    [
        "init_op",
        "local_init_op",
        "ready_op",
        "ready_for_local_init_op",
        "summary_op",
        "init_feed_dict",
        "local_init_feed_dict",
    ],
)
def test_what_is_of_graphs_is_refused_by_name(name):
    with pytest.raises(NotImplementedError, match=rf"Scaffold\({name}=\): .{{20}}"):
        tf.compat.v1.train.Scaffold(**{name: tf.constant(1)})


def test_initializers_of_former_scripts_do_nothing():
    start = tf.compat.v1.global_variables_initializer()
    local = tf.group(tf.compat.v1.local_variables_initializer(), tf.compat.v1.tables_initializer())
    scaffold = tf.compat.v1.train.Scaffold(init_op=start, local_init_op=local)
    assert scaffold.finalize() is scaffold and scaffold.init_op is None
    assert tf.compat.v1.train.Scaffold.default_local_init_op() is None
    spec = tf.estimator.EstimatorSpec("infer", predictions=1)
    assert spec.scaffold.saver is None and spec.scaffold.init_fn is None


def test_a_copy_has_what_it_is_not_given():
    called = []
    saver = tf.train.Checkpoint()
    first = tf.compat.v1.train.Scaffold(
        saver=saver, init_fn=lambda scaffold, session: called.append(scaffold)
    )
    copy = tf.compat.v1.train.Scaffold(copy_from_scaffold=first)
    copy.init_fn(None)
    assert copy.saver is saver and called == [copy]
    with pytest.raises(TypeError, match="copy_from_scaffold"):
        tf.compat.v1.train.Scaffold(copy_from_scaffold=saver)


def test_what_is_no_saver_or_scaffold_is_refused():
    with pytest.raises(TypeError, match=r"Scaffold\(saver=\): Dense is no tf.train.Checkpoint"):
        tf.compat.v1.train.Scaffold(saver=tf.keras.layers.Dense(1))
    with pytest.raises(TypeError, match=r"scaffold must be tf\.compat\.v1\.train\.Scaffold"):
        tf.estimator.EstimatorSpec("infer", predictions=1, scaffold=tf.train.Checkpoint())


def test_a_hook_saves_by_a_scaffolds_saver(tmp_path):
    folder = tmp_path / "extra"
    seen = {}

    def model_fn(features, labels, mode):
        net = tf.keras.layers.Dense(1)
        loss = tf.reduce_mean(net(features["x"]))
        step = tf.compat.v1.train.get_or_create_global_step()
        scaffold = tf.compat.v1.train.Scaffold(saver=tf.train.Checkpoint(net=net))
        seen.setdefault("net", net)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, step),
            training_hooks=[
                tf.estimator.CheckpointSaverHook(str(folder), save_steps=2, scaffold=scaffold)
            ],
        )

    tf.estimator.Estimator(model_fn, str(tmp_path / "model")).train(input_fn, steps=3)
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / "model.ckpt-3")
    net = tf.keras.layers.Dense(1)
    net.build((None, 1))
    tf.train.Checkpoint(net=net).restore(str(folder / "model.ckpt-3")).assert_consumed()
    np.testing.assert_array_equal(net.kernel, seen["net"].kernel)
    with pytest.raises(ValueError, match="both saver and scaffold"):
        tf.estimator.CheckpointSaverHook(
            "x",
            save_steps=1,
            saver=tf.train.Checkpoint(),
            scaffold=tf.compat.v1.train.Scaffold(),
        )


def test_only_training_trains_and_counts(tmp_path):
    """As in a graph, of which evaluations and predictions run no train_op."""
    made = estimator(tmp_path).train(input_fn, steps=2)
    before = made.get_variable_names()
    first = made.evaluate(input_fn, steps=1)
    assert first["global_step"] == 2
    twice = made.evaluate(lambda: input_fn().take(1).repeat(2))
    assert twice["loss"] == pytest.approx(first["loss"]) and twice["global_step"] == 2
    rows = list(made.predict(lambda: input_fn().take(1).repeat(2)))
    np.testing.assert_array_equal(rows[0], rows[2])
    assert made.get_variable_names() == before
