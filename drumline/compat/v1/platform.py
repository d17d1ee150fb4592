"""Versions, texts of bytes, logging, and the switches between TensorFlow 1 and 2.

``tf.version``, ``tf.sysconfig``, ``tf.compat``, ``tf.get_logger``; ``logging`` and ``app`` of
``tf.compat.v1``.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import numbers
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.compat.values.tensor import TensorType

newaxis = None
VERSION = __version__ = "2.21.0"
GIT_VERSION = "drumline"
COMPILER_VERSION = "none"

bytes_or_text_types = (bytes, str)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)


def get_build_info() -> dict[str, bool]:
    """What the library was built with: nothing of TensorFlow's; `jax.devices` lists devices."""
    keys = ("is_cuda_build", "is_rocm_build", "is_tensorrt_build")
    return collections.OrderedDict.fromkeys(keys, False)


# Texts.


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Encode text; bytes stay as they are.

    Raises:
        TypeError: it is neither.

    Example:
        >>> as_bytes("a")
        b'a'
    """
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Decode bytes; text stays as it is.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """The text of any value; bytes are decoded."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """The text of a path; what is none stays as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


def dimension_value(dimension: Any) -> Any:
    """The value of a dimension, which here is a number or None."""
    return getattr(dimension, "value", dimension)


def dimension_at_index(shape: Any, index: int) -> Any:
    """A dimension of a shape; None if its rank is not known."""
    return None if shape.rank is None else shape[index]


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether programs written to disk may use what is new: True, since none are."""
    return True


# Logging.

_LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
DEBUG, INFO, WARN, ERROR, FATAL = _LEVELS.values()
_calls: collections.Counter[Any] = collections.Counter()


def get_logger() -> logging.Logger:
    """The logger ``tensorflow``, which writes to the error output; at first from warnings on."""
    return _writing("tensorflow")


def _writing(name: str) -> logging.Logger:
    """A logger that writes to the error output, unless the program has set up logging."""
    logger = logging.getLogger(name)
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    return logger


def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at a level."""
    get_logger().log(level, msg, *args, **kwargs)


def _logs(level: str) -> Callable[..., None]:
    def write(msg: Any, *args: Any, **kwargs: Any) -> None:
        get_logger().log(_LEVELS[level], msg, *args, **kwargs)

    write.__name__ = write.__qualname__ = level.lower()
    write.__doc__ = f"Log at the level ``{level}``."
    return write


debug, info, warn, error, fatal = map(_logs, _LEVELS)
warning = warn


def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at a level of numbers, as `log`."""
    log(level, msg, *args, **kwargs)


def _caller() -> tuple[str, int]:
    frame = sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Log every n-th time that this line runs, the first one included."""
    place = _caller()
    if _calls[place] % n == 0:
        log(level, msg, *args)
    _calls[place] += 1


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Log the first n times that this line runs."""
    place = _caller()
    if _calls[place] < n:
        log(level, msg, *args)
    _calls[place] += 1


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Log if a condition holds."""
    if condition:
        log(level, msg, *args)


def flush() -> None:
    """Write out what was logged."""
    for handler in get_logger().handlers:
        handler.flush()


def get_verbosity() -> int:
    """The level from which on there is output."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Set the level from which on there is output, also of Estimators: a number or a name."""
    for name in ("tensorflow", "drumline"):
        _writing(name).setLevel(v)


# Programs and switches.


def run(main: Callable[..., Any] | None = None, argv: list[str] | None = None) -> None:
    """Parse flags of ``absl``, run a program's ``main(argv)``, and exit with what it returns."""
    from absl import app

    chosen = main if main is not None else sys.modules["__main__"].main
    app.run(chosen, argv)


def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> None:
    """Do nothing: functions run as they are called.

    Raises:
        NotImplementedError: with options, which are about TensorFlow's runtime.
    """
    if config is not None or device_policy is not None or execution_mode is not None:
        raise NotImplementedError(
            "enable_eager_execution(config=, device_policy=, execution_mode=): JAX places "
            "computations; use tf.config to choose devices."
        )


