"""``tf.compat.v1`` without TensorFlow beside it: layers, sharing of variables, the platform."""

import subprocess
import sys

import drumline.compat.tf.compat.v1 as v1
import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.compat import former_programs as programs

ROWS = np.ones((4, 3), np.float32)


def net(x):
    with v1.variable_scope("body"):
        x = v1.layers.dense(x, 5, activation="relu")
        x = v1.layers.dense(x, 5, name="second")
    x = v1.layers.dropout(x, 0.5, training=False)
    return v1.layers.dense(v1.layers.flatten(x), 2)


def test_a_template_shares_layers_and_trains():
    model = v1.make_template("model", net)
    first = model(ROWS)
    np.testing.assert_array_equal(first, model(ROWS))
    assert [tuple(each.shape) for each in model.trainable_variables] == [
        (3, 5),
        (5,),
        (5, 5),
        (5,),
        (5, 2),
        (2,),
    ]
    optimizer, step = v1.train.AdamOptimizer(0.05), v1.train.get_or_create_global_step()
    before = int(step)

    def loss():
        return v1.losses.sparse_softmax_cross_entropy([0, 0, 0, 0], model(ROWS))

    start = float(loss())
    for _ in range(20):
        optimizer.minimize(loss, step)
    assert float(loss()) < 0.8 * start
    assert int(step) == before + 20 and step is v1.train.get_global_step()
    other = v1.make_template("model", net)
    assert not np.array_equal(other(ROWS), model(ROWS))


def test_layers_outside_of_templates_are_new_unless_the_scope_reuses():
    def two(reuse):
        with v1.variable_scope("outside", reuse=reuse):
            return v1.layers.dense(ROWS, 2).numpy()

    assert not np.array_equal(two(None), two(None))
    np.testing.assert_array_equal(two(v1.AUTO_REUSE), two(v1.AUTO_REUSE))
    named = v1.layers.dense(ROWS, 2, name="named")
    np.testing.assert_array_equal(named, v1.layers.dense(ROWS, 2, name="named", reuse=True))
    with pytest.raises(ValueError, match="never does not exist"):
        v1.layers.dense(ROWS, 2, name="never", reuse=True)


def test_images_pass_through_layers():
    image = np.ones((2, 8, 8, 3), np.float32)
    x = v1.layers.conv2d(image, 4, 3, padding="same", activation=tf.nn.relu)
    x = v1.layers.batch_normalization(x, training=True)
    x = v1.layers.max_pooling2d(x, 2, 2)
    x = v1.layers.average_pooling2d(x, [2, 2], strides=2)
    x = v1.layers.conv2d_transpose(x, 2, 3, strides=2, padding="same")
    assert tuple(v1.layers.separable_conv2d(x, 5, 3).shape) == (2, 2, 2, 5)
    with pytest.raises(TypeError, match=r"conv2d\(\) does not take filter_size"):
        v1.layers.conv2d(image, 4, filter_size=3)


def test_variables_are_shared_by_name_where_the_scope_reuses():
    with v1.variable_scope("shared", reuse=v1.AUTO_REUSE) as scope:
        w = v1.get_variable("w", [2, 3])
        assert v1.get_variable("w", [2, 3]) is w
        with pytest.raises(ValueError, match=r"share variable shared/w, but specified shape"):
            v1.get_variable("w", [3])
    with v1.variable_scope(scope, reuse=True):
        assert v1.get_variable("w") is w
        with pytest.raises(ValueError, match="shared/x does not exist"):
            v1.get_variable("x", [1])
    with v1.variable_scope("shared"):
        assert v1.get_variable("w", [2, 3]) is not w
    counted = v1.get_variable("n", [], tf.int64, v1.zeros_initializer())
    assert counted.dtype == tf.int64 and int(counted) == 0
    with pytest.raises(ValueError, match="must be fully defined"):
        v1.get_variable("no_shape")
    for option in ("regularizer", "partitioner", "custom_getter", "collections"):
        with pytest.raises(NotImplementedError, match=option):
            v1.get_variable("refused", [1], **{option: lambda: None})


def test_default_names_are_counted_again_in_a_scope_that_is_entered_again():
    def names():
        with v1.variable_scope("again"):
            with v1.variable_scope(None, "part") as first, v1.variable_scope(None, "x"):
                pass
            with v1.variable_scope(None, "part") as second:
                return first.name, second.name

    assert names() == names() == ("again/part", "again/part_1")
    with pytest.raises(ValueError, match="name_or_scope is required"), v1.variable_scope(None):
        pass


def test_what_needs_a_graph_is_refused_by_name():
    for name in ("Session", "placeholder", "disable_v2_behavior"):
        with pytest.raises(AttributeError, match=f"{name} is not .* no graphs.*; use tf.function"):
            getattr(v1, name)
    with pytest.raises(AttributeError, match=r"use tf\.keras\.metrics\.Precision"):
        v1.metrics.precision_at_k  # noqa: B018
    with pytest.raises(RuntimeError, match=r"model_fn of an Estimator; use tf\.keras\.metrics"):
        v1.metrics.auc([1, 0], [0.5, 0.2])
    with pytest.raises(RuntimeError, match="should be a function"):
        v1.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))
    assert v1.enable_eager_execution() is None and v1.enable_v2_behavior() is None
    with pytest.raises(NotImplementedError, match="config"):
        v1.enable_eager_execution(config=1)
    assert v1.executing_eagerly_outside_functions() and v1.resource_variables_enabled()


