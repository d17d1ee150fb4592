"""``tf.saved_model`` beside TensorFlow's: signatures, and a model that TensorFlow alone serves."""

import subprocess
import sys

import numpy as np
import pytest

tensorflow = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

import drumline.compat.tf as tf  # noqa: E402


def module_of(which):
    class Module(which.Module):
        def __init__(self):
            super().__init__()
            self.v = which.Variable(2.0)

        @which.function(input_signature=[which.TensorSpec([None], which.float32, name="x")])
        def times(self, x):
            return x * self.v

        @which.function
        def both(self, a, b=1):
            return {"sum": a + b, "first": a}

    return Module()


def test_signatures_are_tensorflows(tmp_path):
    described = []
    for which in (tensorflow, tf):
        module = module_of(which)
        both = module.both.get_concrete_function(which.TensorSpec([2, None], which.float32))
        path = str(tmp_path / which.__name__)
        which.saved_model.save(module, path, signatures={"times": module.times, "both": both})
        loaded = which.saved_model.load(path)
        signatures = loaded.signatures
        found = {name: str(each.structured_input_signature) for name, each in signatures.items()}
        outputs = {
            name: sorted((key, str(spec)) for key, spec in each.structured_outputs.items())
            for name, each in signatures.items()
        }
        values = signatures["both"](a=which.ones([2, 3]))
        values = {name: value.numpy().tolist() for name, value in sorted(values.items())}
        described.append([found, outputs, values, signatures["times"](which.ones([2]))])
        described[-1][-1] = described[-1][-1]["output_0"].numpy().tolist()
    assert described[0] == described[1]


class Called(tf.keras.Model):
    """A model that is not made of inputs."""

    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


def _sequential():
    return tf.keras.Sequential(
        [tf.keras.Input((3,)), tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(2)]
    )


@pytest.mark.parametrize("make", [_sequential, Called])
def test_tensorflow_serves_what_export_writes(tmp_path, make):
    model = make()
    model(np.ones((4, 3), "float32"))
    model.export(tmp_path, verbose=False)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    script = (
        "import sys, numpy as np, tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "(y,) = serve(tf.constant(np.load(sys.argv[1] + '/x.npy'))).values()\n"
        "np.save(sys.argv[1] + '/y.npy', y)\n"
        "assert 'drumline' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = model(x).numpy()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-6)
    ours = tf.saved_model.load(tmp_path).signatures["serving_default"](x)["output_0"]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
