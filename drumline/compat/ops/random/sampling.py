"""``tf.random``: draws that continue from call to call, stateless draws, and generators.

Where numbers come from depends on where a function runs:

- in a dataset's functions from the element's key, as `drumline.random`'s;
- in other functions that are compiled from a variable of seeds, so that each call draws others, and
  each replica its own;
- in all other code from numpy's Philox generator, which takes microseconds.

`set_seed` sets all of them, and Python's ``random``, from which dataset operations draw seeds.
"""

from __future__ import annotations

import functools
import inspect
import random
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.boundary import of_tensors
from drumline.compat.values.convert import cast_array, convert, is_jax, is_traced, raw, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.trace import Draws, drawn, in_dataset_function
from drumline.distribute.replica import get_strategy, running_replica
from drumline.training.jax_internals import is_staging
from drumline.training.keras_internals import outside_scopes

Sampler = Callable[[Any], Any]


class _SeededDraws:
    """Draws that continue from call to call: those of one operation's seed, or of none.

    Compiled functions have a state in a variable, one for each strategy: a variable lies on the
    devices of the strategy in which it is made, and functions of others cannot use it.
    """

    def __init__(self, seed: int | None):
        self.seed = seed
        self._variables: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.reset(None)

    def reset(self, process: int | None) -> None:
        """Begin again, for a seed of the whole process."""
        seeds = [seed for seed in (process, self.seed) if seed is not None]
        start = [random.getrandbits(63)] if not seeds else [abs(seed) for seed in seeds]
        self.generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(start)))
        self._start = int(self.generator.integers(2**31))
        for number, variable in enumerate(self._variables.values()):
            variable.state.assign(np.array([self._first(number), 0], "uint32"))

    def _first(self, number: int) -> int:
        """With what the state of a variable begins: each draws other numbers."""
        return (self._start + number * 0x9E3779B1) % 2**31

    def key(self) -> Any:
        """The key of the next draw."""
        if not is_staging():
            drawn_now: Any = self.generator.integers(2**32, size=2, dtype=np.uint32)
            return jax.random.wrap_key_data(drawn_now, impl="threefry2x32")
        strategy = get_strategy()
        variable = self._variables.get(strategy)
        if variable is None:
            with jax.ensure_compile_time_eval(), outside_scopes():
                first = self._first(len(self._variables))
                variable = self._variables[strategy] = keras.random.SeedGenerator(first)
        words = jnp.asarray(variable.next()).astype("uint32")
        return jax.random.wrap_key_data(words, impl="threefry2x32")


_streams: dict[int | None, _SeededDraws] = {}
_process_seed: int | None = None


def _stream(seed: int | None) -> _SeededDraws:
    if seed not in _streams:
        _streams[seed] = _SeededDraws(seed)
        if _process_seed is not None:
            _streams[seed].reset(_process_seed)
    return _streams[seed]


def set_seed(seed: Any) -> None:
    """Begin all draws of this process again, from a seed; from a random one if it is None."""
    global _process_seed
    _process_seed = None if seed is None else int(static(seed))
    for stream in _streams.values():
        stream.reset(_process_seed)
    # From it datasets draw the seeds of operations that are given none.
    random.seed(_process_seed)


def _draw(
    of_jax: Sampler, of_numpy: Callable[[np.random.Generator], Any] | None, seed: Any
) -> Tensor:
    """A draw, wherever the function runs.

    Args:
        of_jax: makes an array of a key.
        of_numpy: makes one of numpy's generator; None if numpy has no such distribution.
        seed: the operation's, or None.
    """
    number = None if seed is None else int(static(seed))
    if in_dataset_function():
        return Tensor(drawn(of_jax, number))
    if is_staging():
        return Tensor(of_jax(_stream(number).key()))
    if of_numpy is not None:
        return Tensor(np.asarray(of_numpy(_stream(number).generator)))
    return Tensor(of_jax(_stream(number).key()))