def test_wrong_arguments_name_the_function():
    with pytest.raises(TypeError, match=r"reduce_sum\(\) got an unexpected argument 'axes'"):
        v1.reduce_sum(ROWS, axes=1)
    with pytest.raises(TypeError, match=r"reduce_sum\(\) got twice the argument 'axis'"):
        v1.reduce_sum(ROWS, 0, axis=1)
    with pytest.raises(TypeError, match=r"takes 6 arguments"):
        v1.reduce_sum(*range(7))
    with pytest.raises(ValueError, match="Cannot specify both"):
        v1.reduce_sum(ROWS, axis=0, reduction_indices=1)


@pytest.mark.parametrize("make", programs.OPTIMIZERS.values(), ids=programs.OPTIMIZERS)
def test_optimizers_go_downhill(make):
    x, _, steps = programs.minimized(tf, make)
    assert steps == 4 and np.all(x < [1.0, 2.0])


def test_optimizers_follow_a_schedule_with_the_global_step():
    counted, x = tf.Variable(0, dtype=tf.int64, trainable=False), tf.Variable(1.0)
    rate = v1.train.piecewise_constant(counted, [0], [0.25, 0.0])
    optimizer = v1.train.GradientDescentOptimizer(rate)
    for expected in (0.5, 0.5):
        optimizer.minimize(lambda: x * x, counted, [x])
        assert float(x) == expected


def test_logging_writes_from_a_level_on():
    code = (
        "import drumline.compat.tf.compat.v1 as tf\n"
        "tf.logging.info('no'); tf.logging.warning('w %d', 1)\n"
        "tf.logging.set_verbosity(tf.logging.INFO)\n"
        "for i in range(5):\n"
        "    tf.logging.log_every_n(tf.logging.INFO, 'every %d', 2, i)\n"
        "    tf.logging.log_first_n(tf.logging.INFO, 'first %d', 1, i)\n"
        "tf.logging.log_if(tf.logging.INFO, 'if', False)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "WARNING:tensorflow:w 1",
        "INFO:tensorflow:every 0",
        "INFO:tensorflow:first 0",
        "INFO:tensorflow:every 2",
        "INFO:tensorflow:every 4",
    ]


def test_programs_have_flags(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import drumline.compat.tf.compat.v1 as tf\n"
        "tf.flags.DEFINE_integer('steps', 3, 'Steps.')\n"
        "def main(argv):\n"
        "    print(tf.flags.FLAGS.steps, argv[1:])\n"
        "if __name__ == '__main__':\n"
        "    tf.app.run()\n"
    )
    command = [sys.executable, str(script), "--steps=5", "rest"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "5 ['rest']\n"), done.stderr
    command[2] = "--steps=x"
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_versions_are_told():
    assert tf.__version__ == tf.version.VERSION == v1.VERSION
    assert tf.__version__.split(".")[0] == "2"
    assert tf.newaxis is None and v1.newaxis is None
    assert not any(tf.sysconfig.get_build_info().values())
    assert tf.get_logger().name == "tensorflow"
    assert tf.compat.as_bytes("ä") == "ä".encode() and tf.compat.as_str(b"a") == "a"
    with pytest.raises(TypeError, match="Expected binary or unicode string"):
        tf.compat.as_text(1)


def test_settings_of_sessions_have_fields_of_their_own_alone():
    settings = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    settings.inter_op_parallelism_threads = 4
    settings.gpu_options.allow_growth = True
    assert settings.device_count == {"GPU": 0} and settings.gpu_options.allow_growth
    assert not tf.compat.v1.ConfigProto().gpu_options.allow_growth
    with pytest.raises(AttributeError, match="has no field 'inter_op_threads'"):
        settings.inter_op_threads = 1
    with pytest.raises(TypeError):
        tf.compat.v1.ConfigProto(inter_op_threads=1)


def test_eager_execution_stays_with_a_warning(monkeypatch):
    monkeypatch.setattr("drumline.compat.v1.platform._warned", [])
    with pytest.warns(UserWarning, match="has no effect: there are no graphs"):
        v1.disable_eager_execution()
    assert tf.executing_eagerly() and int(tf.constant(1) + 1) == 2


def test_initializers_leave_what_variables_hold():
    variable = tf.Variable(2.0)
    variable.assign(3.0)
    v1 = tf.compat.v1
    assert v1.global_variables_initializer() is None
    assert v1.local_variables_initializer() is None
    assert v1.variables_initializer([variable]) is None
    assert v1.tables_initializer() is None
    assert v1.initialize_all_variables is v1.global_variables_initializer
    assert v1.initializers.global_variables is v1.global_variables_initializer
    assert variable.numpy() == 3.0