def disable_eager_execution() -> None:
    """Do nothing but warn, once: functions run as they are called, also without this.

    What needs a graph says what to use in its place. `Estimator`s need none.
    """
    if not _warned:
        _warned.append("disable_eager_execution")
        warnings.warn(
            "disable_eager_execution() has no effect: there are no graphs and sessions in the "
            "look-alike; functions run as they are called, and Estimators and tf.function compile "
            "them.",
            stacklevel=2,
        )


_warned: list[str] = []


def _does_nothing(name: str) -> Callable[[], None]:
    def enable() -> None:
        """Do nothing: it is so already."""

    enable.__name__ = enable.__qualname__ = name
    return enable


enable_v2_behavior = _does_nothing("enable_v2_behavior")
enable_v2_tensorshape = _does_nothing("enable_v2_tensorshape")
enable_resource_variables = _does_nothing("enable_resource_variables")
enable_control_flow_v2 = _does_nothing("enable_control_flow_v2")


def enable_tensor_equality() -> None:
    """Have ``==`` compare the values of tensors, as it does unless `disable_tensor_equality`."""
    TensorType.compares_identity = False


def disable_tensor_equality() -> None:
    """Have ``==`` ask whether two tensors are one and the same."""
    TensorType.compares_identity = True


def is_so() -> bool:
    """Return True: it is always so here."""
    return True


# Settings of sessions, which servers and Estimators take.


@dataclasses.dataclass
class GPUSettings:
    """As ``tf.compat.v1.GPUOptions``: kept, and without effect.

    JAX's own settings of memory are environment variables: ``XLA_PYTHON_CLIENT_PREALLOCATE`` and
    ``XLA_PYTHON_CLIENT_MEM_FRACTION``.

    Attributes:
        allow_growth: whether memory is taken as it is needed.
        per_process_gpu_memory_fraction: how much of it at most.
        visible_device_list: numbers of devices, with commas between.
    """

    allow_growth: bool = False
    per_process_gpu_memory_fraction: float = 0.0
    visible_device_list: str = ""


@dataclasses.dataclass
class SessionSettings:
    """As ``tf.compat.v1.ConfigProto``: kept for what takes one, and without effect.

    There are no sessions: XLA has one pool of threads in a process, and devices are those of JAX.

    Attributes:
        device_count: for each kind of devices, how many.
        intra_op_parallelism_threads: how many threads compute one operation.
        inter_op_parallelism_threads: how many operations are computed at once.
        use_per_session_threads: whether sessions have threads of their own.
        allow_soft_placement: whether devices that are not there are replaced.
        log_device_placement: whether it is logged what runs where.
        operation_timeout_in_ms: for each operation.
        isolate_session_state: whether sessions share variables.
        gpu_options: see `GPUSettings`.

    Raises:
        AttributeError: for an attribute that is not among these, when it is set.

    Example:
        >>> import drumline.compat.tf as tf
        >>> settings = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        >>> settings.gpu_options.allow_growth = True
    """

    device_count: dict[str, int] = dataclasses.field(default_factory=dict)
    intra_op_parallelism_threads: int = 0
    inter_op_parallelism_threads: int = 0
    use_per_session_threads: bool = False
    allow_soft_placement: bool = False
    log_device_placement: bool = False
    operation_timeout_in_ms: int = 0
    isolate_session_state: bool = False
    gpu_options: GPUSettings = dataclasses.field(default_factory=GPUSettings)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__:
            raise AttributeError(
                f"ConfigProto has no field {name!r} here; it has "
                f"{', '.join(self.__dataclass_fields__)}"
            )
        object.__setattr__(self, name, value)


GPUSettings.__name__ = GPUSettings.__qualname__ = "GPUOptions"
SessionSettings.__name__ = SessionSettings.__qualname__ = "ConfigProto"
