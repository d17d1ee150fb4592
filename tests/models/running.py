"""Running a program of models on one device and under strategies, and comparing what comes out."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

import drumline.keras
from drumline.distribute import MirroredStrategy, Strategy

drumline.keras.install()

Facts = dict[str, np.ndarray]
"""What a program says it computed: curves, weights, predictions, by name."""

SEED = 11


@dataclass(frozen=True)
class Setting:
    """Where a program runs.

    Attributes:
        strategy: the strategy in whose scope models are made; None for plain Keras.
        compile: options that the program gives to every ``compile`` of its models.
        folder: an empty directory for what it writes, the same for all processes.
    """

    strategy: Strategy | None = None
    compile: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """The scope in which models are made."""
        with self.strategy.scope() if self.strategy is not None else contextlib.nullcontext():
            yield

    def wait_for_all(self) -> None:
        """Wait until all processes are here: what one has written, others then read."""
        if self.strategy is not None and self.strategy.spans_processes:
            self.strategy.barrier()


Program = Callable[[Setting, Any], Facts]
"""Takes a setting and the data, a tree of arrays whose first dimension counts rows."""


@dataclass(frozen=True)
class Case:
    """A program, its data, and how far replicas may be from one device.

    Attributes:
        program: what runs.
        data: makes its data.
        tolerance: relative and absolute.
        why: the cause of a tolerance of more than 1e-5.
        quick: the ways that run in ``make test``; the others are thorough.
        reference: for a number of replicas the program that gives the same on one device in plain
            Keras; None where that is the program itself.
    """

    program: Program
    data: Callable[[], Any]
    tolerance: float = 1e-5
    why: str = ""
    quick: tuple[str, ...] = ()
    reference: Callable[[int], Program] | None = None

    def __post_init__(self) -> None:
        assert self.why or self.tolerance <= 1e-5, "a larger tolerance needs a reason"


@dataclass(frozen=True)
class Way:
    """A way to run a case.

    Attributes:
        replicas: how many; each is a device of this process, or a process.
        processes: whether each replica is a process.
        steps_per_execution: of every ``compile``.
    """

    replicas: int
    processes: bool = False
    steps_per_execution: int = 1

    @property
    def compile(self) -> dict[str, Any]:
        """Options of ``compile``; none that says the default."""
        steps = self.steps_per_execution
        return {"steps_per_execution": steps} if steps > 1 else {}


WAYS = {
    "2 replicas": Way(2),
    "4 replicas": Way(4),
    "2 replicas, 3 steps at once": Way(2, steps_per_execution=3),
    "2 processes": Way(2, processes=True),
}


def run(case: Case, way: Way, folder: Path | None = None) -> Facts:
    """Run a case in this process."""
    assert not way.processes, "of processes each runs `run_in`"
    strategy = MirroredStrategy([f"cpu:{index}" for index in range(way.replicas)])
    return run_in(case, Setting(strategy, way.compile, folder))


def run_in(case: Case, setting: Setting, data: Any = None) -> Facts:
    """Run a case in a setting, from its random seed on."""
    keras.backend.clear_session()  # layers get the same names each time
    keras.utils.set_random_seed(SEED)
    data = case.data() if data is None else data
    return {name: np.asarray(value) for name, value in case.program(setting, data).items()}


def run_reference(case: Case, way: Way, folder: Path | None = None, data: Any = None) -> Facts:
    """What a case must give in a way, to rounding: computed on one device in plain Keras."""
    program = case.reference(way.replicas) if case.reference else case.program
    setting = Setting(None, way.compile, folder)
    return run_in(dataclasses.replace(case, program=program), setting, data)


def with_another_row(data: Any) -> Any:
    """The data with the last row replaced by the first: what a test must be able to see."""

    def replaced(leaf: np.ndarray) -> np.ndarray:
        return np.concatenate([leaf[:-1], leaf[:1]])

    return jax.tree.map(replaced, data)


def differences(found: Facts, expected: Facts, tolerance: float) -> list[str]:
    """What is not equal to within the tolerance, with how far it is off."""
    if found.keys() != expected.keys():
        return [f"facts are {sorted(found)}, not {sorted(expected)}"]
    off = []
    for name, value in found.items():
        theirs = expected[name]
        if value.shape != theirs.shape:
            off.append(f"{name}: shape {value.shape}, not {theirs.shape}")
        elif value.dtype.kind not in "fc":
            if not np.array_equal(value, theirs):
                off.append(f"{name}: {value.tolist()}, not {theirs.tolist()}")
        elif not np.allclose(value, theirs, rtol=tolerance, atol=tolerance, equal_nan=True):
            off.append(f"{name}: off by {np.abs(value - theirs).max():.3g}")
    return off


# ---- what most programs do


def facts_of(history: keras.callbacks.History, prefix: str = "") -> Facts:
    """The curves of a training."""
    return {f"{prefix}{name}": np.array(curve) for name, curve in history.history.items()}


def weights_of(*models: keras.Model) -> Facts:
    """The values of all weights, as float64."""
    return {
        f"weight {number} {index} {variable.path}": np.asarray(variable.numpy(), np.float64)
        for number, model in enumerate(models)
        for index, variable in enumerate(model.weights)
        if "seed" not in variable.path
    }


def predictions_of(model: keras.Model, x: Any, **options: Any) -> Facts:
    """What `predict` gives, leaf by leaf."""
    predicted = model.predict(x, verbose=0, **options)
    return {
        f"predicted {index}": np.asarray(leaf, np.float64)
        for index, leaf in enumerate(keras.tree.flatten(predicted))
    }


BATCH = 8


def fit_evaluate_predict(
    build: Callable[[Setting, Any], keras.Model], *, epochs: int = 2, **fit: Any
) -> Program:
    """The program that fits, evaluates and predicts what `build` makes.

    Args:
        build: makes and compiles a model in the setting's scope; also gets the data.
        epochs: of the training.
        fit: more options of ``fit``.
    """

    @functools.wraps(build)
    def program(setting: Setting, data: Any) -> Facts:
        with setting.scope():
            model = build(setting, data)
        x, y, weight = (*data, None)[:3]
        options = {"epochs": epochs, "verbose": 0, "shuffle": False, "batch_size": BATCH}
        history = model.fit(x, y, sample_weight=weight, **{**options, **fit})
        score = model.evaluate(
            x, y, sample_weight=weight, batch_size=BATCH, verbose=0, return_dict=True
        )
        return {
            **facts_of(history),
            **{f"evaluated {name}": np.array(value) for name, value in score.items()},
            **predictions_of(model, x, batch_size=BATCH),
            **weights_of(model),
        }

    return program