def of_drawing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of drumline's that draws, with an argument ``seed``, as one of tensors.

    Drumline's own draws in functions of datasets and outside of traces; this one draws from the
    streams of this module, which traces of `tf.function` and of steps have, too.
    """
    of_arrays = of_tensors(function)
    signature = inspect.signature(function)

    @functools.wraps(of_arrays)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("name", None)
        if in_dataset_function():
            return of_arrays(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        seed = given.arguments.pop("seed", None)
        words = jax.random.key_data(_stream(None if seed is None else int(static(seed))).key())
        with Draws(jnp.concatenate([words, words])):
            return of_arrays(*given.args, **given.kwargs)

    return call


def of_seed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of drumline's that draws as one whose draws depend on ``seed`` (2,) alone.

    The seed is required, at the place where ``function`` has its own.
    """
    of_arrays = of_tensors(function)
    signature = inspect.signature(function)
    names = list(signature.parameters)
    # What stands before the seed is required then, too.
    required = names[: names.index("seed") + 1]
    parameters = [
        each.replace(default=inspect.Parameter.empty) if name in required else each
        for name, each in signature.parameters.items()
    ]
    seed = names.index("seed")
    parameters[seed] = parameters[seed].replace(annotation=Any)

    @functools.wraps(of_arrays)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("name", None)
        given = signature.bind(*args, **kwargs)
        if "seed" not in given.arguments:
            raise TypeError(f"{call.__name__}() missing 1 required argument: 'seed'")
        words = jax.random.key_data(_key(given.arguments.pop("seed")))
        with Draws(jnp.concatenate([words, words])):
            return of_arrays(*given.args, **given.kwargs)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = f"stateless_{function.__name__}"
    call.__doc__ = f"As `{function.__name__}`; what is drawn depends on ``seed`` (2,) alone."
    return call


def _bits_64(key: Any, size: tuple[int, ...]) -> Any:
    """Random bits, uint64; where JAX has no 64-bit types by default its own functions have none."""
    high, low = jax.random.bits(key, (2, *size), "uint32")
    with jax.enable_x64(True):
        return high.astype("uint64") << 32 | low.astype("uint64")


def _unit_64(key: Any, size: tuple[int, ...]) -> Any:
    """Numbers in [0, 1), float64."""
    bits = _bits_64(key, size)
    with jax.enable_x64(True):
        return (bits >> 11).astype("float64") * 2.0**-53


def _as(kind: np.dtype, array: Any) -> Any:
    if kind.itemsize < 8:
        return array.astype(kind)
    with jax.enable_x64(True):
        return array.astype(kind)


def _shape(shape: Any) -> tuple[int, ...]:
    value = static(shape)
    return tuple(int(size) for size in np.atleast_1d(np.asarray(value, np.int64)).tolist())


def _kind(dtype: Any) -> np.dtype:
    return dtypes.as_dtype(dtype).dtype


