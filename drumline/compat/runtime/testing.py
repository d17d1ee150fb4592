"""``tf.test``: assertions about tensors, and what a machine has."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import random
import re
import shutil
import socket
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from drumline import config
from drumline.compat.training.tape import TensorTape
from drumline.compat.values.boundary import map_structure
from drumline.compat.values.convert import convert
from drumline.compat.values.errors import OpError
from drumline.compat.values.tensor import Tensor
from drumline.data import RaggedArray
from drumline.distribute import Server
from drumline.distribute.cluster_resolver import ClusterSpec


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None
) -> bool:
    """Whether JAX has a GPU.

    Args:
        cuda_only: whether it must be one of CUDA's.
        min_cuda_compute_capability: the least compute capability that it must have.
    """
    for device in _gpus():
        if cuda_only and "cuda" not in device.client.platform_version.lower():
            continue
        text = str(getattr(device, "compute_capability", "0.0"))
        capability = tuple(map(int, re.findall(r"\d+", text)))
        if min_cuda_compute_capability and capability < tuple(min_cuda_compute_capability):
            continue
        return True
    return False


def gpu_device_name() -> str:
    """``"/device:GPU:0"`` if JAX has a GPU; else nothing."""
    return "/device:GPU:0" if _gpus() else ""


def _gpus() -> list[Any]:
    return jax.local_devices(backend="gpu") if config.list_physical_devices("gpu") else []


def is_built_with_cuda() -> bool:
    """Whether JAX's plugin for CUDA is installed."""
    return any(importlib.util.find_spec(f"jax_cuda{n}_plugin") for n in (12, 13))


def is_built_with_rocm() -> bool:
    """Whether JAX's plugin for ROCm is installed."""
    return any(importlib.util.find_spec(f"jax_rocm{n}_plugin") for n in (6, 60, 7))


def is_built_with_gpu_support() -> bool:
    """Whether a plugin of JAX's for GPUs is installed."""
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_xla() -> bool:
    """True: XLA compiles all programs."""
    return True


def is_cpu_target_available(target: str) -> bool:
    """Whether code for a processor can be compiled: for this machine's own.

    Args:
        target: as ``"x86"``, ``"aarch64"``.
    """
    machine = os.uname().machine.lower()
    own = {"x86_64": "x86", "amd64": "x86", "arm64": "aarch64"}.get(machine, machine)
    return target == own


def disable_with_predicate(
    pred: Callable[[], bool], skip_message: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of test methods that skips them where ``pred()`` is true."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: unittest.TestCase, *args: Any, **kwargs: Any) -> Any:
            if pred():
                self.skipTest(skip_message)
            return method(self, *args, **kwargs)

        return call

    return decorate


def with_eager_op_as_function(cls_or_method: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that changes nothing: there is one way to run operations."""
    return with_eager_op_as_function if cls_or_method is None else cls_or_method


def sync_devices() -> None:
    """Wait until all devices have computed what was asked for."""
    for array in jax.live_arrays():
        array.block_until_ready()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the program, as ``unittest.main``."""
    unittest.main(argv=None if argv is None else list(argv))


def create_local_cluster(
    num_workers: int, num_ps: int, protocol: str = "grpc", **configs: Any
) -> tuple[list[Server], list[Server]]:
    """Workers and parameter servers within this process.

    Args:
        num_workers: how many workers.
        num_ps: how many parameter servers.
        protocol: only ``"grpc"``.
        configs: as in TensorFlow; must be None.

    Returns:
        The workers and the parameter servers.

    Raises:
        NotImplementedError: for configurations, which are TensorFlow's own.
    """
    if any(value is not None for value in configs.values()):
        raise NotImplementedError(f"create_local_cluster takes no {', '.join(configs)}")
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("localhost", 0)))
            for _ in range(num_workers + num_ps)
        ]
        addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    spec = ClusterSpec({"worker": addresses[:num_workers], "ps": addresses[num_workers:]})
    workers = [Server(spec, "worker", index, protocol) for index in range(num_workers)]
    return workers, [Server(spec, "ps", index, protocol) for index in range(num_ps)]


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """A function's derivatives, by its gradient and by differences.

    Args:
        f: takes as many tensors as there are in ``x``, and returns one.
        x: where.
        delta: half the width of differences; by default 2**-5 for float16, else 2**-10.

    Returns:
        For each of ``x`` an array of shape ``(elements of f, elements of x)``, by the gradient;
        and the same by differences.
    """
    points = [np.asarray(convert(each)) for each in x]
    if delta is None:
        delta = 1 / 32 if any(p.dtype == np.float16 for p in points) else 1 / 1024
    theoretical, numerical = [], []
    for index, point in enumerate(points):

        def of_one(value: Any, index: int = index) -> Any:
            given = [Tensor(p) for p in points]
            given[index] = value
            return f(*given)

        source = Tensor(point.copy())
        with TensorTape() as tape:
            tape.watch(source)
            target = of_one(source)
        jacobian = tape.jacobian(target, source)
        rows, columns = int(np.prod(tuple(target.shape))), point.size
        found = np.zeros((rows, columns), point.dtype)
        theoretical.append(found if jacobian is None else np.reshape(jacobian, (rows, columns)))
        numerical.append(_differences(of_one, point, delta, rows))
    return tuple(theoretical), tuple(numerical)


