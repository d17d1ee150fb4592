"""drumline: training scripts written for one device, run on many.

``import drumline as dl`` selects Keras's JAX backend and teaches ``fit`` about strategies and
datasets. The rooms of the package are described in ``docs/architecture.md``.
"""

from drumline import _backend

_backend.select_keras_backend()
_backend.keep_cpu_platform()

from drumline import config, data, distribute, keras  # noqa: E402
from drumline.data import TensorSpec  # noqa: E402

keras.install()

__all__ = ["TensorSpec", "config", "data", "distribute", "keras"]