def _of_uniform(
    shape: Any, minval: Any, maxval: Any, dtype: Any
) -> tuple[Sampler, Callable[[np.random.Generator], Any] | None]:
    """How to draw uniform numbers, for a key and for numpy.

    Raises:
        ValueError: integers without ``maxval``.
    """
    size, kind = _shape(shape), _kind(dtype)
    whole = kind.kind in "iu"
    if maxval is None:
        if whole:
            raise ValueError(f"Must specify maxval for integer dtype {kind}")
        maxval = 1
    low, high = (convert(each, kind) for each in (minval, maxval))
    fixed = not (is_jax(low) or is_jax(high))
    if whole:
        if fixed and np.any(low >= high):
            raise InvalidArgumentError(None, None, f"Need minval < maxval, got {low} >= {high}")

        def whole_of_jax(key: Any) -> Any:
            if kind.itemsize < 8:
                return jax.random.randint(key, size, low, high, kind)
            bits = _bits_64(key, size)
            with jax.enable_x64(True):
                width = (jnp.asarray(high) - jnp.asarray(low)).astype("uint64")
                return jnp.asarray(low) + (bits % width).astype(kind)

        return (
            whole_of_jax,
            (lambda numbers: numbers.integers(low, high, size, kind)) if fixed else None,
        )

    def of_numpy(numbers: np.random.Generator) -> Any:
        single = np.float64 if kind == np.float64 else np.float32
        return (numbers.random(size, single) * (high - low) + low).astype(kind)

    def of_jax(key: Any) -> Any:
        if kind.itemsize < 8:
            return jax.random.uniform(key, size, kind, low, high)
        unit = _unit_64(key, size)
        with jax.enable_x64(True):
            return unit * (jnp.asarray(high) - jnp.asarray(low)) + jnp.asarray(low)

    return (
        of_jax,
        of_numpy if fixed else None,
    )


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from ``minval`` (included) to ``maxval`` (excluded)."""
    of_jax, of_numpy = _of_uniform(shape, minval, maxval, dtype)
    return _draw(of_jax, of_numpy, seed)


def _of_normal(
    shape: Any, mean: Any, stddev: Any, dtype: Any, truncated: bool
) -> tuple[Sampler, Callable[[np.random.Generator], Any] | None]:
    kind = _kind(dtype)
    middle, width = (convert(each, kind) for each in (mean, stddev))
    size = _shape(shape)
    fixed = not (is_jax(middle) or is_jax(width))

    def of_jax(key: Any) -> Any:
        if kind.itemsize == 8:
            unit = _unit_64(key, size)
            with jax.enable_x64(True):
                # The inverse of the distribution function, of all or of what lies within two.
                bound = jax.scipy.special.erf(np.sqrt(2.0)) if truncated else 1.0
                inside = jnp.clip((2 * unit - 1) * bound, -1 + 2.0**-53, 1 - 2.0**-53)
                standard = np.sqrt(2.0) * jax.scipy.special.erfinv(inside)
                return standard * jnp.asarray(width) + jnp.asarray(middle)
        if truncated:
            standard = jax.random.truncated_normal(key, -2.0, 2.0, size, kind)
        else:
            standard = jax.random.normal(key, size, kind)
        return standard * jnp.asarray(width) + jnp.asarray(middle)

    def of_numpy(numbers: np.random.Generator) -> Any:
        single: Any = np.float64 if kind == np.float64 else np.float32
        standard = np.asarray(numbers.standard_normal(size, single))
        while truncated and (outside := np.abs(standard) > 2).any():
            standard[outside] = numbers.standard_normal(int(outside.sum()), single)
        return (standard * width + middle).astype(kind)

    return of_jax, of_numpy if fixed else None


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers."""
    of_jax, of_numpy = _of_normal(shape, mean, stddev, dtype, truncated=False)
    return _draw(of_jax, of_numpy, seed)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers within two standard deviations of the mean."""
    of_jax, of_numpy = _of_normal(shape, mean, stddev, dtype, truncated=True)
    return _draw(of_jax, of_numpy, seed)


def _of_gamma(shape: Any, alpha: Any, beta: Any, dtype: Any, whole_shape: bool) -> Sampler:
    """How to draw; `whole_shape` says that `shape` is that of the result."""
    kind = _kind(dtype)
    concentration, rate = convert(alpha, kind), convert(1.0 if beta is None else beta, kind)
    each = np.broadcast_shapes(concentration.shape, rate.shape)
    size = _shape(shape) if whole_shape else (*_shape(shape), *each)

    def of_jax(key: Any) -> Any:
        single = jnp.asarray(concentration).astype("float32")
        drawn_single = _as(kind, jax.random.gamma(key, single, size))
        with jax.enable_x64(kind.itemsize == 8):
            return drawn_single / jnp.asarray(rate)

    return of_jax


def gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """``shape`` numbers of each gamma distribution that ``alpha`` and ``beta`` give."""
    of_jax = _of_gamma(shape, alpha, beta, dtype, whole_shape=False)
    return _draw(of_jax, None, seed)


def _of_poisson(shape: Any, lam: Any, dtype: Any, whole_shape: bool) -> Sampler:
    kind, rate = _kind(dtype), convert(lam)
    size = _shape(shape) if whole_shape else (*_shape(shape), *rate.shape)
    single = jnp.asarray(rate).astype("float32")
    return lambda key: _as(kind, jax.random.poisson(key, single, size))


def poisson(
    shape: Any, lam: Any, dtype: Any = dtypes.float32, seed: Any = None, name: str | None = None
) -> Tensor:
    """``shape`` numbers of each Poisson distribution that ``lam`` gives."""
    of_jax = _of_poisson(shape, lam, dtype, whole_shape=False)
    return _draw(of_jax, None, seed)


def _of_categorical(logits: Any, num_samples: Any, dtype: Any) -> Sampler:
    kind = _kind(dtypes.int64 if dtype is None else dtype)
    given, count = convert(logits), int(static(num_samples))
    if given.ndim != 2:
        raise InvalidArgumentError(None, None, f"logits should be a matrix, got {given.shape}")
    size = (count, given.shape[0])

    def of_jax(key: Any) -> Any:
        return _as(kind, jax.random.categorical(key, jnp.asarray(given), shape=size).T)

    return of_jax


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: Any = None, name: str | None = None
) -> Tensor:
    """Classes (batch, num_samples), drawn by unnormalized log-probabilities (batch, classes)."""
    of_jax = _of_categorical(logits, num_samples, dtype)
    return _draw(of_jax, None, seed)


def shuffle(value: Any, seed: Any = None, name: str | None = None) -> Tensor:
    """The rows in random order."""
    rows = convert(value)
    if isinstance(rows, np.ndarray) and not is_staging():
        return _draw(
            lambda key: jax.random.permutation(key, rows),
            lambda numbers: numbers.permutation(rows),
            seed,
        )
    return _draw(lambda key: jax.random.permutation(key, rows), None, seed)


# Stateless draws.


def _key(seed: Any) -> Any:
    """The key for a seed of two integers.

    Raises:
        InvalidArgumentError: it is another shape.
    """
    words = convert(seed)
    if words.shape != (2,):
        raise InvalidArgumentError(None, None, f"seed must have shape [2], not {words.shape}")
    if words.dtype.itemsize == 8:
        with jax.enable_x64(True):
            words = (words ^ (words >> 32)) & 0xFFFFFFFF
    data = words.astype("uint32")
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


def _stateless(of_jax: Sampler, seed: Any) -> Tensor:
    return Tensor(of_jax(_key(seed)))


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Numbers from ``minval`` to ``maxval`` that depend on ``seed`` (2,) alone."""
    if minval is None and maxval is None:
        size, kind = _shape(shape), _kind(dtype)

        def all_bits(key: Any) -> Any:
            if kind.itemsize < 8:
                return jax.random.bits(key, size, f"u{kind.itemsize}").view(kind)
            return _as(kind, _bits_64(key, size))

        return _stateless(all_bits, seed)
    of_jax, _ = _of_uniform(shape, minval, maxval, dtype)
    return _stateless(of_jax, seed)