def _differences(f: Callable[[Any], Any], point: np.ndarray, delta: float, rows: int) -> np.ndarray:
    found = np.zeros((rows, point.size), point.dtype)
    for column in range(point.size):
        sides = []
        for sign in (1, -1):
            moved = point.copy()
            moved.reshape(-1)[column] += sign * delta
            sides.append(np.ravel(np.asarray(convert(f(Tensor(moved))))))
        found[:, column] = (sides[0] - sides[1]) / (2 * delta)
    return found


class TestCase(unittest.TestCase):
    """A test with assertions about tensors, as ``tf.test.TestCase``.

    Python's, numpy's and Keras's generators begin each test with the same seed.
    """

    _temporary: str | None = None

    def setUp(self) -> None:
        """Begin with the same random numbers."""
        super().setUp()
        random.seed(87654321)
        np.random.seed(87654321)
        import keras

        keras.utils.set_random_seed(87654321)

    def get_temp_dir(self) -> str:
        """A directory that is removed when the test has ended."""
        if self._temporary is None:
            self._temporary = made = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, made, ignore_errors=True)
            self.addCleanup(setattr, self, "_temporary", None)
        return self._temporary

    def create_tempdir(self) -> str:
        """The same as `get_temp_dir`."""
        return self.get_temp_dir()

    def evaluate(self, tensors: Any) -> Any:
        """The values of nested tensors, as numpy's."""
        return map_structure(_numpy, tensors)

    @contextlib.contextmanager
    def session(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """A block: code in it runs as anywhere, there are no graphs."""
        yield

    cached_session = session

    def test_session(self, *args: Any, **kwargs: Any) -> Any:
        """The older name of `session`; no test, though runners of tests take it for one."""
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        return self.session(*args, **kwargs)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Require equal shapes and elements; NaN is equal to NaN."""
        x, y = _array(a), _array(b)
        self._same(x.shape, y.shape, _message("Shape mismatch", x.shape, y.shape, msg))
        same = x == y
        if x.dtype.kind in "fc" and y.dtype.kind in "fc":
            same |= np.isnan(x) & np.isnan(y)
        if not np.all(same):
            places = np.argwhere(~np.asarray(same))[:10].tolist()
            self.fail(f"not equal at {places}\n  a = {x}\n  b = {y}\n{msg or ''}")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Require that something differs."""
        try:
            self.assertAllEqual(a, b)
        except self.failureException:
            return
        self.fail(msg or f"The two values are equal at all elements: {_array(a)}")

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Require nested values to be equal to rounding: ``|a - b| <= atol + rtol * |b|``."""
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            self._same(sorted(a), sorted(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, f"{msg or ''} at {key!r}")
            return
        if _is_nested(a) or _is_nested(b):
            self._same(len(a), len(b), msg)
            for index, (x, y) in enumerate(zip(a, b, strict=True)):
                self.assertAllClose(x, y, rtol, atol, f"{msg or ''} at {index}")
            return
        x, y = _array(a), _array(b)
        self._same(x.shape, y.shape, _message("Shape mismatch", x.shape, y.shape, msg))
        if "bfloat16" in (str(x.dtype), str(y.dtype)):
            x, y = x.astype(np.float32), y.astype(np.float32)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=msg or "")

    def assertNotAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Require that something differs by more than rounding."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except self.failureException:
            return
        self.fail(msg or f"The two values are close at all elements: {_array(a)}")

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Require equality to the rounding of the less precise type of the two."""
        names = {str(_array(a).dtype), str(_array(b).dtype)}
        for kinds, relative, absolute in (
            (("float32", "complex64"), float_rtol, float_atol),
            (("float16",), half_rtol, half_atol),
            (("bfloat16",), bfloat16_rtol, bfloat16_atol),
        ):
            if names & set(kinds):
                rtol, atol = max(rtol, relative), max(atol, absolute)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNear(self, f1: Any, f2: Any, err: float, msg: str | None = None) -> None:
        """Require two numbers to differ by no more than ``err``."""
        if not (bool(f1 == f2) or abs(float(f1) - float(f2)) <= err):
            self.fail(f"{f1!r} != {f2!r} +/- {err!r}{'' if msg is None else f' ({msg})'}")

    def assertArrayNear(
        self, farray1: Any, farray2: Any, err: float, msg: str | None = None
    ) -> None:
        """Require two sequences of numbers to differ by no more than ``err``."""
        self._same(len(farray1), len(farray2), msg)
        for one, other in zip(farray1, farray2, strict=True):
            self.assertNear(one, other, err, msg)

    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None
    ) -> None:
        """Require two arrays' difference to have no norm above ``err``."""
        distance = float(np.linalg.norm(_array(ndarray1) - _array(ndarray2)))
        if distance > err:
            self.fail(f"{distance} > {err}: {msg or ''}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Require equal shapes."""
        self._same(tuple(np.shape(_array(input_a))), tuple(np.shape(_array(input_b))), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Require a type of elements."""
        expected = np.dtype(getattr(expected_dtype, "as_numpy_dtype", expected_dtype))
        self._same(_array(target).dtype, expected)

    def assertEmpty(self, container: Any, msg: str | None = None) -> None:
        """Require that there is nothing in it."""
        self._same(len(container), 0, msg)

    def assertNotEmpty(self, container: Any, msg: str | None = None) -> None:
        """Require that there is something in it."""
        if not len(container):
            self.fail(msg or "nothing is in it")

    def assertLen(self, container: Any, expected_len: int, msg: str | None = None) -> None:
        """Require a number of elements."""
        self._same(len(container), expected_len, msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Require how a text begins."""
        if not actual.startswith(expected_start):
            self.fail(msg or f"{actual!r:.200} does not start with {expected_start!r}")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Require all elements above a number."""
        self._all(a, _array(a) > comparison_target, f"> {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Require all elements at or above a number."""
        self._all(a, _array(a) >= comparison_target, f">= {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Require all elements below a number."""
        self._all(a, _array(a) < comparison_target, f"< {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Require all elements at or below a number."""
        self._all(a, _array(a) <= comparison_target, f"<= {comparison_target}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Require all elements to be in a set."""
        self._all(target, np.isin(_array(target), list(expected_set)), f"in {expected_set}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Require all elements between two numbers, which are allowed unless open."""
        x = _array(target)
        low = x > lower_bound if open_lower_bound else x >= lower_bound
        high = x < upper_bound if open_upper_bound else x <= upper_bound
        self._all(target, low & high, f"between {lower_bound} and {upper_bound}")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """Require an error of ``tf.errors`` whose message matches."""
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """Require an error whose message matches, or of which a function says True."""
        expected = expected_err_re_or_predicate
        try:
            yield
        except exception_type as error:
            fits = expected(error) if callable(expected) else re.search(expected, str(error))
            if not fits:
                raise AssertionError(f"Exception of another kind: {error!r}") from error
            return
        self.fail(f"{exception_type} was not raised")

    def _same(self, a: Any, b: Any, msg: str | None = None) -> None:
        if a != b:
            self.fail(f"{a!r} != {b!r}{'' if msg is None else f': {msg}'}")

    def _all(self, given: Any, fits: np.ndarray, rule: str) -> None:
        if not np.all(fits):
            self.fail(f"not all elements are {rule}: {_array(given)[~fits][:10]}")


def _message(what: str, a: Any, b: Any, msg: str | None) -> str:
    return f"{what}: {a} and {b}. {msg or ''}"


def _is_nested(value: Any) -> bool:
    """Whether it is a list or tuple with other shapes, or values, than one array has."""
    return isinstance(value, (list, tuple)) and any(
        isinstance(each, (list, tuple, Mapping, Tensor, np.ndarray)) for each in value
    )


def _numpy(leaf: Any) -> Any:
    return leaf.numpy() if hasattr(leaf, "numpy") else leaf


def _array(value: Any) -> np.ndarray:
    if isinstance(value, RaggedArray):
        _refuse_ragged()
    if isinstance(value, np.ndarray):
        return value
    return np.asarray(_numpy(value) if not isinstance(value, (list, tuple)) else _listed(value))


def _listed(value: Any) -> Any:
    return [_listed(v) if isinstance(v, (list, tuple)) else _numpy(v) for v in value]


def _refuse_ragged() -> NoReturn:
    raise TypeError("compare ragged tensors by their to_list()")
