"""Why names of TensorFlow are not in the look-alike, and what to use in their place."""

from __future__ import annotations

from drumline.compat.symbols.table import Absent

REASONS = {
    "graphs": "there are no graphs and sessions; functions are traced",
    "kernels": "it names an operation of TensorFlow's runtime",
    "devices": "JAX places computations on devices",
    "format": "it reads or writes a file format of TensorFlow's alone",
    "internals": "it is a detail of TensorFlow's implementation",
    "deprecated": "TensorFlow has deprecated it",
    "other library": "another library has it",
    "hardware": "it is made for hardware or runtimes that JAX does not serve",
    "no equivalent": "JAX has nothing like it",
    "not yet": "it is not written yet",
}
"""The reasons that a name can be absent for."""

ABSENT = (
    Absent("raw_ops", "kernels", "use the function of the public module, as tf.math, tf.io, tf.nn"),
    Absent("Graph", "graphs", "compile functions with tf.function"),
    Absent("compat.v1.Session", "graphs", "call functions as they are"),
    Absent("compat.v1.placeholder", "graphs", "make it an argument of a tf.function"),
    Absent("Operation", "graphs", "there is no object for it"),
    Absent("graph_util", "graphs", "use jax.make_jaxpr to look at a function"),
    Absent("gradients", "graphs", "use tf.GradientTape"),
    Absent("hessians", "graphs", "use two tf.GradientTape, one within the other"),
    Absent("control_dependencies", "graphs", "what a function writes is in the order of its lines"),
    Absent("init_scope", "graphs", "make variables before the function is called"),
    Absent("feature_column", "deprecated", "use tf.keras.layers, as Normalization, StringLookup"),
    Absent("estimator", "deprecated", "use tf.keras.Model.fit"),
    Absent("lite", "hardware", "export with jax.export and convert with ai-edge-torch or onnx"),
    Absent("tpu", "hardware", "use jax's own functions for TPUs"),
    Absent("experimental.dtensor", "no equivalent", "use jax.sharding and keras.distribution"),
    Absent("experimental.numpy", "other library", "use jax.numpy or numpy"),
    Absent("mlir", "internals", "use jax.jit(f).lower(...).as_text()"),
    Absent("autodiff.ForwardAccumulator", "not yet", "use jax.jvp"),
    Absent("queue", "graphs", "use tf.data"),
    Absent("sysconfig", "internals", "use jax.devices and jax.__version__"),
    Absent("types", "internals", "annotate with tf.Tensor"),
    Absent("xla", "internals", "tf.function compiles with XLA always"),
    Absent("quantization", "not yet", "use keras.quantizers"),
    Absent("keras.estimator", "deprecated", "use fit"),
    Absent("load_op_library", "kernels", "use jax.ffi"),
    Absent("load_library", "kernels", "use jax.ffi"),
    Absent("security", "internals", "there is nothing to use it for"),
    Absent("profiler", "other library", "use jax.profiler"),
    Absent("nest.is_nested", "not yet", "use isinstance with tuple, list and dict"),
)
"""Names that are absent, narrower prefixes first; each name under a prefix has its answer."""