def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Normally distributed numbers that depend on ``seed`` (2,) alone."""
    of_jax, _ = _of_normal(shape, mean, stddev, dtype, truncated=False)
    return _stateless(of_jax, seed)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """As `truncated_normal`; they depend on ``seed`` (2,) alone."""
    of_jax, _ = _of_normal(shape, mean, stddev, dtype, truncated=True)
    return _stateless(of_jax, seed)


def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """As `gamma`, but ``shape`` is that of the result; the numbers depend on ``seed`` alone."""
    return _stateless(_of_gamma(shape, alpha, beta, dtype, whole_shape=True), seed)


def stateless_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Numbers of Poisson distributions, of the shape of the result, by ``seed`` (2,) alone."""
    return _stateless(_of_poisson(shape, lam, dtype, whole_shape=True), seed)


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """As `categorical`; the classes depend on ``seed`` (2,) alone."""
    of_jax = _of_categorical(logits, num_samples, dtype)
    return _stateless(of_jax, seed)


def stateless_shuffle(
    value: Any, seed: Any, alg: Any = "auto_select", name: str | None = None
) -> Tensor:
    """The rows in an order that depends on ``seed`` (2,) alone."""
    rows = convert(value)
    order = jax.random.permutation(_key(seed), rows.shape[0])
    return Tensor(rows[np.asarray(order)] if isinstance(rows, np.ndarray) else rows[order])


