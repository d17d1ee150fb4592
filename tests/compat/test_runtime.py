"""tf.config, tf.device, tf.test and eager execution."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from drumline.compat import tf

FRESH = """
import json
import {tf} as tf
def kind(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "done"
config = tf.config
cpu = config.list_physical_devices("CPU")
found = [config.list_physical_devices(), config.list_physical_devices("GPU"), cpu]
config.set_visible_devices([], "GPU")
found.append(config.get_visible_devices())
config.threading.set_intra_op_parallelism_threads(2)
config.threading.set_inter_op_parallelism_threads(3)
part = config.LogicalDeviceConfiguration
found.append(config.get_logical_device_configuration(cpu[0]))
config.set_logical_device_configuration(cpu[0], [part(), part()])
found.append(config.list_logical_devices("CPU"))
found.append(config.list_physical_devices("CPU"))
found.append(len(config.get_logical_device_configuration(cpu[0])))
found.append(config.threading.get_intra_op_parallelism_threads())
found.append(config.threading.get_inter_op_parallelism_threads())
found.append(kind(lambda: config.set_logical_device_configuration(cpu[0], [part()] * 3)))
found.append(kind(lambda: config.set_logical_device_configuration(cpu[0], [part()] * 2)))
found.append(kind(lambda: config.threading.set_intra_op_parallelism_threads(1)))
found.append(kind(lambda: config.threading.set_inter_op_parallelism_threads(1)))
found.append(kind(lambda: config.experimental.set_memory_growth(cpu[0], True)))
found.append(kind(lambda: config.set_visible_devices(["no device"], "GPU")))
found.append(kind(lambda: tf.device("nonsense").__enter__()))
found.append(kind(lambda: tf.device("/GPU:7").__enter__()))
found.append(config.experimental.get_memory_info("CPU:0"))
found.append(config.experimental.get_device_details(cpu[0]))
found.append([config.optimizer.get_jit(), config.get_soft_device_placement()])
config.optimizer.set_jit(True)
found.append(config.optimizer.get_jit())
found.append(config.optimizer.get_experimental_options())
found.append(config.experimental.get_device_policy())
found.append(config.experimental.tensor_float_32_execution_enabled())
found.append([tf.test.is_gpu_available(), tf.test.gpu_device_name(), tf.test.is_built_with_xla()])
strategy = tf.distribute.MirroredStrategy([each.name for each in config.list_logical_devices()])
found.append([strategy.num_replicas_in_sync, config.functions_run_eagerly()])
print("found " + json.dumps(found))
"""


def in_a_process_of_its_own(module):
    environment = {name: text for name, text in os.environ.items() if name != "NPROC"}
    code = FRESH.format(tf=module)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("found ")[2])


def test_devices_and_settings_are_as_tensorflows():
    pytest.importorskip("tensorflow", reason="compares with TensorFlow")
    found, expected = map(in_a_process_of_its_own, ("drumline.compat.tf", "tensorflow"))
    assert found == expected


DETERMINISTIC = """
import os
from drumline.compat import tf
from drumline._backend import jax_has_started
tf.config.experimental.enable_op_determinism()
assert not jax_has_started()
print(os.environ.get("XLA_FLAGS", ""))
import jax
jax.devices()
tf.config.experimental.enable_op_determinism()
"""


def test_determinism_is_asked_of_gpus_before_jax_starts(tmp_path):
    (tmp_path / "jax_plugins").mkdir()  # as where JAX's plugin for GPUs is installed
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    unset = ("XLA_FLAGS", "JAX_PLATFORMS")
    environment = {name: text for name, text in os.environ.items() if name not in unset}
    flags = {}
    for platforms in ({}, {"JAX_PLATFORMS": "cpu"}):
        done = subprocess.run(
            [sys.executable, "-c", DETERMINISTIC],
            capture_output=True,
            text=True,
            env={**environment, "PYTHONPATH": path, **platforms},
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        flags[tuple(platforms)] = done.stdout.strip()
    assert flags == {(): "--xla_gpu_deterministic_ops=true", ("JAX_PLATFORMS",): ""}


def test_the_cpu_is_divided_before_jax_starts():
    found = in_a_process_of_its_own("drumline.compat.tf")
    physical, gpus = found[:2]
    assert ["/physical_device:CPU:0", "CPU"] in physical
    assert gpus == [each for each in physical if each[1] == "GPU"]
    assert found[5] == [["/device:CPU:0", "CPU"], ["/device:CPU:1", "CPU"]]
    assert found[8:14] == [2, 3, "RuntimeError", "done", "RuntimeError", "RuntimeError"]


def test_jax_computes_on_the_device_of_a_block():
    variable = tf.Variable(1.0)
    with tf.device("/CPU:1"):
        assert tf.Variable(1.0).device.endswith("CPU:1")
        with tf.device(tf.config.list_logical_devices("CPU")[2]):
            assert (tf.Variable(1.0) + 1.0).device.endswith("CPU:2")
        with tf.device("/job:ps/task:0"), tf.device(None):
            pass
    assert variable.device.endswith("CPU:0")
    with pytest.raises(RuntimeError, match="functions"), tf.device(lambda op: "/cpu:0"):
        pass


def test_hard_placement_refuses_what_is_not_there():
    tf.config.set_soft_device_placement(False)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="GPU:7"), tf.device("/GPU:7"):
            pass
    finally:
        tf.config.set_soft_device_placement(True)
    with tf.device("/GPU:7"):
        assert float(tf.constant(1.0) + 1.0) == 2.0


def test_precision_of_products_is_chosen():
    before = jax.config.values["jax_default_matmul_precision"]
    try:
        tf.config.experimental.enable_tensor_float_32_execution(False)
        assert not tf.config.experimental.tensor_float_32_execution_enabled()
        assert jax.config.values["jax_default_matmul_precision"] == "highest"
        tf.config.experimental.enable_tensor_float_32_execution(True)
        assert tf.config.experimental.tensor_float_32_execution_enabled()
    finally:
        jax.config.update("jax_default_matmul_precision", before)


def test_an_init_scope_assigns_at_once():
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.v, self.calls = tf.Variable(0), 0

        @tf.function
        def __call__(self):
            if self.calls == 0:
                with tf.init_scope():
                    self.calls += 1
                    self.v.assign_add(1)
            return self.v + 0

    model = Model()
    assert [int(model()) for _ in range(3)] == [1, 1, 1]


def test_a_variable_is_created_of_another_one_while_a_function_is_traced():
    v, made = tf.Variable(3.0), []

    @tf.function
    def tripled(x):
        if not made:
            made.append(tf.Variable(lambda: v * 2.0))
        return x * made[0] + v

    assert float(tripled(tf.constant(1.0))) == 9.0
    v.assign(1.0)
    assert float(tripled(tf.constant(1.0))) == 7.0


def test_execution_is_eager_outside_of_functions():
    found = {}

    @tf.function
    def traced(x):
        found["traced"] = tf.executing_eagerly()
        with tf.init_scope():
            found["lifted"] = tf.executing_eagerly()
            found["value"] = float(tf.constant(2.0) * 3.0)
        return x

    traced(tf.constant(1.0))
    with tf.GradientTape():
        found["tape"] = tf.executing_eagerly()
    eager = tf.executing_eagerly()
    assert found == {"traced": False, "lifted": True, "value": 6.0, "tape": True}
    assert eager


def test_settings_without_effect_refuse_what_tensorflow_refuses():
    with pytest.raises(ValueError, match="set_jit takes"):
        tf.config.optimizer.set_jit("always")
    with pytest.raises(ValueError, match="no option nonsense"):
        tf.config.optimizer.set_experimental_options({"nonsense": True})
    with pytest.raises(ValueError, match="cluster_spec_or_resolver"):
        tf.config.experimental_connect_to_cluster("here")
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": ["a:1"]}))
    with pytest.raises(NotImplementedError, match="filters"):
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({}), cluster_device_filters=object()
        )


class AssertionsOfTensors(tf.test.TestCase):
    """Run below: each assertion holds for what is equal, and fails for what is not."""

    def runTest(self):
        x = tf.constant([1.0, 2.0])
        holds = [
            lambda: self.assertAllEqual(x, [1.0, 2.0]),
            lambda: self.assertAllEqual(tf.constant([b"a"]), [b"a"]),
            lambda: self.assertAllEqual([np.nan], np.array([np.nan])),
            lambda: self.assertNotAllEqual(x, [1.0, 3.0]),
            lambda: self.assertAllClose({"a": x, "b": [x, 1.0]}, {"a": [1.0, 2.0], "b": (x, 1.0)}),
            lambda: self.assertAllCloseAccordingToType(tf.cast(x, tf.float16), [1.0005, 2.0]),
            lambda: self.assertNotAllClose(x, [1.0, 2.1]),
            lambda: self.assertNear(1.0, 1.01, 0.1),
            lambda: self.assertArrayNear([1.0], [1.01], 0.1),
            lambda: self.assertShapeEqual(x, np.zeros(2)),
            lambda: self.assertDTypeEqual(x, tf.float32),
            lambda: self.assertAllGreater(x, 0),
            lambda: self.assertAllLessEqual(x, 2),
            lambda: self.assertAllInSet(x, {1.0, 2.0}),
            lambda: self.assertAllInRange(x, 1, 2),
            lambda: self.assertAllEqual(self.evaluate({"x": x})["x"], [1.0, 2.0]),
        ]
        for check in holds:
            check()
        fails = [
            lambda: self.assertAllEqual(x, [1.0, 3.0]),
            lambda: self.assertAllEqual(x, [[1.0, 2.0]]),
            lambda: self.assertNotAllEqual(x, x),
            lambda: self.assertAllClose({"a": x}, {"a": [1.0, 2.1]}),
            lambda: self.assertAllClose({"a": x}, {"b": x}),
            lambda: self.assertNotAllClose(x, x),
            lambda: self.assertNear(1.0, 1.2, 0.1),
            lambda: self.assertShapeEqual(x, np.zeros(3)),
            lambda: self.assertDTypeEqual(x, tf.float64),
            lambda: self.assertAllGreater(x, 1),
            lambda: self.assertAllInRange(x, 1, 2, open_upper_bound=True),
        ]
        for check in fails:
            with pytest.raises(AssertionError):
                check()
        with self.assertRaisesOpError("not there"):
            raise tf.errors.NotFoundError(None, None, "it is not there")
        folder = self.get_temp_dir()
        assert os.path.isdir(folder)
        with self.session(), self.cached_session():
            pass


def test_assertions_of_tensors():
    result = AssertionsOfTensors().run()
    assert result.wasSuccessful(), result.failures + result.errors


def test_gradients_are_compared_with_differences():
    both = tf.test.compute_gradient(
        lambda x, y: x * tf.reduce_sum(y), [tf.constant([1.0, 2.0]), tf.constant([3.0])]
    )
    expected = [[[3.0, 0.0], [0.0, 3.0]], [[1.0], [2.0]]]
    for found in both:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_a_cluster_within_the_process():
    workers, servers = tf.test.create_local_cluster(num_workers=1, num_ps=2)
    try:
        assert len({task.target for task in (*workers, *servers)}) == 3
    finally:
        for task in (*workers, *servers):
            task.close()