def split(seed: Any, num: Any = 2, alg: Any = "auto_select") -> Tensor:
    """Seeds (num, 2), int32, for a seed (2,)."""
    keys = jax.random.key_data(jax.random.split(_key(seed), int(static(num))))
    return Tensor(keys.view("int32"))


def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """The seed (2,), int32, that a number makes of a seed (2,)."""
    number = convert(data).astype("uint32")
    return Tensor(jax.random.key_data(jax.random.fold_in(_key(seed), number)).view("int32"))


# Candidates: classes that a loss samples in place of all.


class SampledCandidates(NamedTuple):
    """What candidate samplers give.

    Attributes:
        sampled_candidates: ``(num_sampled,)`` int64, the classes.
        true_expected_count: ``(rows, num_true)`` float32, how often each true class is expected
            in the sample.
        sampled_expected_count: ``(num_sampled,)`` float32, how often each sampled one is.
    """

    sampled_candidates: Any
    true_expected_count: Any
    sampled_expected_count: Any


def _draws_expected(chances: np.ndarray, count: int) -> float:
    """How many draws are expected to give so many different classes."""
    low, high = 0.0, float(count)
    with np.errstate(divide="ignore"):
        misses = np.log1p(-chances)

    def different(draws: float) -> float:
        return float(-np.expm1(draws * misses).sum())

    while different(high) < count - 1e-6 and high < 1e12:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if different(middle) < count else (low, middle)
    return max(high, float(count))


def _candidates(
    true_classes: Any, num_sampled: Any, unique: bool, chances: np.ndarray, seed: Any
) -> SampledCandidates:
    """Classes drawn by their chances; unique ones without putting them back."""
    count, total = int(static(num_sampled)), len(chances)
    possible = int((chances > 0).sum())
    if unique and count > possible:
        raise InvalidArgumentError(
            None,
            None,
            f"num_sampled is {count}, but there are {possible} classes to sample; give "
            "unique=False, or sample fewer",
        )
    with np.errstate(divide="ignore"):
        logs = np.log(chances).astype(np.float32)
    if unique:
        noise = convert(uniform([total], 1e-30, 1.0, seed=seed))
        xp: Any = jnp if is_jax(noise) else np
        keys = xp.asarray(logs) - xp.log(-xp.log(noise))
        chosen = xp.argsort(-keys)[:count]
        expected = -np.expm1(_draws_expected(chances, count) * np.log1p(-chances.clip(0, 1 - 1e-9)))
    else:
        places = convert(uniform([count], seed=seed))
        xp = jnp if is_jax(places) else np
        ends = np.cumsum(chances).astype(np.float32)
        chosen = xp.minimum(xp.searchsorted(xp.asarray(ends), places, "right"), total - 1)
        expected = chances * count
    counts = xp.asarray(expected.astype(np.float32))
    true = convert(true_classes)
    of_true: Any = jnp if is_jax(true) or xp is jnp else np
    return SampledCandidates(
        Tensor(cast_array(chosen, np.dtype(np.int64))),
        Tensor(of_true.asarray(counts)[true]),
        Tensor(counts[chosen]),
    )


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Any = None,
) -> SampledCandidates:
    """Classes from 0 to `range_max` (excluded), all as likely.

    Args:
        true_classes: ``(rows, num_true)`` integers.
        num_true: how many true classes a row has.
        num_sampled: how many classes to draw.
        unique: whether all of them differ.
        range_max: how many classes there are.
        seed: of the draws.
        name: not used.

    Raises:
        InvalidArgumentError: there are fewer classes than unique ones are wanted.
    """
    chances = np.full(int(range_max), 1 / int(range_max))
    return _candidates(true_classes, num_sampled, unique, chances, seed)


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: Any = None,
    name: Any = None,
) -> SampledCandidates:
    """Classes by Zipf's law: class ``k`` has the chance ``log((k + 2) / (k + 1))`` of the total.

    For classes in the order of decreasing frequency. Arguments are those of
    `uniform_candidate_sampler`.
    """
    size = int(range_max)
    chances = np.diff(np.log(np.arange(1, size + 2))) / np.log(size + 1)
    return _candidates(true_classes, num_sampled, unique, chances, seed)


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: Any = None,
    name: Any = None,
) -> SampledCandidates:
    """Classes by given frequencies.

    Args:
        true_classes: see `uniform_candidate_sampler`, as the four arguments after it.
        num_true: see there.
        num_sampled: see there.
        unique: see there.
        range_max: see there.
        vocab_file: a file whose lines end in a comma and the frequency of a class.
        distortion: the power of frequencies that is used.
        num_reserved_ids: how many classes, which are never drawn, come before those.
        num_shards: of how many parts of the classes only one is drawn from.
        shard: its number: classes that leave this remainder.
        unigrams: the frequencies, in place of the file.
        seed: of the draws.
        name: not used.

    Raises:
        InvalidArgumentError: the frequencies are not as many as classes.
    """
    if vocab_file:
        with open(vocab_file) as lines:
            unigrams = [float(line.rsplit(",", 1)[1]) for line in lines if line.strip()]
    weights = np.asarray(static(unigrams), np.float64) ** distortion
    weights = np.concatenate([np.zeros(num_reserved_ids), weights])
    if len(weights) != int(range_max):
        raise InvalidArgumentError(
            None,
            None,
            f"range_max is {range_max}, but there are {len(weights)} classes: "
            f"{num_reserved_ids} reserved ones, and those of the frequencies",
        )
    weights[np.arange(len(weights)) % num_shards != shard] = 0
    return _candidates(true_classes, num_sampled, unique, weights / weights.sum(), seed)


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: Any = None,
    name: Any = None,
) -> SampledCandidates:
    """All classes from 0 to `num_sampled` (excluded), each expected once."""
    count = int(static(num_sampled))
    true = np.ones(tuple(convert(true_classes).shape), np.float32)
    return SampledCandidates(
        Tensor(np.arange(count)), Tensor(true), Tensor(np.ones(count, np.float32))
    )


class _StateOfStep:
    """The state of a generator that a replica's step makes, and that ends with the step."""

    def __init__(self) -> None:
        self.value: Any = None

    def assign(self, value: Any) -> None:
        """Set it."""
        self.value = jnp.asarray(value)

    def assign_add(self, delta: Any) -> None:
        """Add to it."""
        self.value = self.value + delta


class _SeedsOfStep:
    """As ``keras.random.SeedGenerator``, without a variable."""

    def __init__(self) -> None:
        self.state = _StateOfStep()

    def next(self) -> Any:
        """The state; the next one is another."""
        found = self.state.value
        self.state.assign_add(np.array([0, 1], "uint32"))
        return found


class RandomGenerator:
    """Draws that continue from a state of their own, as ``tf.random.Generator``.

    Args:
        state: that of another generator, or its first seed: uint32 (2,).
        copy_from: another generator, whose state is taken.
    """

    def __init__(
        self, copy_from: RandomGenerator | None = None, state: Any = None, alg: Any = None
    ):
        if copy_from is not None:
            state = copy_from.state
        if state is None:
            raise ValueError("RandomGenerator needs copy_from or state; or use from_seed")
        # A step may create variables the first time it is traced only, and is traced often.
        in_step = is_staging() and running_replica() is not None
        self._seeds: Any = _SeedsOfStep() if in_step else keras.random.SeedGenerator(0)
        self.reset(state)

    def trackable_attributes(self) -> list[tuple[str, Any]]:
        """Its state, for checkpoints and saved models."""
        return [("_state_var", self._seeds.state)]

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> RandomGenerator:
        """One that begins with a seed."""
        return cls(state=_first_state(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> RandomGenerator:
        """One from a random state."""
        return cls(state=_first_state(random.SystemRandom().getrandbits(63)))

    @classmethod
    def from_state(cls, state: Any, alg: Any = None) -> RandomGenerator:
        """One that continues where another one was."""
        return cls(state=state)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any = None) -> RandomGenerator:
        """One for a key and the number of draws that were made."""
        count = np.asarray(raw(counter)).ravel()[0]
        return cls(state=np.array([int(static(key)) % 2**32, count], "uint32"))

    @property
    def state(self) -> Any:
        """The variable that holds the state, uint32 (2,): the seed and how often it was used."""
        return self._seeds.state

    def reset(self, state: Any) -> None:
        """Continue from a state."""
        value = raw(getattr(state, "value", state))
        value = value if is_traced(value) else np.asarray(value)
        self._seeds.state.assign(value[:2].astype("uint32"))

    def reset_from_seed(self, seed: Any) -> None:
        """Begin again with a seed."""
        self.reset(_first_state(seed))

    def skip(self, delta: Any) -> None:
        """Leave out draws."""
        self._seeds.state.assign_add(np.array([0, int(static(delta))], "uint32"))

    def _next(self) -> Tensor:
        return Tensor(jnp.asarray(self._seeds.next()).astype("uint32"))

    def make_seeds(self, count: Any = 1) -> Tensor:
        """Seeds (2, count) for stateless functions, int32."""
        return Tensor(jnp.asarray(split(self._next(), count)._value).T)

    def split(self, count: Any = 1) -> Sequence[RandomGenerator]:
        """As many generators with states of their own."""
        seeds = np.asarray(split(self._next(), count)._value).view("uint32")
        return [RandomGenerator(state=np.array([seed[0] ^ seed[1], 0], "uint32")) for seed in seeds]

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """As `uniform`."""
        return stateless_uniform(shape, self._next(), minval, maxval, dtype)

    def uniform_full_int(
        self, shape: Any, dtype: Any = dtypes.uint64, name: str | None = None
    ) -> Tensor:
        """Integers of the whole range of their type."""
        return stateless_uniform(shape, self._next(), None, None, dtype)

    def normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """As `normal`."""
        return stateless_normal(shape, self._next(), mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """As `truncated_normal`."""
        return stateless_truncated_normal(shape, self._next(), mean, stddev, dtype)

    def binomial(
        self,
        shape: Any,
        counts: Any,
        probs: Any,
        dtype: Any = dtypes.int32,
        name: str | None = None,
    ) -> Tensor:
        """How many of ``counts`` trials succeed with probability ``probs``."""
        kind, size = _kind(dtype), _shape(shape)
        trials, chance = convert(counts, dtypes.float32), convert(probs, dtypes.float32)
        return _stateless(
            lambda key: _as(kind, jax.random.binomial(key, trials, chance, size)), self._next()
        )


RandomGenerator.__name__ = RandomGenerator.__qualname__ = "Generator"


def _first_state(seed: Any) -> np.ndarray:
    words = np.random.SeedSequence(np.abs(np.atleast_1d(static(seed))).tolist())
    return np.array([words.generate_state(1)[0], 0], "uint32")


_global_generator: RandomGenerator | None = None


def get_global_generator() -> RandomGenerator:
    """The generator of the process, from a random state if none was set."""
    global _global_generator
    if _global_generator is None:
        _global_generator = RandomGenerator.from_non_deterministic_state()
    return _global_generator


def set_global_generator(generator: RandomGenerator) -> None:
    """Set the generator of the process."""
    global _global_generator
    _global_generator = generator
